#include "metrics/source_counts.h"

#include "absl/strings/str_cat.h"
#include "base/grouped_number.h"

namespace millrace {

void AddSourceCounts(const SourceState& state, MetricPoint::ProducerProgress& point) {
  SourcedProgress sourced;
  SourceState& counts = *sourced.mutable_source();
  counts = state;
  counts.clear_next_offset();
  counts.clear_last_timestamp_ms();
  counts.clear_last_end();
  if (counts.has_labels()) {
    counts.mutable_labels()->clear_partition();
    counts.mutable_labels()->clear_row_newest_ms();
  }
  // It is kept among the fields that the message does not know.
  point.MergeFromString(sourced.SerializeAsString());
}

std::optional<SourceState> SourceCountsOf(const MetricPoint::ProducerProgress& point) {
  SourcedProgress sourced;
  if (!sourced.ParseFromString(point.SerializeAsString()) || !sourced.has_source()) {
    return std::nullopt;
  }
  return sourced.source();
}

const char* NameOfProducer(const MetricPoint::ProducerProgress& point) {
  return SourceCountsOf(point) ? "TopicSource" : "CsvProducer";
}

uint64_t JoinedRows(const SourceState::Labels& labels) {
  return labels.matched() + labels.defaulted() + labels.unmatched();
}

std::string LabelCountsText(const SourceState::Labels& labels) {
  std::string line = absl::StrCat(GroupedNumber(labels.matched()), " rows have a label");
  const auto append = [&line](uint64_t count, const char* what) {
    if (count > 0) absl::StrAppend(&line, "; ", GroupedNumber(count), what);
  };
  append(labels.defaulted(), " without one got that of --unmatched-label");
  append(labels.unmatched(), " without one were left out");
  append(labels.unused(), " labels were of no row");
  append(labels.dead_letters(), " records of labels could not be used and are in dead-letter");
  append(labels.tombstones(), " records of labels had no value");
  append(labels.lost(), " offsets of labels were deleted before they were read");
  return line;
}

}  // namespace millrace
