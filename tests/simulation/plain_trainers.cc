#include "tests/simulation/plain_trainers.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/hash.h"
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
    for (const EmbeddingId id : RowsOfTables(scenario)) {
      const auto shard = static_cast<ShardId>(Mix64(id) % scenario.shards);
      Row& row = rows_[id];
      row.born = JobOf(scenario, shard).born_rows.at(id);
      row.numbers.resize(WidthOf(scenario, id));
      table_updates_[{TableParameterOf(scenario, id), shard}] = 0;
    }
    for (ShardId shard = 0; shard < scenario.shards; ++shard) Begin(shard);
  }

  Trained Run(const std::set<Clock>& rounds) {
    Trained trained;
    for (;; ++clock_) {
      if (rounds.contains(clock_)) trained.after[clock_] = all_values();
      if (!Round()) break;
    }
    trained.end = all_values();
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
  struct Row {
    std::vector<float> born;
    std::vector<PlainNumber> numbers;  // once it is stored
    uint32_t named = 0;                // up to then
    bool is_stored = false;
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
    for (size_t number = 0; number < job.parameters.size(); ++number) {
      const auto number32 = static_cast<uint32_t>(number);
      const auto of_table = table_updates_.find({number32, shard});
      if (of_table != table_updates_.end()) of_table->second = (*start->named)[number].updates;
    }
    for (const auto& [id, was] : *start->rows) {
      Row& row = rows_.at(id);
      row.named = was.updates;
      row.is_stored = !was.values.empty();
      for (size_t i = 0; i < row.numbers.size() && row.is_stored; ++i) {
        row.numbers[i].value = was.values[i];
        const size_t width = row.numbers.size();
        const size_t slots = handlers_[TableParameterOf(scenario_, id)].slots();
        if (slots > 0) row.numbers[i].first = was.slots[i];
        if (slots > 1) row.numbers[i].second = was.slots[width + i];
      }
    }
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

  std::vector<float> RowValues(EmbeddingId id) const {
    const Row& row = rows_.at(id);
    std::vector<float> values(row.born.begin(),
                              row.born.begin() + static_cast<ptrdiff_t>(row.numbers.size()));
    for (size_t i = 0; i < values.size() && row.is_stored; ++i) values[i] = row.numbers[i].value;
    return values;
  }

  // With the rows behind them, each as wide as the widest.
  std::vector<float> all_values() const {
    std::vector<float> all = values();
    for (const auto& [id, row] : rows_) {
      std::vector<float> values = RowValues(id);
      values.resize(row.born.size());
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
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
      round.push_back({worker, StepOf(scenario_, worker, clock_, now, has_values,
                                      [this](EmbeddingId id) { return RowValues(id); })});
    }
    for (uint32_t number = 0; number < keys_.size(); ++number) {
      for (uint64_t key = keys_[number].begin; key < keys_[number].end; ++key) {
        Change(round, number, key);
      }
    }
    ChangeRows(round);
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

  void ChangeRows(const std::vector<Worker>& round) {
    for (auto& [table, updates] : table_updates_) {
      const auto [number, shard] = table;
      double weight = 0;
      for (const Worker& worker : round) {
        const bool names = std::ranges::any_of(
            worker.step.table_rows.ids,
            [&, n = number](EmbeddingId row) { return TableParameterOf(scenario_, row) == n; });
        if (names && Counts(worker, shard)) weight += worker.step.weight;
      }
      if (weight == 0) continue;
      for (auto& [id, row] : rows_) {
        if (TableParameterOf(scenario_, id) != number) continue;
        if (Mix64(id) % scenario_.shards == shard) ChangeRow(round, number, updates, weight, id);
      }
      ++updates;
    }
  }

  // What the step says of the row; empty: nothing.
  std::vector<float> RowChange(const TrainerStep& step, EmbeddingId id) const {
    auto first = step.table_rows.values.begin();
    for (const EmbeddingId row : step.table_rows.ids) {
      const auto end = first + static_cast<ptrdiff_t>(WidthOf(scenario_, row));
      if (row == id) return {first, end};
      first = end;
    }
    return {};
  }

  void ChangeRow(const std::vector<Worker>& round, uint32_t number, uint64_t updates, double weight,
                 EmbeddingId id) {
    const auto shard = static_cast<ShardId>(Mix64(id) % scenario_.shards);
    std::vector<std::vector<float>> changes;
    for (const Worker& worker : round) {
      std::vector<float> change = RowChange(worker.step, id);
      if (!change.empty() && Counts(worker, shard)) changes.push_back(std::move(change));
    }
    if (changes.empty()) return;
    Row& row = rows_.at(id);
    if (!row.is_stored) {
      if (++row.named < scenario_.training.embedding().admit_after()) return;
      row.is_stored = true;
      for (size_t i = 0; i < row.numbers.size(); ++i) row.numbers[i] = {.value = row.born[i]};
    }
    for (size_t i = 0; i < row.numbers.size(); ++i) {
      float sum = changes[0][i];
      for (size_t k = 1; k < changes.size(); ++k) sum = sum + changes[k][i];
      ChangeNumber(handlers_[number], updates, sum, changes.back()[i], weight, row.numbers[i]);
    }
  }

  const Scenario& scenario_;
  const SkippedUpdates& skipped_;
  const std::vector<KeyRange> keys_;  // of each parameter
  std::vector<PlainHandler> handlers_;
  std::vector<Key> all_;
  std::map<EmbeddingId, Row> rows_;
  std::map<std::pair<uint32_t, ShardId>, uint64_t> table_updates_;  // steps, by table and shard
  std::vector<bool> left_;  // by worker, before the job began
  Clock clock_ = 0;
};

}  // namespace

Trained TrainPlainly(const Scenario& scenario, const SkippedUpdates& skipped,
                     const std::set<Clock>& rounds) {
  return PlainTrainers(scenario, skipped).Run(rounds);
}

}  // namespace millrace::simulation
