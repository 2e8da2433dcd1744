#include "tests/simulation/plain_trainers.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "tests/simulation/plain_handlers.h"
#include "tests/simulation/referee_job.h"
#include "tests/simulation/stored_snapshot.h"
#include "tests/simulation/trainers.h"

namespace millrace::simulation {
namespace {

class PlainTrainers {
 public:
  PlainTrainers(const Scenario& scenario, const SkippedUpdates& skipped)
      : scenario_(scenario), skipped_(skipped), keys_(KeysOf(scenario)), left_(scenario.workers) {
    for (const NamedParameter& parameter : scenario.parameters) {
      handlers_.push_back(PlainHandlerOf(parameter, scenario.training));
    }
    for (ShardId shard = 0; shard < scenario.shards; ++shard) Begin(shard);
  }

  Trained Run(const std::set<Clock>& rounds) {
    Trained trained;
    for (;; ++clock_) {
      if (rounds.contains(clock_)) trained.after[clock_] = values();
      if (!Round()) break;
    }
    trained.end = values();
    trained.moments = Moments(0);
    return trained;
  }

 private:
  struct Key {
    ShardId shard = 0;
    PlainNumber number;
    bool has_value = false;
    uint64_t updates = 0;  // of its parameter, in its shard
  };
  struct Worker {
    WorkerId id = 0;
    TrainerStep step;
  };

  // The keys of the shard, as the job that it goes on from has left them.
  void Begin(ShardId shard) {
    const Referee::Job job = JobOf(scenario_, shard);
    std::optional<Referee::State> start;
    if (scenario_.start != nullptr) start = scenario_.start->StartOf(job);
    for (uint64_t i = 0; i < job.keys; ++i) {
      Key& key = all_.emplace_back();
      key.shard = shard;
      if (!start) continue;
      const std::vector<float>& slots = *start->slots;
      key.number.value = (*start->weights)[i];
      if (!slots.empty()) key.number.first = slots[i];
      if (slots.size() > job.keys) key.number.second = slots[job.keys + i];
      for (size_t number = 0; number < keys_.size(); ++number) {
        const uint64_t at = job.begin + i;
        if (at < keys_[number].begin || at >= keys_[number].end) continue;
        key.has_value = (*start->named)[number].from.has_value();
        key.updates = (*start->named)[number].updates;
      }
    }
    if (!start) return;
    for (WorkerId worker = 0; worker < scenario_.workers; ++worker) {
      const Referee::Member& member = start->members[worker];
      left_[worker] = member.left;
      clock_ = std::max(clock_, Clock(member.clock));  // of who has left it is no higher
    }
  }

  std::vector<float> values() const {
    std::vector<float> values;
    for (const Key& key : all_) values.push_back(key.number.value);
    return values;
  }

  // All keys of it have.
  bool HasValues(KeyRange parameter) const {
    return std::all_of(all_.begin() + static_cast<ptrdiff_t>(parameter.begin),
                       all_.begin() + static_cast<ptrdiff_t>(parameter.end),
                       [](const Key& key) { return key.has_value; });
  }

  // False: nobody trains any more.
  bool Round() {
    std::vector<uint32_t> has_values;
    for (uint32_t number = 0; number < keys_.size(); ++number) {
      if (HasValues(keys_[number])) has_values.push_back(number);
    }
    const std::vector<float> now = values();
    std::vector<Worker> round;
    for (WorkerId worker = 0; worker < scenario_.workers; ++worker) {
      if (left_[worker] || clock_ >= uint64_t{scenario_.rows[worker]}) continue;
      round.push_back({worker, StepOf(scenario_, worker, clock_, now, has_values)});
    }
    for (uint32_t number = 0; number < keys_.size(); ++number) {
      for (uint64_t key = keys_[number].begin; key < keys_[number].end; ++key) {
        Change(round, number, key);
      }
    }
    return !round.empty();
  }

  bool Counts(const Worker& worker, ShardId shard) const {
    return skipped_.size() <= shard || !skipped_[shard].contains({worker.id, clock_});
  }

  void Change(const std::vector<Worker>& round, uint32_t number, uint64_t at) {
    Key& key = all_[at];
    const size_t i = at - keys_[number].begin;
    float sum = 0;
    float last = 0;
    double weight = 0;
    bool is_named = false;
    for (const Worker& worker : round) {
      const auto put = worker.step.put.find(number);
      if (key.has_value || put == worker.step.put.end() || !Counts(worker, key.shard)) continue;
      PutNumber(handlers_[number], put->second[i], key.number);
      key.has_value = true;
    }
    for (const Worker& worker : round) {
      const auto part = worker.step.part.find(number);
      if (!key.has_value || part == worker.step.part.end() || !Counts(worker, key.shard)) continue;
      last = part->second[i];
      sum = is_named ? sum + last : last;
      weight = is_named ? weight + worker.step.weight : worker.step.weight;
      is_named = true;
    }
    if (!is_named) return;
    ChangeNumber(handlers_[number], key.updates, sum, last, weight, key.number);
    ++key.updates;
  }

  const Scenario& scenario_;
  const SkippedUpdates& skipped_;
  const std::vector<KeyRange> keys_;  // of each parameter
  std::vector<PlainHandler> handlers_;
  std::vector<Key> all_;
  std::vector<bool> left_;  // by worker, before the job began
  Clock clock_ = 0;
};

}  // namespace

Trained TrainPlainly(const Scenario& scenario, const SkippedUpdates& skipped,
                     const std::set<Clock>& rounds) {
  return PlainTrainers(scenario, skipped).Run(rounds);
}

}  // namespace millrace::simulation
