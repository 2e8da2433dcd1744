#include "watch/plain_line.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "topics/figures_verdict.h"
#include "watch/phrases.h"
#include "watch/terminal_text.h"
#include "watch/warning_lines.h"

namespace millrace {
namespace {

constexpr int kClocksTold = 8;

std::string FiguresText(const std::string& name, const Figures& figures) {
  if (figures.has_rmse()) {
    std::string text =
        absl::StrFormat("%s: RMSE %.4f (prior %.4f)", name, figures.rmse(), figures.prior_rmse());
    if (figures.has_mae()) absl::StrAppend(&text, absl::StrFormat(", MAE %.4f", figures.mae()));
    if (figures.has_r2()) absl::StrAppend(&text, absl::StrFormat(", R2 %.4f", figures.r2()));
    return text;
  }
  std::string text = absl::StrFormat("%s: accuracy %.4f (prior %.4f)", name, figures.accuracy(),
                                     figures.prior_accuracy());
  if (figures.has_auc()) absl::StrAppend(&text, absl::StrFormat(", AUC %.4f", figures.auc()));
  if (figures.has_pr_auc()) {
    absl::StrAppend(&text, absl::StrFormat(", PR-AUC %.4f (prior %.4f)", figures.pr_auc(),
                                           figures.prior_pr_auc()));
  }
  absl::StrAppend(&text, absl::StrFormat(", log loss %.4f (prior %.4f)", figures.log_loss(),
                                         figures.prior_log_loss()));
  if (figures.has_calibration_error()) {
    absl::StrAppend(&text,
                    absl::StrFormat(", calibration error %.4f", figures.calibration_error()));
  }
  return text;
}

std::string ClocksText(const JobProgress::ServerPoint& server) {
  if (server.workers_size() == 0) return "";
  uint64_t low = server.workers(0).clock();
  uint64_t high = low;
  std::string all;
  for (const WorkerProgress& worker : server.workers()) {
    low = std::min(low, worker.clock());
    high = std::max(high, worker.clock());
    absl::StrAppend(&all, all.empty() ? "" : " ", worker.clock());
  }
  if (low == high) return absl::StrCat("clocks ", low);
  if (server.workers_size() <= kClocksTold) return absl::StrCat("clocks ", all);
  return absl::StrCat("clocks ", low, " to ", high);
}

}  // namespace

std::string PlainLine(const JobProgress& job, const JobState& state, double waited_seconds) {
  if (job.last_timestamp_ms() == 0) {
    return NoFiguresText(state, waited_seconds);
  }
  const bool moves = state.kind == JobState::Kind::kRunning || job.ended();
  std::string line = ClockTime(job.duration_seconds().value_or(0));
  const auto share = job.stream_share();
  absl::StrAppend(&line, "  ");
  if (share) absl::StrAppend(&line, absl::StrFormat("%.0f %%, ", std::floor(100 * share->learnt)));
  absl::StrAppend(&line, GroupedNumber(job.rows_tested()), " rows");
  if (const auto left = job.seconds_left(); left && moves) {
    absl::StrAppend(&line, ", ", ClockTime(*left), " left");
  }
  if (job.server()) {
    const JobProgress::ServerPoint& server = *job.server();
    const auto rate = [&](std::optional<double> recent, std::optional<double> whole) {
      return RateText(job.ended() ? whole : (moves ? recent : 0));
    };
    absl::StrAppend(&line, "; ", rate(job.recent_rows_per_second(), job.rows_per_second()),
                    " rows/s, ", rate(job.recent_rounds_per_second(), job.rounds_per_second()),
                    " rounds/s; ", ClocksText(server), ", staleness ", server.staleness(),
                    absl::StrFormat(", loss %.3f", server.train_loss()));
    if (server.progressive().rows() > 0) {
      absl::StrAppend(&line, "; ", FiguresText("progressive", server.progressive()));
    }
    if (const uint64_t rows = server.window().rows(); rows > 0) {
      const std::string name = absl::StrCat("last window of ", GroupedNumber(rows), " rows");
      absl::StrAppend(&line, "; ", FiguresText(name, server.window()));
    }
  }
  if (job.holdout()) absl::StrAppend(&line, "; ", FiguresText("held-out", *job.holdout()));
  if (job.server() && job.server()->tail().rows() > 0) {
    absl::StrAppend(&line, "; ", FiguresText("tail", job.server()->tail()));
  }
  if (const std::string warnings = WarningTexts(WarningsOf(job)); !warnings.empty()) {
    absl::StrAppend(&line, "; warnings: ", warnings);
  }
  if (job.server()) {
    const auto& server = *job.server();
    if (const auto warning = WorseThanPriorText(server.progressive(), server.window())) {
      absl::StrAppend(&line, "; warning: ", *warning);
    }
    if (const auto drift = DriftNotice(job)) absl::StrAppend(&line, "; ", *drift);
  }
  if (!moves) absl::StrAppend(&line, "; ", StateText(state));
  return line;
}

}  // namespace millrace
