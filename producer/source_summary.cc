#include "producer/source_summary.h"

#include "absl/strings/str_cat.h"
#include "base/grouped_number.h"
#include "metrics/source_counts.h"

namespace millrace {

ProducerProgress ProgressOfSource(const SourceState& written, const MetricPoint::Setup& setup,
                                  bool ended) {
  ProducerProgress progress;
  progress.set_bytes_read(written.bytes());
  progress.set_rows_read(written.rows() + written.dead_letters());
  progress.set_rows_rejected(written.dead_letters());
  progress.set_rows_sent(written.rows());
  progress.set_ended(ended);
  *progress.mutable_setup() = setup;
  progress.set_epoch_of_stream(1);
  progress.set_epochs_of_stream(1);
  AddSourceCounts(written, progress);
  return progress;
}

std::string SummaryOfSource(const std::string& input_data, const SourceState& written,
                            uint64_t rows_of_run, const std::string& labels_topic) {
  std::string line = absl::StrCat(input_data, " holds ", GroupedNumber(written.rows()), " rows, ",
                                  GroupedNumber(rows_of_run), " of them from this run");
  const auto append = [&line](uint64_t count, const char* what) {
    if (count > 0) absl::StrAppend(&line, "; ", GroupedNumber(count), what);
  };
  append(written.dead_letters(), " records could not be used and are in dead-letter");
  append(written.tombstones(), " records had no value");
  append(written.lost(), " offsets were deleted before they were read");
  if (!labels_topic.empty()) {
    absl::StrAppend(&line, "; of ", labels_topic, ": ", LabelCountsText(written.labels()));
  }
  return line;
}

}  // namespace millrace
