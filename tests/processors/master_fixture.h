// Plans and reports for tests of the master.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "processors/process_table.h"
#include "topics/process_name.h"

namespace millrace {

inline ProcessGroup Group(std::string name, uint32_t count, uint32_t priority, uint32_t least = 0) {
  ProcessGroup group;
  group.set_name(name);
  group.set_count(count);
  group.add_command("/bin/" + name);
  group.add_command("--rank={rank}");
  group.set_priority(priority);
  group.set_least(least);
  return group;
}

inline ProcessPlan PlanOf(const std::vector<ProcessGroup>& groups, uint32_t slots = 0) {
  ProcessPlan plan;
  for (const ProcessGroup& group : groups) *plan.add_groups() = group;
  plan.set_slots(slots);
  return plan;
}

inline ProcessEnd EndBy(ProcessEnd::Cause cause, int code = 0) {
  ProcessEnd end;
  end.set_cause(cause);
  end.set_code(code);
  return end;
}
inline ProcessEnd Exit(int code) { return EndBy(ProcessEnd::EXITED, code); }
inline ProcessEnd Signal(int signal) { return EndBy(ProcessEnd::SIGNALED, signal); }

// That this incarnation runs.
inline ProcessReport Runs(std::string_view name, uint64_t incarnation) {
  ProcessReport report;
  *report.mutable_process() = ParseProcessName(name).value();
  report.set_incarnation(incarnation);
  return report;
}

inline ProcessReport Ends(std::string_view name, uint64_t incarnation, const ProcessEnd& end) {
  ProcessReport report = Runs(name, incarnation);
  *report.mutable_end() = end;
  return report;
}

// A table, and words for what happens to it.
class TestedTable {
 public:
  explicit TestedTable(const ProcessPlan& plan) { Apply(plan); }

  void Apply(const ProcessPlan& plan) { EXPECT_EQ(table.Apply(plan), absl::OkStatus()); }
  void Stop() { EXPECT_EQ(table.Stop(), absl::OkStatus()); }
  void Ticks(uint64_t count) {
    for (; count > 0; --count) table.Tick();
  }
  // Of the newest incarnation.
  void Run(std::string_view name) { Report(Runs(name, Of(name).incarnation())); }
  void End(std::string_view name, const ProcessEnd& end) {
    Report(Ends(name, Of(name).incarnation(), end));
  }
  void Report(const ProcessReport& report) { EXPECT_EQ(table.Report(report), absl::OkStatus()); }

  bool Has(std::string_view name) const {
    return table.processes().contains(ProcessTable::KeyOf(ParseProcessName(name).value()));
  }
  const ProcessState& Of(std::string_view name) const {
    return table.processes().at(ProcessTable::KeyOf(ParseProcessName(name).value()));
  }
  ProcessState::Phase PhaseOf(std::string_view name) const { return Of(name).phase(); }
  // The names of those in the phase, in order.
  std::vector<std::string> In(ProcessState::Phase phase) const {
    std::vector<std::string> names;
    for (const auto& [key, process] : table.processes()) {
      if (process.phase() == phase) names.push_back(ToText(process.process()));
    }
    return names;
  }

  ProcessTable table;
};

}  // namespace millrace
