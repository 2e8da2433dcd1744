// Tells an outage from a pause as there always are, by how long pauses have been lately.
#pragma once

#include <algorithm>

namespace millrace {

// Between the steps of something that goes on. Duration is one of std::chrono. Pure.
template <typename Duration>
class UsualPause {
 public:
  // An outage is longer than so many pauses as they were lately.
  static constexpr int kUsual = 3;

  void NoteStepAfter(Duration pause) { usual_ = std::max(pause, usual_ / 2); }
  // Whether a pause of so long is an outage; none is that is no longer than `least`, and none while
  // it is not known how long pauses are.
  bool IsOutage(Duration pause, Duration least) const {
    return usual_ > Duration::zero() && pause > std::max(least, kUsual * usual_);
  }

 private:
  Duration usual_{0};  // the longest of the last ones, forgotten by half at each; 0: not known
};

}  // namespace millrace
