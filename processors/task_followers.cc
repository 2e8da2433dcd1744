// The sets that follow another in TaskManager: its evaluations, and the task at its end.
#include <algorithm>

#include "base/check.h"
#include "base/printable.h"
#include "processors/task_manager.h"

namespace millrace {
namespace {

// Epochs of the evaluation that may be dealt out when so many tasks of the set are over.
int64_t EvaluationsDue(const TaskSetSpec& set, const TaskSetSpec& evaluation, int64_t over) {
  if (over == TasksOf(set)) return evaluation.epochs();
  return over / set.evaluation().every();
}

}  // namespace

std::vector<std::string> TaskManager::SetsFor(const TaskCommand::Get& get) const {
  const auto set = sets_.find(get.set());
  if (set == sets_.end()) return {};
  std::vector<std::string> sets;
  const TaskSetSpec& spec = set->second.spec();
  if (get.any() && spec.has_evaluation()) sets.push_back(EvaluationSetOf(spec.name()));
  sets.push_back(spec.name());
  if (get.any() && spec.end_task()) sets.push_back(EndSetOf(spec.name()));
  return sets;
}

bool TaskManager::IsOf(const TaskState& task, const std::string& set) const {
  return task.set() == set || sets_.at(task.set()).spec().follows() == set;
}

void TaskManager::BeginFollowers(const TaskSetSpec& spec, int64_t over) {
  for (const TaskSetSpec& follower : FollowersOf(spec)) {
    RemoveAllOf(follower.name());
    TaskSetState& state = sets_[follower.name()];
    state.Clear();
    *state.mutable_spec() = follower;
    if (follower.type() == kEvaluationTask) {
      // What was due before a position that the set goes back to has been done then.
      state.set_open_epochs(EvaluationsDue(spec, follower, over));
      state.set_dealt(state.open_epochs() * TasksPerEpoch(follower));
    }
    changed_sets_.insert(follower.name());
  }
  OpenFollowers(spec.name());
}

void TaskManager::OpenFollowers(const std::string& set) {
  const TaskSetSpec& changed = sets_.at(set).spec();
  const std::string& name = changed.follows().empty() ? set : changed.follows();
  const TaskSetState& followed = sets_.at(name);
  const TaskSetSpec& spec = followed.spec();
  const auto open = [this](const std::string& follower, int64_t epochs) {
    TaskSetState& state = sets_.at(follower);
    if (epochs <= state.open_epochs()) return;
    state.set_open_epochs(epochs);
    changed_sets_.insert(follower);
  };
  bool may_end = IsDone(name);
  if (spec.has_evaluation()) {
    const std::string evaluation = EvaluationSetOf(name);
    const int64_t over = followed.dealt() - static_cast<int64_t>(OpenIn(name));
    open(evaluation, EvaluationsDue(spec, sets_.at(evaluation).spec(), over));
    may_end = may_end && IsDone(evaluation);
  }
  if (spec.end_task() && may_end) open(EndSetOf(name), 1);
}

// That it stands in `plan` as BeginFollowers has made it.
Status TaskManager::CheckFollower(const TaskSetState& set) const {
  const TaskSetSpec& spec = set.spec();
  const auto bad = [&](const std::string& what) {
    return absl::InvalidArgumentError("the data set " + Printable(spec.name()) + " " + what);
  };
  for (const TaskSetSpec& follower : FollowersOf(spec)) {
    const auto found = sets_.find(follower.name());
    if (found == sets_.end() || found->second.spec().follows() != spec.name()) {
      return bad("is not followed by " + Printable(follower.name()));
    }
  }
  if (spec.follows().empty()) {
    return set.open_epochs() == 0 ? absl::OkStatus() : bad("has open epochs and follows no other");
  }
  const auto followed = sets_.find(spec.follows());
  const bool is_known = followed != sets_.end() && followed->second.spec().follows().empty();
  if (!is_known || spec.has_evaluation() || spec.end_task()) return bad("follows none");
  const std::vector<TaskSetSpec> followers = FollowersOf(followed->second.spec());
  const bool is_one = std::ranges::any_of(followers, [&](const TaskSetSpec& follower) {
    return follower.SerializeAsString() == spec.SerializeAsString();
  });
  if (!is_one) return bad("is not what follows " + Printable(spec.follows()));
  const bool is_open = set.open_epochs() >= 0 && set.open_epochs() <= spec.epochs() &&
                       set.dealt() <= set.open_epochs() * TasksPerEpoch(spec);
  return is_open ? absl::OkStatus() : bad("is dealt out before its time");
}

}  // namespace millrace
