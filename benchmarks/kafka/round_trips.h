// What trainers and workers measure of their rounds, for the driver.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/kafka/percentiles.h"

namespace millrace {

// Rounds of one worker, each from the sending of an update until what the next one is made of is
// there. After the warm-up, which begins with the first round, it prints "begin". After so many
// seconds more it prints the percentiles and the rounds per second, once, and goes on in silence.
// Measured is from the end of a round to that of another, so that slow ones count whole.
class RoundTrips {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Of 0 seconds: it says nothing.
  RoundTrips(double warm_up_s, double seconds) : warm_up_s_(warm_up_s), seconds_(seconds) {}

  void Add(Time sent, Time answered) {
    if (seconds_ <= 0 || is_over_) return;
    if (!first_) first_ = answered;
    if (!begin_) {
      if (Seconds(answered - *first_) < warm_up_s_) return;
      begin_ = answered;
      SayNow("begin");
      return;
    }
    ms_.push_back(1e3 * Seconds(answered - sent));
    const double measured = Seconds(answered - *begin_);
    if (measured < seconds_) return;
    is_over_ = true;
    const double rate = static_cast<double>(ms_.size()) / measured;
    PrintPercentiles(std::move(ms_));
    SayNow(("rounds/s " + std::to_string(rate)).c_str());
  }

 private:
  static double Seconds(std::chrono::steady_clock::duration duration) {
    return std::chrono::duration<double>(duration).count();
  }

  double warm_up_s_;
  double seconds_;
  std::optional<Time> first_;
  std::optional<Time> begin_;
  bool is_over_ = false;
  std::vector<double> ms_;
};

}  // namespace millrace
