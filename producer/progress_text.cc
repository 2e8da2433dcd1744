#include "producer/progress_text.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/grouped_number.h"

namespace millrace {
namespace {

constexpr size_t kMinBar = 8;
constexpr size_t kMaxBar = 30;

double Fraction(const ProducerProgress& progress) {
  if (progress.bytes_total() == 0) return 0;
  return std::min(1.0, static_cast<double>(progress.bytes_read()) /
                           static_cast<double>(progress.bytes_total()));
}

std::vector<std::string> Facts(const std::string& done, const ProducerProgress& progress,
                               const ProgressRates& rates) {
  std::vector<std::string> facts = {done};
  if (progress.epochs_of_stream() > 1) {
    facts.push_back(
        absl::StrCat("epoch ", progress.epoch_of_stream(), " of ", progress.epochs_of_stream()));
  }
  facts.push_back(absl::StrCat(GroupedNumber(progress.rows_sent()), " rows"));
  if (rates.skipping()) {
    facts.emplace_back("skipping rows that Kafka has");
  } else if (const std::optional<double> speed = rates.rows_per_second()) {
    const auto rows = static_cast<uint64_t>(std::llround(*speed));
    facts.push_back(absl::StrCat(GroupedNumber(rows), " rows/s"));
  }
  if (progress.rows_rejected() > 0) {
    facts.push_back(absl::StrCat(GroupedNumber(progress.rows_rejected()), " rejected"));
  }
  if (const auto left = rates.time_left(); left && !progress.ended()) {
    facts.push_back(absl::StrCat(Duration(*left), " left"));
  }
  return facts;
}

}  // namespace

std::string Bytes(uint64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (bytes < 1'000) return absl::StrCat(bytes, " B");
  if (bytes < 1'000'000) return absl::StrFormat("%.1f kB", value / 1e3);
  if (bytes < 1'000'000'000) return absl::StrFormat("%.1f MB", value / 1e6);
  return absl::StrFormat("%.1f GB", value / 1e9);
}

std::string Duration(std::chrono::seconds time) {
  const int64_t s = time.count();
  if (s < 3600) return absl::StrFormat("%d:%02d", s / 60, s % 60);
  return absl::StrFormat("%d:%02d:%02d", s / 3600, s / 60 % 60, s % 60);
}

std::string LongDuration(std::chrono::seconds time) {
  constexpr int64_t kDay = 86'400;
  constexpr int64_t kYear = 365 * kDay;
  const int64_t s = time.count();
  if (s < 2 * kDay) return Duration(time);
  return s < 2 * kYear ? absl::StrCat(s / kDay, " days") : absl::StrCat(s / kYear, " years");
}

void ProgressRates::Add(Time now, const ProducerProgress& progress, bool skipping) {
  skipping_ = skipping;
  if (skipping) {  // the last of them is the first of the new window
    samples_.clear();
    after_outage_ = false;
  }
  const Sample sample = {now, progress.rows_sent(), progress.bytes_read(), progress.bytes_total()};
  if (samples_.empty()) {
    moved_ = now;
  } else if (sample.rows != samples_.back().rows || sample.bytes != samples_.back().bytes) {
    NoteMove(now);
  }
  samples_.push_back(sample);
  while (samples_.size() > 2 && now - samples_[1].time >= kWindow) {
    samples_.pop_front();
    after_outage_ = false;
  }
}

void ProgressRates::NoteMove(Time now) {
  const Time::duration took = now - moved_;
  moved_ = now;
  if (usual_.IsOutage(took, kOutage)) {
    samples_.clear();
    after_outage_ = true;
  } else {
    usual_.NoteStepAfter(took);
  }
}

double ProgressRates::Seconds() const {
  if (samples_.size() < 2) return 0;
  return std::chrono::duration<double>(samples_.back().time - samples_.front().time).count();
}

bool ProgressRates::IsKnown() const {
  return !after_outage_ || samples_.back().time - samples_.front().time >= kLeastAfterOutage;
}

std::optional<double> ProgressRates::rows_per_second() const {
  if (!IsKnown()) return std::nullopt;
  const double seconds = Seconds();
  if (seconds <= 0) return 0;
  return static_cast<double>(samples_.back().rows - samples_.front().rows) / seconds;
}

std::optional<std::chrono::seconds> ProgressRates::time_left() const {
  const double seconds = Seconds();
  if (seconds <= 0 || !IsKnown()) return std::nullopt;
  if (usual_.IsOutage(samples_.back().time - moved_, kOutage)) return std::nullopt;
  const Sample& last = samples_.back();
  const uint64_t moved = last.bytes - samples_.front().bytes;
  if (moved == 0 || last.total < last.bytes) return std::nullopt;
  const double left =
      static_cast<double>(last.total - last.bytes) * seconds / static_cast<double>(moved);
  return std::chrono::seconds(static_cast<int64_t>(std::ceil(std::min(left, 1e9))));
}

std::string ProgressLine(const ProducerProgress& progress, const ProgressRates& rates) {
  const std::string done = progress.bytes_total() > 0
                               ? absl::StrFormat("%.1f %% of %s", 100 * Fraction(progress),
                                                 Bytes(progress.bytes_total()))
                               : Bytes(progress.bytes_read());
  return absl::StrJoin(Facts(done, progress, rates), ", ");
}

std::string ProgressBar(const ProducerProgress& progress, const ProgressRates& rates,
                        size_t columns) {
  if (progress.bytes_total() == 0) return ProgressLine(progress, rates).substr(0, columns);
  const std::string done = absl::StrFormat("%.1f %%", 100 * Fraction(progress));
  std::string line = absl::StrJoin(Facts(done, progress, rates), "  ");
  if (columns >= line.size() + kMinBar + 3) {
    const size_t width = std::min(kMaxBar, columns - line.size() - 3);
    const auto full = static_cast<size_t>(Fraction(progress) * static_cast<double>(width));
    line = absl::StrCat("[", std::string(full, '#'), std::string(width - full, '.'), "] ", line);
  }
  return line.substr(0, columns);
}

}  // namespace millrace
