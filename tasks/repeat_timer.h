// When what is unanswered is said again.
#pragma once

#include <algorithm>
#include <chrono>

namespace millrace {

// A worker's broker_retry with its servers. It is lost on a round that takes longer than that: each
// repetition of a large update makes the round slower still. So, as TCP does (RFC 6298, section 5),
// it doubles with each repetition, and comes down only by an answer that needed none. Pure.
class RepeatTimer {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::steady_clock::duration;
  static constexpr Duration kMost = std::chrono::seconds(15);

  RepeatTimer(Duration least, Time now) : least_(least), wait_(least), since_(now) {}

  bool Due(Time now) const { return now - since_ >= wait_; }
  // `said`: something was unanswered indeed.
  void Repeated(Time now, bool said) {
    since_ = now;
    if (!said) return;
    repeated_ = true;
    wait_ = std::max(least_, std::min(2 * wait_, kMost));
  }
  // An answer has come.
  void Answered(Time now) {
    if (!repeated_) wait_ = std::max(least_, std::min(wait_, 2 * (now - since_)));
    repeated_ = false;
    since_ = now;
  }

 private:
  Duration least_;
  Duration wait_;
  Time since_;
  bool repeated_ = false;
};

}  // namespace millrace
