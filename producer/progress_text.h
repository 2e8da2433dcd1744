// The stream's progress as text and as a bar. Pure.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "base/usual_pause.h"
#include "messages/records.pb.h"

namespace millrace {

using ProducerProgress = MetricPoint::ProducerProgress;

std::string Bytes(uint64_t bytes);               // 12.3 MB
std::string Duration(std::chrono::seconds);      // 0:07, 12:34, 1:02:03
std::string LongDuration(std::chrono::seconds);  // the same; from two days on "31 days", "3 years"

// Rows per second and the time left, from what has moved in the last few seconds. The time of an
// outage counts in no speed: after it the window begins with what moved first.
class ProgressRates {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::seconds kWindow{4};
  // An outage (UsualPause): nothing has moved for so long.
  static constexpr std::chrono::seconds kOutage{2};
  static constexpr std::chrono::seconds kLeastAfterOutage{1};

  // To be called several times a second, but it may stay away in an outage. `skipping`: the rows
  // that are read now are in the topic already, from an earlier run. They are read much faster than
  // others are sent, so the speed does not count them.
  void Add(Time now, const ProducerProgress& progress, bool skipping = false);
  // Unknown for kLeastAfterOutage after an outage.
  std::optional<double> rows_per_second() const;
  bool skipping() const { return skipping_; }
  // Unknown without a total, while nothing moves, and while the speed is.
  std::optional<std::chrono::seconds> time_left() const;

 private:
  struct Sample {
    Time time;
    uint64_t rows;
    uint64_t bytes;
    uint64_t total;
  };
  void NoteMove(Time now);
  double Seconds() const;
  bool IsKnown() const;

  std::deque<Sample> samples_;
  bool after_outage_ = false;  // the first sample is the first that moved again
  Time moved_;
  UsualPause<Time::duration> usual_;
  bool skipping_ = false;  // the newest sample
};

// "43.2 % of 56.2 MB, 143,000 rows, 155,000 rows/s, 12 rejected, 0:07 left"
std::string ProgressLine(const ProducerProgress& progress, const ProgressRates& rates);
// "[####......] 43.2 %  143,000 rows  155,000 rows/s ...", at most `columns` characters; the bar
// takes what room the figures leave.
std::string ProgressBar(const ProducerProgress& progress, const ProgressRates& rates,
                        size_t columns);

}  // namespace millrace
