#include "follower/freshness.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace millrace {
namespace {

// Models that predict are remembered for answers that are read later than the weights.
constexpr size_t kMostUsed = 4096;
constexpr size_t kMostWaiting = size_t{1} << 16;  // records

// Of a histogram, each a quarter above the one before it.
const std::vector<int64_t>& Bounds() {
  static const std::vector<int64_t> bounds = [] {
    std::vector<int64_t> made = {1};
    while (made.back() < Freshness::kMostMs) {
      made.push_back(std::min(std::max(made.back() + 1, made.back() * 5 / 4), Freshness::kMostMs));
    }
    return made;
  }();
  return bounds;
}

}  // namespace

void Freshness::Begin() {
  waiting_.clear();
  counted_.clear();
}

void Freshness::AddRows(RowNumber first, uint64_t count, int64_t came_ms) {
  // (A producer that was started again may repeat some.)
  if (!waiting_.empty()) {
    const RowNumber end = waiting_.back().end;
    const uint64_t known = end > first ? uint64_t{end} - uint64_t{first} : 0;
    if (known >= count) return;
    first = RowNumber(uint64_t{first} + known);
    count -= known;
  }
  if (count == 0 || waiting_.size() == kMostWaiting) return;
  waiting_.push_back({first, RowNumber(uint64_t{first} + count), came_ms});
}

void Freshness::NoteCounted(RowNumber end, int64_t sent_ms) {
  const auto used = std::ranges::lower_bound(used_, sent_ms, {}, &Used::sent_ms);
  if (used != used_.end()) return Measure(end, used->used_ms);
  if (waiting_.empty() || end <= waiting_.front().first) return;
  if (!counted_.empty() && counted_.back().end >= end) return;
  counted_.push_back({end, sent_ms});
}

void Freshness::NoteModel(int64_t sent_ms, int64_t used_ms) {
  if (!used_.empty() && used_.back().sent_ms >= sent_ms) return;
  used_.push_back({sent_ms, used_ms});
  if (used_.size() > kMostUsed) used_.pop_front();
  while (!counted_.empty() && counted_.front().sent_ms <= sent_ms) {
    Measure(counted_.front().end, used_ms);
    counted_.pop_front();
  }
}

void Freshness::Measure(RowNumber end, int64_t used_ms) {
  while (!waiting_.empty() && waiting_.front().first < end) {
    Rows& rows = waiting_.front();
    const RowNumber done = std::min(rows.end, end);
    Add(used_ms - rows.came_ms, uint64_t{done} - uint64_t{rows.first});
    rows.first = done;
    if (rows.first == rows.end) waiting_.pop_front();
  }
}

void Freshness::GiveUp(int64_t now_ms) {
  while (!waiting_.empty() && now_ms - waiting_.front().came_ms > kMostMs) {
    Measure(waiting_.front().end, now_ms);
  }
}

void Freshness::Add(int64_t took_ms, uint64_t rows) {
  const std::vector<int64_t>& bounds = Bounds();
  bins_.resize(bounds.size());
  const auto bound = std::ranges::lower_bound(bounds, std::min(took_ms, kMostMs));
  bins_[static_cast<size_t>(bound - bounds.begin())] += rows;
  rows_ += rows;
}

int64_t Freshness::Quantile(double part) const {
  MILLRACE_CHECK(part > 0 && part <= 1);
  double below = 0;
  for (size_t i = 0; i < bins_.size(); ++i) {
    below += static_cast<double>(bins_[i]);
    if (below >= part * static_cast<double>(rows_)) return Bounds()[i];
  }
  return 0;
}

std::string Freshness::Json() const {
  if (rows_ == 0) return "null";
  std::string text = absl::StrCat("{\"rows\":", rows_, ",\"p50_ms\":", Quantile(0.5),
                                  ",\"p99_ms\":", Quantile(0.99), ",\"histogram\":[");
  bool is_first = true;
  for (size_t i = 0; i < bins_.size(); ++i) {
    if (bins_[i] == 0) continue;
    absl::StrAppend(&text, is_first ? "" : ",", "[", Bounds()[i], ",", bins_[i], "]");
    is_first = false;
  }
  return text + "]}";
}

}  // namespace millrace
