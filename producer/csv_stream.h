// The rows of a CSV, encoded and numbered, epoch after epoch; malformed ones set aside.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/status.h"
#include "features/csv_row_encoder.h"
#include "features/time_value.h"
#include "formats/csv_file.h"
#include "formats/reject_file.h"
#include "messages/features.pb.h"
#include "models/row.h"

namespace millrace {

// Whether the file can be read from its start again, in later epochs and after a restart.
bool CanReadAgain(const CsvFile& file);

// An accepted row.
struct StreamRecord {
  Row row;
  uint64_t line = 0;    // of the file
  uint64_t number = 0;  // in the stream, from 0: accepted rows of all epochs are counted
  uint32_t epoch = 0;   // from 0
  std::optional<RecordedTime> time;  // if the stream has a time column
};

// Whether a row is accepted depends on its bytes and the options alone, so that a second reading
// gives every row the same number. Not thread-safe.
class CsvStream {
 public:
  struct Options {
    FeatureSpec spec;         // complete: with classes
    std::string time_column;  // empty: none
    uint32_t epochs = 1;
    int64_t max_rejects = -1;  // more malformed rows are an error; negative: no limit
  };

  // `file` is positioned after its header. `file_options` are for opening it again: more than one
  // epoch needs a file that can be read again. `rejects` outlives the stream. Errors: those of
  // CsvRowEncoder::Create(), and a time column that the file does not have.
  static StatusOr<std::unique_ptr<CsvStream>> Create(std::unique_ptr<CsvFile> file,
                                                     const CsvFile::Options& file_options,
                                                     const Options& options, RejectSink& rejects);

  enum class Event {
    kRow,       // *record is the next accepted row
    kRejected,  // a malformed row was skipped; it has no number
    kEnd,       // of the last epoch
  };
  // Errors: reading or writing rejects fails, too many rejects, a file that changed between epochs.
  StatusOr<Event> Next(StreamRecord* record);

  // See CsvFile. A pipe has one epoch, so it holds for the file that is being read.
  void set_while_waiting(std::function<Status()> while_waiting) {
    file_->set_while_waiting(std::move(while_waiting));
  }

  // A pipe, or a file that is followed: its rows come when they come.
  bool is_live() const { return !CanReadAgain(*file_) || file_options_.follow; }
  bool is_followed() const { return file_options_.follow; }

  uint64_t accepted() const { return next_number_; }
  // Of the first epoch; the others have the same ones.
  uint64_t rows_read() const { return rows_read_; }
  uint64_t rows_rejected() const { return rows_rejected_; }
  const std::string& last_reason() const { return last_reason_; }  // "line 7: ..."

  uint32_t epoch() const { return epoch_; }
  uint32_t epochs() const { return options_.epochs; }
  // Over all epochs.
  uint64_t bytes_read() const { return finished_bytes_ + file_->bytes_read(); }
  uint64_t total_bytes() const;  // 0: unknown

  const FeatureEncoder& encoder() const { return rows_.encoder(); }
  const FeatureSpec& spec() const { return options_.spec; }

 private:
  CsvStream(std::unique_ptr<CsvFile> file, const CsvFile::Options& file_options,
            const Options& options, CsvRowEncoder rows, RejectSink& rejects)
      : options_(options),
        file_options_(file_options),
        file_(std::move(file)),
        rows_(std::move(rows)),
        rejects_(rejects) {}

  Status Encode(StreamRecord* record);
  Status Reject(const Status& reason);
  StatusOr<bool> StartNextEpoch();

  const Options options_;
  const CsvFile::Options file_options_;
  std::unique_ptr<CsvFile> file_;
  CsvRowEncoder rows_;
  RejectSink& rejects_;
  std::optional<size_t> time_position_;

  CsvRecord csv_record_;
  uint32_t epoch_ = 0;
  uint64_t next_number_ = 0;
  uint64_t rows_per_epoch_ = 0;  // accepted; known from the end of the first epoch
  uint64_t rows_read_ = 0;
  uint64_t rows_rejected_ = 0;
  uint64_t finished_bytes_ = 0;
  std::string last_reason_;
};

}  // namespace millrace
