#include "producer/csv_stream.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "features/number.h"
#include "features/quoted_value.h"
#include "topics/frame.h"
#include "topics/row_batch.h"

namespace millrace {

bool CanReadAgain(const CsvFile& file) {
  return !file.is_stdin() && file.total_bytes().has_value();
}

StatusOr<std::unique_ptr<CsvStream>> CsvStream::Create(std::unique_ptr<CsvFile> file,
                                                       const CsvFile::Options& file_options,
                                                       const Options& options,
                                                       RejectSink& rejects) {
  MILLRACE_ASSIGN_OR_RETURN(CsvRowEncoder rows,
                            CsvRowEncoder::Create(options.spec, file->columns(), file->name()));
  std::optional<size_t> time_position;
  if (!options.time_column.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(time_position,
                              FindColumn(file->columns(), options.time_column, file->name()));
  }
  std::unique_ptr<CsvStream> stream(
      new CsvStream(std::move(file), file_options, options, std::move(rows), rejects));
  stream->time_position_ = time_position;
  return stream;
}

StatusOr<CsvStream::Event> CsvStream::Next(StreamRecord* record) {
  while (true) {
    MILLRACE_ASSIGN_OR_RETURN(const bool found, file_->Next(&csv_record_));
    if (!found) {
      MILLRACE_ASSIGN_OR_RETURN(const bool more, StartNextEpoch());
      if (!more) return Event::kEnd;
      continue;
    }
    if (epoch_ == 0) ++rows_read_;
    const Status encoded = Encode(record);
    if (!encoded.ok()) {
      MILLRACE_RETURN_IF_ERROR(Reject(encoded));
      return Event::kRejected;
    }
    record->number = next_number_++;
    record->epoch = epoch_;
    record->row.replayed = epoch_ > 0;
    record->line = csv_record_.line;
    return Event::kRow;
  }
}

Status CsvStream::Encode(StreamRecord* record) {
  if (!csv_record_.ok()) return absl::InvalidArgumentError(csv_record_.error);
  MILLRACE_RETURN_IF_ERROR(rows_.Encode(csv_record_.fields, &record->row));
  // Decided here, since a row that is too large must not take a number.
  if (EncodedBytesOf(record->row) > kMaxFrameBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        record->row.index.size(), " features are too many for one Kafka record of 1 MiB"));
  }
  if (time_position_) {
    const std::string_view cell = TrimSpaces(csv_record_.fields[*time_position_]);
    record->time = ParseTime(cell);
    if (!record->time) {
      return absl::InvalidArgumentError(
          absl::StrCat("column ", QuotedValue(options_.time_column), ": ", QuotedValue(cell),
                       " is not a time (seconds, milliseconds, ISO 8601 or DD.MM.YYYY)"));
    }
  }
  return absl::OkStatus();
}

Status CsvStream::Reject(const Status& reason) {
  if (epoch_ > 0) return absl::OkStatus();
  ++rows_rejected_;
  const std::string_view text = TextOf(reason);
  last_reason_ =
      absl::StrCat("line ", csv_record_.line, ": ", absl::string_view(text.data(), text.size()));
  MILLRACE_RETURN_IF_ERROR(rejects_.Add({csv_record_.line, text, csv_record_.raw}));
  if (options_.max_rejects >= 0 && rows_rejected_ > static_cast<uint64_t>(options_.max_rejects)) {
    return absl::FailedPreconditionError(
        absl::StrCat(file_->name(), " has more than ", options_.max_rejects,
                     " malformed rows (--max-rejects); the last: ", last_reason_,
                     rejects_.is_kept() ? absl::StrCat("; all are in ", rejects_.name()) : ""));
  }
  return absl::OkStatus();
}

StatusOr<bool> CsvStream::StartNextEpoch() {
  if (epoch_ == 0) {
    rows_per_epoch_ = next_number_;
    MILLRACE_RETURN_IF_ERROR(rejects_.Finish());
  } else if (next_number_ != rows_per_epoch_ * (epoch_ + 1)) {
    return absl::FailedPreconditionError(absl::StrCat(
        file_->name(), " changed while it was streamed: epoch ", epoch_ + 1, " has ",
        next_number_ - rows_per_epoch_ * epoch_, " rows, the first had ", rows_per_epoch_,
        "; restore the file and start the producer again, or start a new job (another --job)"));
  }
  if (epoch_ + 1 >= options_.epochs) return false;
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<CsvFile> again,
                            CsvFile::Open(file_->name(), file_options_));
  if (again->columns() != file_->columns()) {
    return absl::FailedPreconditionError(
        absl::StrCat(file_->name(),
                     " changed while it was streamed: it has other columns now; restore the file "
                     "and start the producer again, or start a new job (another --job)"));
  }
  finished_bytes_ += file_->bytes_read();
  file_ = std::move(again);
  ++epoch_;
  return true;
}

uint64_t CsvStream::total_bytes() const {
  if (is_followed()) return 0;  // nobody knows where it will end
  return file_->total_bytes().value_or(0) * options_.epochs;
}

}  // namespace millrace
