// What is written for each record of a topic: the prediction of the row that it holds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "kafka/consumer.h"
#include "predictor/empty_rows.h"
#include "predictor/prediction_text.h"
#include "predictor/row_scorer.h"
#include "producer/row_decoder.h"
#include "producer/source_format.h"

namespace millrace {

// Collects records and scores them together. Not thread-safe.
class RecordScorer {
 public:
  enum class Format : uint8_t { kJson, kCsv, kAvro };
  struct Options {
    Format format = Format::kJson;
    std::vector<std::string> columns{};  // of kCsv: the names of a line's fields
    char delimiter = ',';                // of kCsv
    bool with_row = false;               // predictions have the row beside them; not of kAvro
    std::shared_ptr<const SourceFormat> avro{};  // of kAvro: has the schemas
  };
  // InvalidArgument: the columns do not fit the model, or a name stands there twice.
  static StatusOr<RecordScorer> Create(std::shared_ptr<const ModelScorer> model, Options options);

  struct Header {
    std::string name;
    std::optional<std::string> value;  // empty: Kafka's null, as of what follows
  };
  struct Scored {
    enum class Kind : uint8_t { kPrediction, kError, kTombstone };
    Kind kind = Kind::kPrediction;
    int32_t partition = 0;  // of its source
    Offset offset = 0;      // of its source
    int64_t timestamp_ms = 0;
    std::optional<std::string> key{};
    std::vector<Header> headers{};
    // {"class":..,"probabilities":{..},"source":{"partition":0,"offset":7}}, as PredictionText has
    // it; "row" follows, if it is wanted: the object as it stood there, or the fields of the line
    // by their names, as strings. {"error":"..","source":..} for what holds no row, and for what
    // would be larger than a record may be; the latter has no headers, nor a key that is very
    // large. Empty: a tombstone.
    std::optional<std::string> value{};

    size_t bytes() const;  // of key, value and headers, about as a topic's limit counts them
  };

  const ModelScorer& model() const { return rows_.model(); }
  // Scores by this model from here on, and goes on counting. False: it has other features.
  // REQUIRES: no records.
  bool Use(std::shared_ptr<const ModelScorer> model);

  // An error is one of CellDecoder that says nothing of the value (a schema registry is away): the
  // record is not added, and may be again.
  Status Add(const ConsumedRecord& record);
  size_t records() const { return records_.size(); }
  // Whether more are held for nothing.
  bool is_full() const {
    return records_.size() >= RowScorer::kRowsAtOnce || bytes_ >= kMostBytesAtOnce;
  }
  // All records, in the order in which they were added; valid until Clear(), which must follow.
  std::span<const Scored> Score();
  void Clear();

  uint64_t rows() const { return empty_rows_.rows; }             // that were decoded
  std::string_view last_reason() const { return last_reason_; }  // why a record held no row
  const EmptyRows& empty_rows() const { return empty_rows_; }    // of them
  std::span<const std::string> columns() const { return rows_.columns(); }
  // Of the columns: those that have had no value in any row.
  std::vector<std::string> EmptyColumns() const;

 private:
  RecordScorer(Options options, RowScorer rows, CellDecoder decode, bool has_label);

  Status AddRow(std::string_view value);
  StatusOr<std::string> RowText(std::string_view value) const;
  void NoteRow(bool is_empty, std::string_view value);

  static constexpr size_t kMostBytesAtOnce = size_t{8} << 20;

  Options options_;
  RowScorer rows_;
  CellDecoder decode_;
  bool has_label_;  // the cells begin with it
  PredictionText text_;
  std::vector<Scored> records_;
  std::vector<std::string> row_texts_;  // of each row in rows_, if options_.with_row
  std::vector<bool> has_value_;         // of each column
  size_t bytes_ = 0;                    // of the records' values
  EmptyRows empty_rows_;
  std::string last_reason_;
};

}  // namespace millrace
