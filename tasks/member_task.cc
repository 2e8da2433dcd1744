#include "tasks/member_task.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "topics/frame.h"
#include "topics/message_codec.h"

namespace millrace {

MemberTask::MemberTask(Setup setup)
    : setup_(std::move(setup)), range_(setup_.server.range), shard_(setup_.server) {
  MILLRACE_CHECK(setup_.model != nullptr);
}

StatusOr<std::set<WorkerId>> MemberTask::Begin(uint32_t position, uint32_t members) {
  MILLRACE_CHECK(position < members);
  members_ = members;
  mine_.clear();
  const VectorClock& clocks = shard_.processor().clocks();
  for (const auto& [worker, entry] : clocks.entries()) {
    if (!entry.left && uint32_t{worker} % members == position) mine_.insert(worker);
  }
  std::erase_if(hosted_, [this](const auto& entry) { return !mine_.contains(entry.first); });
  for (auto& [worker, hosted] : hosted_) {
    const bool is_old = hosted.message && hosted.message->rest.clock() != clocks.clock(worker);
    if (is_old) hosted.message.reset();
  }
  noted_.reset();
  positions_.clear();
  MILLRACE_RETURN_IF_ERROR(AnswerAll());
  return mine_;
}

Status MemberTask::AnswerAll() {
  std::vector<WorkerId> workers;
  for (const auto& [worker, hosted] : hosted_) workers.push_back(worker);
  return Answer(workers);
}

Status MemberTask::Answer(std::span<const WorkerId> workers) {
  if (workers.empty()) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(
      const std::shared_ptr<const SharedWeights> weights,
      shard_.WeightsFor(workers, *setup_.model, setup_.worker(workers.front())));
  for (const WorkerId worker : workers) hosted_.at(worker).feed->TakeShared(weights);
  return absl::OkStatus();
}

// They are committed when a checkpoint that has them is durable, so that it was lost then.
bool MemberTask::IsBeyondTheState(WorkerId worker,
                                  const std::optional<WorkerFeed::Committed>& committed) const {
  if (!committed) return false;
  const auto position = InputPosition::FromCommit(committed->offset, committed->metadata);
  return position && position->clock > shard_.processor().clocks().clock(worker);
}

StatusOr<Offset> MemberTask::StartWorker(WorkerId worker,
                                         const std::optional<WorkerFeed::Committed>& committed,
                                         WorkerFeed::Range rows) {
  MILLRACE_CHECK(Hosts(worker));
  std::optional<WorkerFeed::Committed> usable = committed;
  if (IsBeyondTheState(worker, committed)) {
    if (rows.begin > 0) {
      return absl::DataLossError(
          "has committed positions of a later state than the last checkpoint in parameters, and "
          "rows before them are deleted: the topic parameters has lost checkpoints");
    }
    usable.reset();
  }
  Hosted hosted;
  hosted.task = std::make_unique<WorkerTask>(setup_.worker(worker), setup_.shape, *setup_.model,
                                             setup_.attempt++);
  hosted.feed.emplace(*hosted.task);
  MILLRACE_ASSIGN_OR_RETURN(const Offset offset, hosted.feed->Assigned(usable, rows, nullptr));
  hosted.feed->Started(out_);
  out_.clear();  // what it asks is answered from the state
  hosted_.insert_or_assign(worker, std::move(hosted));
  MILLRACE_RETURN_IF_ERROR(Answer({&worker, 1}));
  return offset;
}

WorkerFeed* MemberTask::feed(WorkerId worker) {
  const auto found = hosted_.find(worker);
  return found == hosted_.end() ? nullptr : &*found->second.feed;
}

Status MemberTask::TakeRows(WorkerId worker, const InputDataRecord& record) {
  return hosted_.at(worker).feed->TakeRows(record);
}

Status MemberTask::Advance() {
  for (auto& [worker, hosted] : hosted_) MILLRACE_RETURN_IF_ERROR(AdvanceOne(worker, hosted));
  return absl::OkStatus();
}

Status MemberTask::AdvanceOne(WorkerId worker, Hosted& hosted) {
  MILLRACE_ASSIGN_OR_RETURN(const bool advanced, hosted.feed->Advance(out_));
  return advanced ? KeepMessage(worker, hosted) : absl::OkStatus();
}

Status MemberTask::KeepMessage(WorkerId worker, Hosted& hosted) {
  const Clock clock = shard_.processor().clocks().clock(worker);
  ChunkJoiner joiner({.sender_bytes = SIZE_MAX, .bytes = SIZE_MAX});
  for (const OutgoingRecord& record : std::exchange(out_, {})) {
    if (record.topic != Topic::kGradients) continue;
    MILLRACE_ASSIGN_OR_RETURN(const Frame frame, ParseFrame(record.value));
    MILLRACE_ASSIGN_OR_RETURN(const std::optional<std::string> body, joiner.Add(worker, frame));
    if (!body) continue;
    Gradient message;
    MILLRACE_RETURN_IF_ERROR(ParseMessage(*body, message));
    const bool counts = message.has_update() || message.has_leave();
    if (counts && message.clock() == clock)
      hosted.message = SplitUpdate(std::move(message), range_);
  }
  return absl::OkStatus();
}

Status MemberTask::Repeat() {
  std::vector<WorkerId> waiting;
  for (auto& [worker, hosted] : hosted_) {
    if (hosted.message) continue;
    hosted.task->Repeat(out_);
    MILLRACE_RETURN_IF_ERROR(KeepMessage(worker, hosted));
    if (!hosted.message) waiting.push_back(worker);
  }
  MILLRACE_RETURN_IF_ERROR(Answer(waiting));
  return Advance();
}

bool MemberTask::ready() const {
  return !all_left() && std::ranges::all_of(mine_, [this](WorkerId worker) {
    const auto found = hosted_.find(worker);
    return found != hosted_.end() && found->second.message.has_value();
  });
}

MemberNews MemberTask::News() const {
  MemberNews news;
  news.set_ready(ready());
  if (!news.ready()) return news;
  for (const WorkerId worker : mine_) {
    const SplitMessage& message = *hosted_.at(worker).message;
    MemberNews::Contribution& contribution = *news.add_contributions();
    StatusOr<std::string> body = SerializeMessage(message.rest);
    MILLRACE_CHECK(body.ok());  // what was larger is in the values
    contribution.set_message(*std::move(body));
    contribution.set_is_summed(!message.values.empty());
  }
  return news;
}

StatusOr<std::optional<ReplicatedShard::Round>> MemberTask::ReadRound(
    std::span<const MemberNews> news) const {
  MILLRACE_CHECK(news.size() == members_);
  const bool all_ready =
      std::ranges::all_of(news, [](const MemberNews& each) { return each.ready(); });
  if (!all_ready || all_left()) return std::optional<ReplicatedShard::Round>();
  std::vector<int> next(members_);  // contribution
  ReplicatedShard::Round round;
  for (const auto& [worker, entry] : shard_.processor().clocks().entries()) {
    if (entry.left) continue;
    const uint32_t owner = uint32_t{worker} % members_;
    Gradient message;
    const int at = next[owner]++;
    const bool is_there = at < news[owner].contributions_size() &&
                          ParseMessage(news[owner].contributions(at).message(), message).ok() &&
                          message.worker() == worker;
    if (!is_there) {
      return absl::DataLossError("worker " + std::to_string(worker) +
                                 " has no message in a round: the processes that train together "
                                 "have different versions or settings");
    }
    const bool has_rows = message.has_update() && message.update().row_count() > 0;
    if (news[owner].contributions(at).is_summed() && has_rows) round.summed.push_back(worker);
    round.messages.push_back(std::move(message));
  }
  return std::optional<ReplicatedShard::Round>(std::move(round));
}

std::span<const float> MemberTask::ValuesOf(WorkerId worker) const {
  return hosted_.at(worker).message->values;
}

Status MemberTask::FinishRound(ReplicatedShard::Round round, std::span<const float> sum) {
  MILLRACE_RETURN_IF_ERROR(shard_.Fold(std::move(round), sum));
  for (auto& [worker, hosted] : hosted_) hosted.message.reset();
  DropWhoHasLeft();
  return AnswerAll();
}

void MemberTask::DropWhoHasLeft() {
  const VectorClock& clocks = shard_.processor().clocks();
  std::erase_if(mine_, [&](WorkerId worker) { return clocks.left(worker); });
  std::erase_if(hosted_, [&](const auto& entry) { return clocks.left(entry.first); });
}

// In this order: a checkpoint that begins has nothing that the durable one has written for good.
std::vector<MemberTask::Positions> MemberTask::FollowCheckpoints(const MemberNews& zero) {
  std::vector<Positions> durable;
  if (zero.durable() > 0) {
    CheckpointDurable(zero.durable());
    durable = TakePositions(zero.durable());
  }
  if (zero.begins_checkpoint()) NotePositions();
  return durable;
}

void MemberTask::NotePositions() {
  noted_ = progress();
  positions_.clear();
  for (const auto& [worker, hosted] : hosted_) {
    const std::optional<InputPosition> commit = hosted.task->CommitPosition();
    if (commit) positions_.push_back({worker, *commit, hosted.task->TrimPosition()});
  }
}

std::vector<MemberTask::Positions> MemberTask::TakePositions(uint64_t durable_progress) {
  if (!noted_ || *noted_ > durable_progress) return {};
  noted_.reset();
  return std::exchange(positions_, {});
}

std::vector<std::pair<WorkerId, WorkerOutput::Evaluation>> MemberTask::TakeEvaluations() {
  std::vector<std::pair<WorkerId, WorkerOutput::Evaluation>> all;
  for (auto& [worker, hosted] : hosted_) {
    for (WorkerOutput::Evaluation& each : hosted.task->TakeEvaluations()) {
      all.emplace_back(worker, std::move(each));
    }
  }
  return all;
}

}  // namespace millrace
