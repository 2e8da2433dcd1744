#include "topics/control_codec.h"

#include <algorithm>
#include <set>
#include <vector>

#include "base/check.h"
#include "topics/frame.h"
#include "topics/lease_codec.h"
#include "topics/message_codec.h"
#include "topics/node_codec.h"
#include "topics/task_codec.h"
#include "topics/topics.h"

namespace millrace {
namespace {

Status BadControl(const std::string& reason) { return absl::InvalidArgumentError(reason); }

Status CheckCommand(const ProcessGroup& group) {
  const std::string of_group = "the command of the group " + group.name();
  if (group.command().empty() || group.command(0).empty()) {
    return BadControl(of_group + " is empty: it begins with the path of a program");
  }
  size_t bytes = 0;
  for (const std::string& argument : group.command()) {
    bytes += argument.size() + 1;
    if (argument.find('\0') != std::string::npos) {
      return BadControl(of_group + " has a byte 0, which no argument of a program can have");
    }
  }
  return CheckAtMost("bytes of " + of_group + ":", bytes, kMostCommandBytes);
}

Status CheckGroup(const ProcessGroup& group) {
  ProcessName name;
  name.set_group(group.name());
  MILLRACE_RETURN_IF_ERROR(CheckProcessName(name));
  if (group.count() == 0) {
    return BadControl("the group " + group.name() + " has no processes: leave it out");
  }
  MILLRACE_RETURN_IF_ERROR(
      CheckAtMost("processes of the group " + group.name() + ":", group.count(), kMostProcesses));
  if (group.least() > group.count()) {
    return BadControl("the group " + group.name() + " needs " + std::to_string(group.least()) +
                      " processes (least), and has " + std::to_string(group.count()));
  }
  if (group.has_most_failures() && group.most_failures() == 0) {
    return BadControl("the group " + group.name() +
                      " allows no failures (most_failures 0): the first failure is the least "
                      "that can be final");
  }
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("logical workers of the group " + group.name() + ":",
                                       group.logical_workers(), kMostWorkers));
  MILLRACE_RETURN_IF_ERROR(
      CheckAtMost("shards of the group " + group.name() + ":", group.shards(), kMostShards));
  if (group.at_end() && group.logical_workers() + group.shards() > 0) {
    return BadControl("the group " + group.name() +
                      " has logical workers or shards, and runs only when all others have ended");
  }
  return CheckCommand(group);
}

Status CheckReport(const ProcessReport& report) {
  MILLRACE_RETURN_IF_ERROR(CheckProcessName(report.process()));
  if (report.incarnation() == 0) return BadControl("a report of incarnation 0: the first is 1");
  return report.has_end() ? CheckProcessEnd(report.end()) : absl::OkStatus();
}

Status CheckLayout(const ShardLayout& layout) {
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("layout", layout.number(), kMostLayouts - 1));
  if (layout.number() == 0) return BadControl("layout 0 is that of the job's beginning");
  if (layout.shards() == 0) return BadControl("a job without shards");
  return CheckAtMost("shards:", layout.shards(), kMostShards);
}

Status CheckControl(const ControlRecord& record) {
  switch (record.what_case()) {
    case ControlRecord::kPlan:
      return CheckPlan(record.plan());
    case ControlRecord::kReport:
      return CheckReport(record.report());
    case ControlRecord::kTick:
    case ControlRecord::kStop:
    case ControlRecord::kMove:  // what it names may be in the plan or not
      return absl::OkStatus();
    case ControlRecord::kReshard:
      return CheckLayout(record.reshard());
    case ControlRecord::kLayout:
      return CheckLayout(record.layout());
    case ControlRecord::kTask:
      return CheckTaskCommand(record.task());
    case ControlRecord::kNode:
      return CheckNodeCommand(record.node());
    case ControlRecord::kLease:
      return CheckLeaseCommand(record.lease());
    case ControlRecord::WHAT_NOT_SET:
      break;
  }
  return BadControl("a command of an unknown kind");
}

// Groups in the order in which they get slots.
std::vector<const ProcessGroup*> InOrder(const ProcessPlan& plan) {
  std::vector<const ProcessGroup*> groups;
  for (const ProcessGroup& group : plan.groups()) groups.push_back(&group);
  std::ranges::sort(groups, [](const ProcessGroup* a, const ProcessGroup* b) {
    return a->priority() != b->priority() ? a->priority() > b->priority() : a->name() < b->name();
  });
  return groups;
}

// Whoever has a slot keeps it until it ends, which a server does only with the job.
Status CheckSlots(const ProcessPlan& plan) {
  if (plan.slots() == 0) return absl::OkStatus();
  uint64_t before = 0;  // processes that get slots before the group
  std::string names;
  for (const ProcessGroup* group : InOrder(plan)) {
    if (group->at_end()) continue;  // then all slots are free
    const uint64_t needed = before + group->least();
    if (group->least() > 0 && needed > plan.slots()) {
      return BadControl("the group " + group->name() + " would wait for ever: of the " +
                        std::to_string(plan.slots()) + " slots (--slots) " +
                        std::to_string(before) + " go to the processes of higher groups (" + names +
                        "), and the job needs " + std::to_string(group->least()) +
                        " of this one; give at least " + std::to_string(needed) +
                        " slots, or 0: no limit");
    }
    before += group->count();
    names += (names.empty() ? "" : ", ") + group->name();
  }
  return absl::OkStatus();
}

Status CheckThatGroupsDiffer(const ProcessPlan& plan) {
  std::string with_workers;
  std::string with_shards;
  std::set<std::string> names;
  for (const ProcessGroup& group : plan.groups()) {
    if (!names.insert(group.name()).second) {
      return BadControl("a plan that has the group " + group.name() + " twice");
    }
    const auto give = [&](const char* what, uint32_t given, std::string& before) -> Status {
      if (given == 0) return absl::OkStatus();
      if (!before.empty()) {
        return BadControl(std::string("a plan that gives ") + what + " to two groups, " + before +
                          " and " + group.name());
      }
      before = group.name();
      return absl::OkStatus();
    };
    MILLRACE_RETURN_IF_ERROR(give("logical workers", group.logical_workers(), with_workers));
    MILLRACE_RETURN_IF_ERROR(give("shards", group.shards(), with_shards));
  }
  return absl::OkStatus();
}

}  // namespace

Status CheckPlan(const ProcessPlan& plan) {
  // (One of tasks alone has a run folder.)
  if (plan.groups().empty() && plan.run_dir().empty()) {
    return BadControl("a plan without a process or a run folder: stop the job instead");
  }
  uint64_t processes = 0;
  uint64_t least = 0;
  for (const ProcessGroup& group : plan.groups()) {
    MILLRACE_RETURN_IF_ERROR(CheckGroup(group));
    processes += group.count();
    if (!group.at_end()) least += group.least();
  }
  MILLRACE_RETURN_IF_ERROR(CheckThatGroupsDiffer(plan));
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("processes:", processes, kMostProcesses));
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("bytes of the plan:", plan.ByteSizeLong(), kMostPlanBytes));
  if (plan.slots() == 0 || plan.slots() >= least) return CheckSlots(plan);
  return BadControl(
      std::to_string(plan.slots()) +
      " slots (--slots), but so many processes are needed at a time: " + std::to_string(least) +
      " (each server, the producer, one worker); 0: no limit");
}

Status CheckProcessEnd(const ProcessEnd& end) {
  if (!ProcessEnd::Cause_IsValid(end.cause())) {
    return BadControl("an end by a cause that is not known: " + std::to_string(end.cause()));
  }
  return CheckAtMost("bytes of an end's detail:", end.detail().size(), kMostEndDetailBytes);
}

std::vector<std::string> CommandOf(const ProcessGroup& group, uint32_t rank) {
  std::vector<std::string> command;
  for (const std::string& argument : group.command()) {
    command.push_back(WithNumber(argument, kRankPlaceholder, rank));
  }
  return command;
}

std::string WithNumber(std::string text, std::string_view placeholder, uint64_t number) {
  const std::string digits = std::to_string(number);
  for (size_t at = text.find(placeholder); at != std::string::npos;
       at = text.find(placeholder, at + digits.size())) {
    text.replace(at, placeholder.size(), digits);
  }
  return text;
}

std::string EncodeControl(const ControlRecord& record) {
  std::string value = WholeFrameHeader();
  MILLRACE_CHECK(record.AppendToString(&value) && value.size() <= kMaxFrameBytes);
  return value;
}

StatusOr<ControlRecord> DecodeControl(std::string_view value, uint64_t epoch) {
  MILLRACE_ASSIGN_OR_RETURN(const Frame frame, ParseFrame(value));
  if (frame.is_chunk) return BadControl("a part of a message, where a command is never split");
  ControlRecord record;
  MILLRACE_RETURN_IF_ERROR(ParseMessage(frame.body, record));
  if (record.epoch() != epoch) {
    return BadControl("a command of job epoch " + std::to_string(record.epoch()) + ", not " +
                      std::to_string(epoch));
  }
  MILLRACE_RETURN_IF_ERROR(CheckControl(record));
  return record;
}

}  // namespace millrace
