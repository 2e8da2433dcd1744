#include "topics/task_codec.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "base/hash.h"
#include "base/printable.h"
#include "topics/message_codec.h"

namespace millrace {
namespace {

constexpr uint64_t kMostTimeoutTicks = uint64_t{1} << 30;
constexpr uint64_t kMostTaskFailures = 1'000'000;
constexpr uint64_t kMostRecords = uint64_t{1} << 53;
constexpr uint64_t kMostEvaluations = uint64_t{1} << 31;
constexpr int kRounds = 4;

Status BadTask(const std::string& reason) { return absl::InvalidArgumentError(reason); }

Status CheckSetName(const std::string& name) {
  if (name.empty()) return BadTask("a data set without a name");
  MILLRACE_RETURN_IF_ERROR(
      CheckAtMost("bytes of a data set's name:", name.size(), kMostTaskSetNameBytes));
  if (!HasControls(name)) return absl::OkStatus();
  return BadTask("the name of the data set \"" + Printable(name) + "\" has control characters");
}

Status CheckPositive(const std::string& what, int64_t value) {
  if (value >= 1) return absl::OkStatus();
  return BadTask(what + " " + std::to_string(value) + ": at least 1 is needed");
}

Status CheckLeases(const TaskCommand::Leases& leases) {
  return CheckAtMost("leases:", static_cast<uint64_t>(leases.lease_size()), kMostOpenTasks);
}

Status CheckGet(const TaskCommand::Get& get) {
  MILLRACE_RETURN_IF_ERROR(CheckSetName(get.set()));
  if (get.worker().empty()) return BadTask("a worker without a name asks for a task");
  return CheckAtMost("bytes of a worker's name:", get.worker().size(), kMostTaskWorkerBytes);
}

Status CheckResult(const TaskCommand::Result& result) {
  MILLRACE_RETURN_IF_ERROR(CheckSetName(result.set()));
  return CheckAtMost("bytes of a task's failure:", result.detail().size(), kMostTaskDetailBytes);
}

// With the last one, when all tasks are over.
int64_t EvaluationsOf(const TaskSetSpec& spec) {
  return (TasksOf(spec) - 1) / spec.evaluation().every() + 1;
}

// REQUIRES: the rest of it is right.
Status CheckEvaluation(const TaskSetSpec& spec) {
  if (!spec.has_evaluation()) return absl::OkStatus();
  const TaskSetSpec::Evaluation& evaluation = spec.evaluation();
  const std::string of_set = " of the evaluations of the data set " + Printable(spec.name()) + ":";
  MILLRACE_RETURN_IF_ERROR(CheckPositive("records" + of_set, evaluation.records()));
  MILLRACE_RETURN_IF_ERROR(
      CheckPositive("records of a task" + of_set, evaluation.records_per_task()));
  MILLRACE_RETURN_IF_ERROR(CheckPositive("tasks between two" + of_set, evaluation.every()));
  return CheckAtMost("the number" + of_set, static_cast<uint64_t>(EvaluationsOf(spec)),
                     kMostEvaluations);
}

// Only the fold makes a set that follows another.
Status CheckFollowsNone(const TaskSetSpec& spec) {
  if (spec.follows().empty()) return absl::OkStatus();
  return BadTask("a command about the data set " + Printable(spec.name()) +
                 ", which follows another");
}

// A bijection of [0, count), without a table of it: a Feistel network of the next larger square of
// a power of two, walked until it is within.
int64_t Permuted(int64_t place, int64_t count, uint64_t seed) {
  int half_bits = 1;
  while ((int64_t{1} << (2 * half_bits)) < count) ++half_bits;
  const uint64_t mask = (uint64_t{1} << half_bits) - 1;
  auto value = static_cast<uint64_t>(place);
  do {
    uint64_t left = value >> half_bits;
    uint64_t right = value & mask;
    for (int round = 0; round < kRounds; ++round) {
      const uint64_t mixed = Mix64(Mix64(seed + static_cast<uint64_t>(round)) ^ right) & mask;
      left = std::exchange(right, left ^ mixed);
    }
    value = (left << half_bits) | right;
  } while (value >= static_cast<uint64_t>(count));
  return static_cast<int64_t>(value);
}

}  // namespace

Status CheckTaskSet(const TaskSetSpec& spec) {
  MILLRACE_RETURN_IF_ERROR(CheckSetName(spec.name()));
  const std::string of_set = " of the data set " + Printable(spec.name()) + ":";
  MILLRACE_RETURN_IF_ERROR(CheckPositive("records" + of_set, spec.records()));
  MILLRACE_RETURN_IF_ERROR(CheckPositive("records of a task" + of_set, spec.records_per_task()));
  MILLRACE_RETURN_IF_ERROR(CheckPositive("epochs" + of_set, spec.epochs()));
  MILLRACE_RETURN_IF_ERROR(
      CheckAtMost("most failures" + of_set, spec.most_failures(), kMostTaskFailures));
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("seconds until a task goes to another" + of_set,
                                       spec.timeout_ticks(), kMostTimeoutTicks));
  MILLRACE_RETURN_IF_ERROR(
      CheckAtMost("records" + of_set, static_cast<uint64_t>(spec.records()), kMostRecords));
  if (TasksPerEpoch(spec) > kMostTasks / spec.epochs()) {
    return BadTask("more than " + std::to_string(kMostTasks) + " tasks" + of_set +
                   " give them more records each");
  }
  MILLRACE_RETURN_IF_ERROR(CheckEvaluation(spec));
  for (const TaskSetSpec& follower : FollowersOf(spec)) {
    MILLRACE_RETURN_IF_ERROR(CheckTaskSet(follower));
  }
  return absl::OkStatus();
}

Status CheckTaskPosition(const TaskSetPosition& position) {
  MILLRACE_RETURN_IF_ERROR(CheckTaskSet(position.spec()));
  const std::string of_set = " of the data set " + Printable(position.spec().name());
  if (position.dealt() < 0 || position.dealt() > TasksOf(position.spec())) {
    return BadTask("the position" + of_set + " is not one of its tasks");
  }
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("undone tasks" + of_set + ":",
                                       static_cast<uint64_t>(position.undone_size()),
                                       kMostOpenTasks));
  std::set<int64_t> seen;
  for (const int64_t number : position.undone()) {
    if (number >= 0 && number < position.dealt() && seen.insert(number).second) continue;
    return BadTask("the position" + of_set + " has a task twice, or one that is still to come");
  }
  return absl::OkStatus();
}

Status CheckTaskCommand(const TaskCommand& command) {
  if (command.number() == 0) return BadTask("a command of number 0 about tasks: the first is 1");
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("a master's number:", command.front(), kMostTaskCommand));
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("a command's number:", command.number(), kMostTaskCommand));
  switch (command.what_case()) {
    case TaskCommand::kBegin:
      MILLRACE_RETURN_IF_ERROR(CheckFollowsNone(command.begin()));
      return CheckTaskSet(command.begin());
    case TaskCommand::kGet:
      return CheckGet(command.get());
    case TaskCommand::kResult:
      return CheckResult(command.result());
    case TaskCommand::kDelivered:
      return CheckLeases(command.delivered());
    case TaskCommand::kUndelivered:
      return CheckLeases(command.undelivered());
    case TaskCommand::kReset:
      return CheckSetName(command.reset());
    case TaskCommand::kPosition:
      MILLRACE_RETURN_IF_ERROR(CheckFollowsNone(command.position().spec()));
      return CheckTaskPosition(command.position());
    case TaskCommand::WHAT_NOT_SET:
      break;
  }
  return BadTask("a command of an unknown kind about tasks");
}

std::string EvaluationSetOf(const std::string& name) { return name + "/evaluation"; }
std::string EndSetOf(const std::string& name) { return name + "/end"; }

std::vector<TaskSetSpec> FollowersOf(const TaskSetSpec& spec) {
  std::vector<TaskSetSpec> followers;
  const auto add = [&](std::string name, int32_t type) -> TaskSetSpec& {
    TaskSetSpec& follower = followers.emplace_back();
    follower.set_name(std::move(name));
    follower.set_type(type);
    follower.set_follows(spec.name());
    follower.set_epochs(1);
    follower.set_timeout_ticks(spec.timeout_ticks());
    follower.set_most_failures(spec.most_failures());
    return follower;
  };
  if (spec.has_evaluation()) {
    const TaskSetSpec::Evaluation& evaluation = spec.evaluation();
    TaskSetSpec& follower = add(EvaluationSetOf(spec.name()), kEvaluationTask);
    follower.set_records(evaluation.records());
    follower.set_records_per_task(evaluation.records_per_task());
    follower.set_epochs(static_cast<uint32_t>(EvaluationsOf(spec)));
  }
  if (spec.end_task()) {
    TaskSetSpec& follower = add(EndSetOf(spec.name()), kEndTask);
    follower.set_records(std::min(spec.records(), spec.records_per_task()));
    follower.set_records_per_task(follower.records());
  }
  return followers;
}

int64_t TasksPerEpoch(const TaskSetSpec& spec) {
  return (spec.records() - 1) / spec.records_per_task() + 1;
}

int64_t TasksOf(const TaskSetSpec& spec) { return TasksPerEpoch(spec) * spec.epochs(); }

int64_t EpochAt(const TaskSetSpec& spec, int64_t dealt) {
  return dealt == 0 ? 0 : (dealt - 1) / TasksPerEpoch(spec) + 1;
}

TaskRange RangeOfTask(const TaskSetSpec& spec, int64_t number) {
  const int64_t tasks = TasksPerEpoch(spec);
  int64_t place = number % tasks;
  if (spec.has_shuffle()) {
    const auto epoch = static_cast<uint64_t>(number / tasks);
    place = Permuted(place, tasks, Mix64(spec.shuffle() ^ Mix64(epoch)));
  }
  const int64_t begin = place * spec.records_per_task();
  return {begin, begin + std::min(spec.records_per_task(), spec.records() - begin)};
}

}  // namespace millrace
