#include "watch/phrases.h"

#include <cstdint>
#include <optional>

#include "absl/strings/str_cat.h"
#include "metrics/source_counts.h"
#include "topics/drift_codec.h"
#include "topics/figures_verdict.h"

namespace millrace {
namespace {

constexpr char kFirstFigures[] = "for the job's first figures";

}  // namespace

std::string NoFiguresText(const JobState& state, double waited_seconds) {
  const bool other = state.kind == JobState::Kind::kWaiting && !state.reason.empty() &&
                     state.reason != kFirstFigures;
  if (other) return StateText(state);
  return absl::StrCat("waiting ", kFirstFigures, " (", ClockTime(waited_seconds), ")");
}

std::string ReplacedText(const JobProgress& job) {
  const std::optional<uint64_t> replaced = job.rows_replaced();
  if (!replaced || *replaced == 0) return "";
  return absl::StrCat(GroupedNumber(*replaced), *replaced == 1 ? " row was" : " rows were",
                      " replaced in the sliding buffers before an update used them");
}

std::string LateLabelsText(const JobProgress& job) {
  if (!job.producer()) return "";
  const std::optional<SourceState> source = SourceCountsOf(*job.producer());
  return source && source->has_labels() ? LabelCountsText(source->labels()) : "";
}

std::optional<std::string> DriftNotice(const JobProgress& job) {
  if (!job.server() || job.server()->drift().count() == 0) return std::nullopt;
  return DriftText(job.server()->drift(), job.server()->progressive().has_rmse());
}

std::vector<std::string> QualityWarning(const JobProgress& job, const Style& style, size_t width) {
  if (!job.server()) return {};
  std::vector<std::string> lines;
  const auto& server = *job.server();
  if (const auto warning = WorseThanPriorText(server.progressive(), server.window())) {
    for (const std::string& line : Wrapped("Warning: " + *warning + ".", width)) {
      lines.push_back(Inked(style, Ink::kWarn, line));
    }
  }
  if (const auto drift = DriftNotice(job)) {
    for (const std::string& line : Wrapped("Note: " + *drift + ".", width)) {
      lines.push_back(Inked(style, Ink::kWarn, line));
    }
  }
  return lines;
}

std::string NothingReceivedText(const std::string& brokers) {
  return absl::StrCat("nothing was received from Kafka at ", brokers);
}

}  // namespace millrace
