#include "metrics/learning_curve.h"

#include <algorithm>

namespace millrace {

std::string_view NameOf(CurvePoint::Kind kind) {
  switch (kind) {
    case CurvePoint::Kind::kProgressive:
      return "progressive";
    case CurvePoint::Kind::kTail:
      return "tail";
    case CurvePoint::Kind::kHoldout:
      return "holdout";
    case CurvePoint::Kind::kWindow:
      return "window";
  }
  return "";
}

void LearningCurve::Add(const CurvePoint& point) {
  if (points_.empty() || skipped_ == 0) {
    points_.push_back(point);
  } else {
    points_.back() = point;  // stands for the newest until its stride is over
  }
  skipped_ = (skipped_ + 1) % stride_;
  if (points_.size() < kMaxPoints || skipped_ != 0) return;
  size_t kept = 0;
  for (size_t i = 1; i < points_.size(); i += 2) points_[kept++] = points_[i];
  points_.resize(kept);
  stride_ *= 2;
}

std::vector<double> LearningCurve::Sampled(
    size_t count, const std::function<double(const Figures&)>& figure) const {
  std::vector<double> values;
  if (points_.empty() || count == 0) return values;
  const auto first = static_cast<double>(points_.front().rows_tested);
  const auto last = static_cast<double>(points_.back().rows_tested);
  count = std::min(count, points_.size());
  size_t at = 0;
  for (size_t i = 0; i < count; ++i) {
    const double share = count == 1 ? 1 : static_cast<double>(i) / static_cast<double>(count - 1);
    const double rows = first + share * (last - first);
    while (at + 1 < points_.size() && static_cast<double>(points_[at + 1].rows_tested) <= rows) {
      ++at;
    }
    values.push_back(figure(points_[at].figures));
  }
  return values;
}

}  // namespace millrace
