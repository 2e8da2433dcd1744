#include "metrics/recent_speed.h"

namespace millrace {

bool RecentSpeed::IsOutage(int64_t waited_ms, int64_t least_ms) const {
  return usual_.IsOutage(std::chrono::milliseconds(waited_ms), std::chrono::milliseconds(least_ms));
}

void RecentSpeed::Add(const Sample& sample, int64_t silent_ms) {
  const bool steps = !entries_.empty() && sample.steps > entries_.back().sample.steps;
  const int64_t took_ms = stepped_ms_ ? sample.timestamp_ms - *stepped_ms_ : 0;
  is_away_ = is_away_ || IsOutage(silent_ms, kSilentMs) || IsOutage(took_ms, kStillMs);
  entries_.push_back({sample, is_away_ && steps});
  if (steps) {
    if (stepped_ms_ && !is_away_) usual_.NoteStepAfter(std::chrono::milliseconds(took_ms));
    stepped_ms_ = sample.timestamp_ms;
    is_away_ = false;
  }
  while (sample.timestamp_ms - entries_.front().sample.timestamp_ms > kKeptMs) {
    entries_.pop_front();
  }
}

std::optional<RecentSpeed::Span> RecentSpeed::span() const {
  if (entries_.size() < 2 || is_away_ || entries_.back().is_first_after_outage) {
    return std::nullopt;
  }
  const Sample& end = entries_.back().sample;
  const Entry* begin = nullptr;
  for (auto entry = entries_.rbegin() + 1; entry != entries_.rend(); ++entry) {
    const bool has_a_step = begin != nullptr && begin->sample.steps < end.steps;
    if (end.timestamp_ms - entry->sample.timestamp_ms > kWindowMs && has_a_step) break;
    begin = &*entry;
    if (entry->is_first_after_outage) break;
  }
  const int64_t span_ms = end.timestamp_ms - begin->sample.timestamp_ms;
  if (span_ms <= 0) return std::nullopt;
  const bool is_known = span_ms >= kLeastAfterOutageMs && begin->sample.steps < end.steps;
  if (begin->is_first_after_outage && !is_known) return std::nullopt;
  return Span{begin->sample, end, static_cast<double>(span_ms) / 1000};
}

bool RecentSpeed::stands_still() const {
  return stepped_ms_ && IsOutage(entries_.back().sample.timestamp_ms - *stepped_ms_, kSilentMs);
}

}  // namespace millrace
