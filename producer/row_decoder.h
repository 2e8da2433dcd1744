// Turns the value of a record that somebody else wrote into a Row. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "features/csv_columns.h"
#include "features/feature_encoder.h"
#include "formats/avro_schema.h"
#include "models/row.h"
#include "producer/schema_cache.h"

namespace millrace {

// Hands over the cells of the columns that it was made for, in their order; the views are valid
// until the call returns.
using TakeCells = std::function<Status(std::span<const std::string_view> cells)>;
// Calls `take` with the cells of the one row that `value` holds, and returns its error. Another
// format of records is another of these functions. InvalidArgument with the reason, maybe after a
// call of `take`: the value holds no row, or several. Any other error: whether it does is not known
// (DecodeAvro). Not thread-safe.
using CellDecoder = std::function<Status(std::string_view value, const TakeCells& take)>;

// Whether the error says nothing of the record, which must not be left out: of a schema registry,
// say.
bool IsOfNoRecord(const Status& decoded);

// A JSON object; `columns` as in formats/json_fields.h. A member that is not there is an empty
// cell. The header of a schema registry may stand before it (producer/schema_header.h).
CellDecoder DecodeJson(std::vector<std::string> columns, bool decimal_comma);

// A value in Avro's encoding, of this schema; `columns` as in formats/avro_fields.h.
CellDecoder DecodeAvro(std::vector<std::string> columns, bool decimal_comma,
                       std::shared_ptr<const AvroSchema> schema);
// The same, of the schema that the registry's header names. Errors that are not InvalidArgument are
// those of SchemaCache::Get(), and say nothing of the value.
CellDecoder DecodeAvro(std::vector<std::string> columns, bool decimal_comma,
                       std::shared_ptr<SchemaCache> schemas);

// The columns of a row whose label comes later: those of the encoder without the label, and that of
// the join's key, if it is none of them.
std::vector<std::string> KeyedColumns(const FeatureEncoder& encoder, const std::string& key);

// A line of CSV (formats/csv_parser.h), perhaps with its end, with the fields that `header` names;
// those that the encoder requires are picked, without the label if it may be missing and is.
// InvalidArgument: a column that the header has not, or a name that it has twice.
StatusOr<CellDecoder> DecodeCsv(const std::vector<std::string>& header,
                                const FeatureEncoder& encoder, char delimiter,
                                CsvColumns::Label label = CsvColumns::Label::kNeeded);
// The same, with these columns of it; `flag` is that of the header, in messages.
StatusOr<CellDecoder> DecodeCsv(const std::vector<std::string>& header,
                                const std::vector<std::string>& columns, char delimiter,
                                const std::string& flag = "--columns");

// Makes rows of values. Not thread-safe.
class RowDecoder {
 public:
  // `cells` are those of encoder.required_columns().
  RowDecoder(CellDecoder cells, FeatureEncoder encoder)
      : cells_(std::move(cells)),
        encoder_(std::move(encoder)),
        columns_(encoder_.required_columns()),
        has_value_(columns_.size()) {}
  // Of rows whose labels come later; `cells` are those of KeyedColumns(encoder, key).
  RowDecoder(CellDecoder cells, FeatureEncoder encoder, const std::string& key);

  // Overwrites *row. InvalidArgument with the reason: there is no row. Others: of the CellDecoder.
  Status Decode(std::string_view value, Row* row);
  // The same of a row whose label comes later, which is 0 in *row. REQUIRES that it was made for
  // such.
  Status DecodeKeyed(std::string_view value, Row* row, std::string* key);

  uint64_t rows() const { return rows_; }  // that were made
  // The columns whose cells were empty in all of these rows: maybe they are called otherwise.
  std::vector<std::string> EmptyColumns() const;

 private:
  void NoteValues(std::span<const std::string_view> cells);

  CellDecoder cells_;
  FeatureEncoder encoder_;
  std::vector<std::string> columns_;
  size_t key_ = 0;  // in columns_, where labels come later
  uint64_t rows_ = 0;
  std::vector<bool> has_value_;  // of each column, in one of the rows at least
};

}  // namespace millrace
