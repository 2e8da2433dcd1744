// How long processes that fail have to wait, by what the records say, whatever the fold makes of
// them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "processors/master_processor.h"
#include "tests/simulation/master_misreading.h"
#include "tests/simulation/simulated_plan.h"
#include "topics/control_codec.h"
#include "topics/process_name.h"

namespace millrace::simulation {

// Who has failed n times in a row is not started before 2^(n-1) ticks have passed, unless another
// plan comes.
class BackOffs {
 public:
  // After `value`, the next record of `control`, was folded. Empty: nothing.
  std::string WhatIsWrong(const std::optional<std::string>& value,
                          const MasterProcessor& processor) {
    ControlRecord record;
    if (value) record = DecodeControl(*value, kMasterEpoch).value_or(record);
    if (record.has_tick()) ++ticks_;
    if (record.has_plan()) {
      failures_.clear();
      not_before_.clear();
    }
    std::string wrong;
    for (const ProcessState& process : processor.processes()) {
      const std::string name = ToText(process.process());
      const ProcessState before = std::exchange(before_[name], process);
      const bool is_reported = record.has_report() && ToText(record.report().process()) == name &&
                               record.report().incarnation() == before.incarnation();
      if (is_reported && IsToRun(before.phase()) && IsFailure(record.report().end())) {
        not_before_[name] = ticks_ + (uint64_t{1} << std::min(failures_[name]++, 5u));
      }
      const bool begins = process.incarnation() != before.incarnation();
      if (begins && not_before_[name] > ticks_) wrong = name + " is started too soon";
    }
    return wrong;
  }

 private:
  uint64_t ticks_ = 0;
  std::map<std::string, uint32_t> failures_;    // in a row
  std::map<std::string, uint64_t> not_before_;  // ticks
  std::map<std::string, ProcessState> before_;  // the record that is looked at
};

}  // namespace millrace::simulation
