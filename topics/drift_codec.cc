#include "topics/drift_codec.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/grouped_number.h"

namespace millrace {

void ToProto(const DriftDetector::Drift& drift, Drift& message) {
  message.set_count(drift.count);
  message.set_row(drift.row);
  message.set_found_at(drift.found_at);
  message.set_clock(drift.clock);
  message.set_before(drift.before);
  message.set_after(drift.after);
}

void ToProto(const DriftDetector& detector, ShardState::DriftWatch& message) {
  const DriftDetector::State& state = detector.state();
  message.set_blocks(state.blocks);
  message.set_mean(state.mean);
  message.set_variance(state.variance);
  message.set_excess(state.excess);
  message.set_excess_begin(state.excess_begin);
  message.set_excess_rows(state.excess_rows);
  message.set_excess_loss(state.excess_loss);
  message.set_excess_from(state.excess_from);
  message.set_open_rows(state.open_rows);
  message.set_open_loss(state.open_loss);
  ToProto(state.last, *message.mutable_last());
}

DriftDetector::State FromProto(const ShardState::DriftWatch& message) {
  const Drift& last = message.last();
  return {.blocks = message.blocks(),
          .mean = message.mean(),
          .variance = message.variance(),
          .excess = message.excess(),
          .excess_begin = message.excess_begin(),
          .excess_rows = message.excess_rows(),
          .excess_loss = message.excess_loss(),
          .excess_from = message.excess_from(),
          .open_rows = message.open_rows(),
          .open_loss = message.open_loss(),
          .last = {.count = last.count(),
                   .row = last.row(),
                   .found_at = last.found_at(),
                   .clock = last.clock(),
                   .before = last.before(),
                   .after = last.after()}};
}

std::string DriftText(const Drift& drift, bool is_regression) {
  const std::string times =
      drift.count() > 1 ? absl::StrCat(" (change ", drift.count(), " so far)") : "";
  return absl::StrFormat(
      "the stream has changed%s: the %s rose from %.4f to %.4f%s at row %s (noticed at row %s)",
      times, is_regression ? "absolute error" : "log loss", drift.before(), drift.after(),
      is_regression ? " standard deviations of the targets" : "", GroupedNumber(drift.row()),
      GroupedNumber(drift.found_at()));
}

}  // namespace millrace
