// For how long no worker of a process has got further, or a trainer.
#pragma once

#include <algorithm>
#include <chrono>

namespace millrace {

// When to look what else may be the reason: a second after the last progress, and then after twice
// as long each time, up to kMost. Pure.
class Silence {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::seconds kFirst{1};
  static constexpr std::chrono::seconds kMost{8};

  explicit Silence(Time now) { End(now); }

  // Somebody has got further.
  void End(Time now) {
    pause_ = kFirst;
    next_look_ = now + pause_;
  }
  // For so long nobody has waited: that counts for nothing.
  void Skip(Time::duration busy) { next_look_ += busy; }
  // Whether it is time to look: then it has been done.
  bool IsLookDue(Time now) {
    if (now < next_look_) return false;
    pause_ = std::min<Time::duration>(2 * pause_, kMost);
    next_look_ = now + pause_;
    return true;
  }

 private:
  Time::duration pause_ = kFirst;
  Time next_look_;
};

}  // namespace millrace
