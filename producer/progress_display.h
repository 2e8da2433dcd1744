// Progress on standard error: a bar on a terminal, else a line now and then.
#pragma once

#include <chrono>
#include <string>

#include "producer/progress_text.h"

namespace millrace {

// Used by one thread.
class ProgressDisplay {
 public:
  using Time = ProgressRates::Time;

  // `quiet`: warnings only.
  explicit ProgressDisplay(bool quiet);
  ~ProgressDisplay() { ClearBar(); }
  ProgressDisplay(const ProgressDisplay&) = delete;
  ProgressDisplay& operator=(const ProgressDisplay&) = delete;

  // To be called often. `skipping`: see ProgressRates.
  void Show(Time now, const ProducerProgress& progress, bool skipping);

  void Say(const std::string& line);   // unless quiet
  void Warn(const std::string& line);  // in any case

 private:
  void ClearBar();

  const bool quiet_;
  const bool terminal_;
  bool bar_shown_ = false;
  Time next_;         // to show
  Time next_sample_;  // of rates_
  ProgressRates rates_;
};

}  // namespace millrace
