#include "tests/simulation/member_world.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/big_endian.h"
#include "messages/members.pb.h"
#include "stores/memory_byte_map.h"
#include "tasks/member_task.h"
#include "tasks/task_options.h"
#include "tests/simulation/random.h"
#include "tests/simulation/reference_loop.h"
#include "tests/simulation/scenario.h"
#include "topics/row_codec.h"

namespace millrace::simulation {
namespace {

struct InputRecordOf {
  std::string key;
  std::string value;
};

// One partition of input-data, as a producer with repeats writes it.
std::vector<InputRecordOf> DrawInput(const Scenario& scenario, WorkerId worker, Random& random) {
  std::vector<InputRecordOf> records;
  const RowNumber rows = scenario.rows[worker];
  RowNumber next = 0;
  while (next < rows) {
    if (scenario.IsFlushed(worker, next)) {
      records.push_back({EncodeInputKey({next, 0}), EncodeFlush(next)});
    }
    const uint64_t left = rows - next;
    InputKey key = {next, static_cast<uint32_t>(std::min(left, random.Between(1, 6)))};
    for (uint32_t row = 1; row < key.count; ++row) {
      if (scenario.IsFlushed(worker, next + row)) key.count = row;
    }
    const int times = random.Chance(0.1) ? 2 : 1;
    for (int i = 0; i < times; ++i) {
      records.push_back({EncodeInputKey(key), InputValue(scenario, worker, key)});
    }
    next = key.end();
  }
  records.push_back({EncodeInputKey({rows, 0}), EncodeEnd(rows)});
  return records;
}

// Of all jobs that can be drawn, one that can train so.
Scenario DrawMemberScenario(Random& random) {
  while (true) {
    Scenario scenario = DrawScenario(random);
    scenario.shards = 1;
    scenario.replicas = 0;
    scenario.weights_from_workers = false;
    scenario.evaluate_batches = false;
    scenario.most_message_bytes = kMostMessageBytes;
    scenario.training.clear_compression();
    const bool fits = scenario.one_pass() && scenario.sequential() && !scenario.has_rows() &&
                      !scenario.averages() && scenario.start == nullptr;
    if (fits) return scenario;
  }
}

class MemberWorld {
 public:
  MemberWorld(uint64_t seed, MemberError error)
      : random_(seed), error_(error), scenario_(DrawMemberScenario(random_)) {
    model_ = MakeModel(scenario_);
    for (WorkerId worker = 0; worker < scenario_.workers; ++worker) {
      input_.push_back(DrawInput(scenario_, worker, random_));
      begin_[worker] = 0;
    }
  }

  SeedOutcome Run() {
    const bool calm = random_.Chance(0.1);
    trims_ = random_.Chance(0.8);
    for (uint64_t i = random_.Between(1, 4); i > 0; --i) Join();
    for (int worlds = 0; violation_.empty() && !ended_; ++worlds) {
      may_fail_ = !calm && worlds < 60;
      LiveInAWorld();
      if (worlds > 100) Violate("no end");
    }
    if (violation_.empty()) CheckEnd();
    if (!violation_.empty()) violation_ += "\n  " + scenario_.ToString();
    return {violation_, coverage_};
  }

 private:
  struct Member {
    std::unique_ptr<MemberTask> task;
    std::map<WorkerId, Offset> reads;  // of the workers that it reads
    std::set<WorkerId> waits;          // of those whose positions the coordinator has not told yet
  };
  // By member 0 of a world, who may die before the others know that it is written.
  struct Written {
    Checkpoint checkpoint;
    uint64_t progress = 0;
  };

  void Count(const std::string& what) { ++coverage_[what]; }
  void Violate(const std::string& what) {
    if (violation_.empty()) violation_ = what;
  }
  bool Require(const Status& status, const std::string& where) {
    if (status.ok()) return true;
    Violate(where + ": " + std::string(status.message()));
    return false;
  }

  void Join() {
    MemberTask::Setup setup;
    setup.server = MakeServerOptions(scenario_, ShardId(0));
    setup.worker = [this](WorkerId worker) { return MakeWorkerOptions(scenario_, worker); };
    setup.shape = scenario_.shape();
    setup.model = model_.get();
    setup.attempt = next_attempt_ += 1'000'000;
    members_.push_back({std::make_unique<MemberTask>(std::move(setup)), {}, {}});
  }

  void Die(size_t member) { members_.erase(members_.begin() + static_cast<ptrdiff_t>(member)); }

  // ---- a world ----

  void LiveInAWorld() {
    if (members_.empty()) Join();
    if (random_.Chance(0.3)) std::swap(members_.front(), members_[random_.Below(members_.size())]);
    Count("world of " + std::to_string(std::min<size_t>(members_.size(), 3)));
    writing_.reset();
    durable_ = 0;
    if (!AgreeOnState()) return;
    const auto size = static_cast<uint32_t>(members_.size());
    for (uint32_t i = 0; i < size; ++i) {
      Member& member = members_[i];
      const StatusOr<std::set<WorkerId>> mine = member.task->Begin(i, size);
      if (!Require(mine.status(), "begin")) return;
      std::erase_if(member.reads, [&](const auto& read) { return !mine->contains(read.first); });
      member.waits.clear();
      for (const WorkerId worker : *mine) {
        if (!member.reads.contains(worker)) member.waits.insert(worker);
      }
    }
    for (int exchanges = 0; violation_.empty(); ++exchanges) {
      if (exchanges > 5000) return Violate("a world in which nothing goes on");
      if (!Exchange()) return;
    }
  }

  bool AgreeOnState() {
    MemberTask& first = *members_.front().task;
    if (error_ != MemberError::kIgnoresCheckpoints) {
      const uint64_t before = first.progress();
      const StatusOr<uint64_t> saved = first.LoadIfFurther(*parameters_);
      if (!Require(saved.status(), "load")) return false;
      durable_ = *saved;
      if (before == 0 && first.progress() > 0) Count("state from a checkpoint");
    }
    const auto furthest = std::ranges::max_element(
        members_, {}, [](const Member& member) { return member.task->progress(); });
    const StatusOr<std::string> state = furthest->task->EncodeState();
    if (!Require(state.status(), "state")) return false;
    for (Member& member : members_) {
      if (member.task->progress() == furthest->task->progress()) continue;
      Count(member.task->progress() == 0 ? "state for a newcomer" : "state of a round that failed");
      if (error_ == MemberError::kKeepsAnOldState) continue;
      std::string bytes = *state;
      if (error_ == MemberError::kForgetsDeadLetters) {
        MemberImage image;  // one part, after its size
        image.ParseFromString(bytes.substr(sizeof(uint64_t)));
        image.clear_dead_letters();
        const std::string part = image.SerializeAsString();
        bytes = EncodeBigEndian64(part.size()) + part;
      }
      if (!Require(member.task->TakeState(bytes), "take state")) return false;
    }
    return true;
  }

  bool StartWorker(Member& member, WorkerId worker) {
    std::optional<WorkerFeed::Committed> committed;
    const auto found = committed_.find(worker);
    if (found != committed_.end()) {
      committed = {found->second.offset, found->second.metadata};
      Count("worker starts at a commit");
    }
    const StatusOr<Offset> offset =
        member.task->StartWorker(worker, committed, {begin_.at(worker), EndOf(worker)});
    if (!Require(offset.status(), "start")) return false;
    member.reads[worker] = *offset;
    return true;
  }

  Offset EndOf(WorkerId worker) const { return static_cast<Offset>(input_[worker].size()); }

  bool StartSome(Member& member) {
    for (const WorkerId worker : std::set<WorkerId>(member.waits)) {
      if (Happens(0.3)) {
        Count("the coordinator answers late");
        continue;
      }
      member.waits.erase(worker);
      if (!StartWorker(member, worker)) return false;
    }
    return true;
  }

  void ReadSome(Member& member) {
    if (!StartSome(member)) return;
    for (auto& [worker, next] : member.reads) {
      WorkerFeed* const feed = member.task->feed(worker);
      if (feed == nullptr) continue;
      for (uint64_t i = random_.Below(4); i > 0 && next < EndOf(worker); --i) {
        if (feed->TakeHold(); feed->holds()) break;
        if (next < begin_.at(worker)) return Violate("rows were deleted that are to be read");
        const InputRecordOf& record = input_[worker][static_cast<size_t>(next)];
        const Status taken =
            member.task->TakeRows(worker, {next, int64_t{next} + 1000, record.key, record.value});
        if (!Require(taken, "row")) return;
        ++next;
      }
    }
    if (!Require(member.task->Advance(), "advance")) return;
    if (random_.Chance(0.05)) Require(member.task->Repeat(), "repeat");
  }

  // ---- an exchange ----

  // Returns whether the world goes on.
  bool Exchange() {
    for (Member& member : members_) ReadSome(member);
    if (!violation_.empty()) return false;
    std::vector<MemberNews> news;
    for (Member& member : members_) news.push_back(member.task->News());
    if (!FollowMemberZero()) return false;
    if (members_.front().task->all_left()) return !Ends();
    if (HappensToAll()) return false;
    if (Happens(0.02) && members_.size() < 5) {
      Count("joins");
      Join();
      return false;
    }
    if (Happens(0.02)) {
      Count("dies between rounds");
      Die(random_.Below(members_.size()));
      return false;
    }
    const StatusOr<std::optional<ReplicatedShard::Round>> round =
        members_.front().task->ReadRound(news);
    if (!Require(round.status(), "round")) return false;
    return !*round || FinishRound(news, Sum(**round));
  }

  // Returns whether it does.
  bool HappensToAll() {
    if (Happens(0.01)) {
      Count("all die");
      members_.clear();
      return true;
    }
    if (Happens(0.01)) {
      Count("all are stopped");
      SaveAtStop();
      members_.clear();
      return true;
    }
    if (!trims_ && Happens(0.01)) {
      Count("all die, and parameters are lost");
      members_.clear();
      parameters_.emplace();
      letters_.clear();
      return true;
    }
    return false;
  }

  bool Happens(double probability) { return may_fail_ && random_.Chance(probability); }

  std::vector<float> Sum(const ReplicatedShard::Round& round) {
    std::vector<float> sum(members_.front().task->value_count(), 0.0f);
    std::vector<WorkerId> order = round.summed;
    if (error_ == MemberError::kAddsInAnotherOrder) std::ranges::reverse(order);
    for (const WorkerId worker : order) {
      const std::span<const float> values =
          members_[uint32_t{worker} % members_.size()].task->ValuesOf(worker);
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += values[i];
    }
    return sum;
  }

  // Each takes the news of all, as they were sent. Some may get the sum, and others not.
  bool FinishRound(const std::vector<MemberNews>& news, const std::vector<float>& sum) {
    const bool fails = Happens(0.05);
    std::optional<size_t> victim;
    if (fails) victim = random_.Below(members_.size());
    for (size_t i = 0; i < members_.size(); ++i) {
      if (i == victim || (fails && random_.Chance(0.5))) continue;
      MemberTask& task = *members_[i].task;
      StatusOr<std::optional<ReplicatedShard::Round>> round = task.ReadRound(news);
      if (!Require(round.status(), "round")) return false;
      if (!Require(task.FinishRound(**std::move(round), sum), "finish round")) return false;
    }
    if (!fails) return true;
    Count("dies in a round");
    Die(*victim);
    return false;
  }

  // ---- checkpoints ----

  // Returns whether the world goes on.
  bool FollowMemberZero() {
    SendCommits();
    if (writing_ && random_.Chance(0.3)) {
      Write();
      if (Happens(0.1)) {
        Count("a world fails before its members hear of a checkpoint");
        Die(random_.Below(members_.size()));
        return false;
      }
    }
    MemberTask& zero = *members_.front().task;
    const bool begins =
        !writing_ && zero.progress() > durable_ && (random_.Chance(0.2) || zero.all_left());
    MemberNews news;
    news.set_durable(durable_);
    news.set_begins_checkpoint(begins);
    for (Member& member : members_) {
      Commit(member.task->FollowCheckpoints(news));
      if (error_ == MemberError::kCommitsTooEarly) Commit(member.task->TakePositions(UINT64_MAX));
    }
    if (!begins) return true;
    StatusOr<Checkpoint> checkpoint = zero.MakeCheckpoint();
    if (!Require(checkpoint.status(), "checkpoint")) return false;
    writing_ = {*std::move(checkpoint), zero.progress()};
    if (!Happens(0.1)) return true;
    Count("member 0 dies and tells nobody of its checkpoint");
    Write();
    Die(0);
    return false;
  }

  // By member 0, before it ends; the others have noted no positions.
  void SaveAtStop() {
    if (writing_) Write();
    MemberTask& zero = *members_.front().task;
    if (zero.progress() <= durable_) return;
    zero.CheckpointDurable(durable_);
    StatusOr<Checkpoint> checkpoint = zero.MakeCheckpoint();
    if (!Require(checkpoint.status(), "checkpoint at a stop")) return;
    writing_ = {*std::move(checkpoint), zero.progress()};
    Write();
  }

  void Write() {
    WriteBatch batch;
    for (const Checkpoint::Entry& entry : writing_->checkpoint.entries) {
      batch.Put(entry.key, entry.value);
    }
    Require(parameters_->Write(batch), "parameters");
    for (const std::string& letter : writing_->checkpoint.dead_letters) {
      if (!letters_.insert(letter).second) repeated_letters_ = true;
    }
    durable_ = writing_->progress;
    writing_.reset();
    Count("checkpoint");
  }

  void Commit(const std::vector<MemberTask::Positions>& positions) {
    for (const MemberTask::Positions& each : positions) {
      commits_.push_back({each.worker, {each.commit.offset, each.commit.Metadata()}});
      if (trims_ && each.rows_end && random_.Chance(0.7)) {
        begin_[each.worker] = std::max(begin_[each.worker], *each.rows_end);
      }
    }
  }

  // What members have committed arrives late; or again, from one that others take for dead.
  void SendCommits() {
    for (const auto& [worker, commit] : commits_) {
      if (Happens(0.3)) {
        Count("a commit is lost");
        continue;
      }
      committed_[worker] = commit;
      all_commits_.push_back({worker, commit});
    }
    commits_.clear();
    if (all_commits_.empty() || !Happens(0.05)) return;
    Count("a zombie commits an old position");
    const auto& [worker, commit] = all_commits_[random_.Below(all_commits_.size())];
    committed_[worker] = commit;
  }

  // Returns whether the job, or this world, does.
  bool Ends() {
    if (durable_ != members_.front().task->progress()) return false;
    if (Happens(0.3)) {
      Count("member 0 dies in the end of the job");
      Die(0);
      return true;
    }
    ended_ = true;
    return true;
  }

  // ---- what must be true ----

  uint64_t UndecodableRows() const {
    uint64_t rows = 0;
    for (WorkerId worker = 0; worker < scenario_.workers; ++worker) {
      for (RowNumber row = 0; row < scenario_.rows[worker]; ++row) {
        if (IsUndecodable(scenario_, worker, row)) ++rows;
      }
    }
    return rows;
  }

  void CheckEnd() {
    const Trained expected = TrainInOneProcess(scenario_, {});
    for (const Member& member : members_) {
      const ServerProcessor& processor = member.task->shard().processor();
      const std::span<const float> weights = processor.shard().weights();
      if (!std::ranges::equal(weights, expected.end)) return Violate("other weights");
      uint64_t rows = 0;
      for (WorkerId worker = 0; worker < scenario_.workers; ++worker) {
        rows += processor.rows_end(worker);
      }
      uint64_t all = 0;
      for (const RowNumber count : scenario_.rows) all += count;
      if (rows != all) return Violate("rows were not counted once");
      if (processor.counters().undecodable_rows() != UndecodableRows()) {
        return Violate("unusable rows were not counted once");
      }
      if (processor.counters().duplicates_ignored() > 0) return Violate("an update came twice");
    }
    if (repeated_letters_) return Violate("a dead letter was written twice");
    uint64_t letters = 0;
    for (const std::string& frame : letters_) {
      DeadLetter letter;
      const StatusOr<Frame> body = ParseFrame(frame);
      if (!body.ok() || !letter.ParseFromString(std::string(body->body))) continue;
      letters += std::max(letter.rows(), 1U);
    }
    if (letters != UndecodableRows()) return Violate("dead letters are missing");
    MemberTask& any = *members_.front().task;
    const uint64_t progress = any.progress();
    Join();
    MemberTask& later = *members_.back().task;
    if (!Require(later.LoadIfFurther(*parameters_).status(), "load at the end")) return;
    if (later.progress() != progress) Violate("the end is in no checkpoint");
  }

  struct Commits {
    Offset offset = 0;
    std::string metadata;
  };

  Random random_;
  const MemberError error_;
  const Scenario scenario_;
  std::unique_ptr<Model> model_;
  std::vector<std::vector<InputRecordOf>> input_;
  std::map<WorkerId, Offset> begin_;  // of what is not deleted
  std::map<WorkerId, Commits> committed_;
  std::vector<std::pair<WorkerId, Commits>> commits_;  // not sent yet
  std::vector<std::pair<WorkerId, Commits>> all_commits_;
  std::optional<MemoryByteMap> parameters_{std::in_place};
  std::set<std::string> letters_;
  bool repeated_letters_ = false;
  std::vector<Member> members_;  // by position
  uint64_t next_attempt_ = 0;
  std::optional<Written> writing_;
  uint64_t durable_ = 0;  // as member 0 of this world knows
  bool may_fail_ = true;
  bool trims_ = true;  // deletes rows that nobody needs
  bool ended_ = false;
  std::string violation_;
  std::map<std::string, uint64_t> coverage_;
};

}  // namespace

SeedOutcome RunMemberSeed(uint64_t seed, MemberError error) {
  return MemberWorld(seed, error).Run();
}

}  // namespace millrace::simulation
