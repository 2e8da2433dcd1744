// What must be true of the process that runs at a job's end, whatever the fold makes of it.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "processors/master_processor.h"
#include "tests/simulation/simulated_plan.h"
#include "topics/control_codec.h"

namespace millrace::simulation {

inline constexpr char kSimulatedEnd[] = "end";  // the group

inline bool IsOver(const ProcessState& process) {
  return process.phase() == ProcessState::ENDED || process.phase() == ProcessState::FAILED;
}

// All but that of the end.
inline bool AreAllOver(const MasterProcessor& processor) {
  const auto processes = processor.processes();
  return std::ranges::all_of(processes, [](const ProcessState& process) {
    return process.process().group() == kSimulatedEnd || IsOver(process);
  });
}

class EndGroup {
 public:
  // After `value`, the next record of `control`, was folded. Empty: nothing.
  std::string WhatIsWrong(const std::optional<std::string>& value,
                          const MasterProcessor& processor) {
    ProcessState now;
    for (const ProcessState& process : processor.processes()) {
      if (process.process().group() == kSimulatedEnd) now = process;
    }
    const ProcessState before = std::exchange(before_, now);
    if (IsToRun(now.phase()) && !AreAllOver(processor)) return "the end does not wait for others";
    if (before.phase() == ProcessState::ENDED && now.incarnation() > before.incarnation()) {
      return "the end comes twice";
    }
    if (!value || !IsToRun(before.phase())) return "";
    const StatusOr<ControlRecord> record = DecodeControl(*value, kMasterEpoch);
    if (!record.ok() || !record->has_report()) return "";
    const ProcessReport& report = record->report();
    const bool is_done = report.process().group() == kSimulatedEnd &&
                         report.incarnation() == before.incarnation() &&
                         report.end().cause() == ProcessEnd::EXITED && report.end().code() == 0;
    if (!is_done || now.phase() == ProcessState::ENDED) return "";
    return "the end is done, and is not taken for that";
  }

 private:
  ProcessState before_;
};

}  // namespace millrace::simulation
