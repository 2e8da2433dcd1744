// When unanswered messages are repeated.
#pragma once

#include <algorithm>
#include <chrono>

namespace millrace {

// A worker's retransmission timeout, with exponential backoff as in TCP (RFC 6298, section 5): it
// doubles with each repetition, and decreases only after an answer that needed none. (With a fixed
// timeout, repetitions of a large update would make a slow round slower still.) Pure.
class RepeatTimer {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::steady_clock::duration;
  static constexpr Duration kMost = std::chrono::seconds(15);

  RepeatTimer(Duration least, Time now) : least_(least), wait_(least), since_(now) {}

  bool Due(Time now) const { return now - since_ >= wait_; }
  // `said`: there was an unanswered message.
  void Repeated(Time now, bool said) {
    since_ = now;
    if (!said) return;
    repeated_ = true;
    wait_ = std::max(least_, std::min(2 * wait_, kMost));
  }
  // To be called when an answer arrives.
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
