// Within which bounds a job's training settings that are numbers can be used.
#pragma once

#include <limits>
#include <optional>
#include <string>

#include "messages/job.pb.h"

namespace millrace {

// A number and its bounds, both included.
struct BoundedSetting {
  const char* field = nullptr;  // as in JobConfig: "training.l2"
  double value = 0;
  double least = 0;
  double most = 0;

  // "least" of what must be above 0, "most" of what must be below 1 and of what may be any number.
  static constexpr double kAboveZero = std::numeric_limits<double>::min();
  static constexpr double kBelowOne = 1 - std::numeric_limits<double>::epsilon();
  static constexpr double kAny = std::numeric_limits<double>::max();

  // (NaN is not.)
  bool is_within() const { return value >= least && value <= most; }
  // "-1 is not a number of 0 or more".
  std::string Complaint() const;
};

// The first that is not within its bounds, if there is one.
std::optional<BoundedSetting> FirstOutOfBounds(const Training& training);

}  // namespace millrace
