#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "kafka/client_config.h"
#include "kafka/consumer.h"
#include "kafka/fetch_nudge.h"
#include "kafka/fetch_queue.h"
#include "kafka/offset_range.h"
#include "kafka/queue_turns.h"
#include "kafka/rdkafka_handles.h"
#include "kafka/read_positions.h"
#include "kafka/rebalance_watch.h"
#include "kafka/status_of_error.h"
#include "kafka/topic_presence.h"

namespace millrace {
namespace {

using kafka_internal::FetchQueue;
using kafka_internal::Handle;
using kafka_internal::RebalanceWatch;
using kafka_internal::StatusOfError;

using PartitionList = Handle<rd_kafka_topic_partition_list_t>;

// A process hosts a few logical workers; each partition has a fetch queue of its own, so each gets
// this part of the bound.
constexpr size_t kPartitionsAtOnce = 4;
constexpr size_t kGroupEvents = 256;  // at most in a Poll
// The reply comes in a millisecond when the coordinator is there; Poll must not wait long for it.
constexpr int kCommittedTimeoutMs = 500;
// Heartbeats wait behind commits on the coordinator's connection: a commit for each record would
// end in a session timeout.
constexpr std::chrono::milliseconds kBetweenCommits(100);
// How long Close waits for a coordinator that may be away; others then wait for the session
// timeout.
constexpr int kCloseCommitTimeoutMs = 2000;
constexpr std::chrono::seconds kCloseWaitForRebalance(2);
constexpr std::chrono::seconds kCloseTimeout(3);

// librdkafka frees it with the list.
void SetCommitted(rd_kafka_topic_partition_t& entry, const GroupConsumer::Committed& committed) {
  entry.offset = committed.offset;
  if (committed.metadata.empty()) return;
  entry.metadata = std::malloc(committed.metadata.size());
  MILLRACE_CHECK(entry.metadata != nullptr);
  std::memcpy(entry.metadata, committed.metadata.data(), committed.metadata.size());
  entry.metadata_size = committed.metadata.size();
}

// librdkafka copies metadata as a C string but keeps its size, so after a NUL (which only others
// can have written) there is garbage.
std::string Text(const void* data, size_t size) {
  const char* const text = static_cast<const char*>(data);
  return text == nullptr ? std::string() : std::string(text, strnlen(text, size));
}

// Every partition has a queue of its own, which is what makes Hold cheap: a held partition is not
// asked, its queue fills up to its bound, and nothing is fetched twice. The consumer's main queue
// carries only the group's events, and is served in every Poll.
class CooperativeGroupConsumer final : public GroupConsumer {
 public:
  CooperativeGroupConsumer(std::string topic, Wakeup* wakeup)
      : topic_(std::move(topic)), wakeup_(wakeup) {}
  ~CooperativeGroupConsumer() override;
  Status Open(const KafkaOptions& kafka, const ConsumerOptions& options);

  StatusOr<size_t> Poll(size_t max_records, const Handler& handler) override;
  void Read(std::set<int32_t> partitions) override { wanted_ = std::move(partitions); }
  void Hold(int32_t partition, bool held) override;
  void ReportProgress() override;
  Status Seek(int32_t partition, Offset offset) override;
  StatusOr<OffsetRange> QueryRange(int32_t partition, std::chrono::milliseconds timeout) override {
    return kafka_internal::QueryOffsetRange(client_.get(), topic_, partition, timeout);
  }
  void Commit(int32_t partition, const Committed& position) override;
  void DropCommits() override;
  bool is_member() const override { return was_assigned_; }
  Status Close() override;

 private:
  struct Partition {
    std::unique_ptr<FetchQueue> queue;
    std::optional<Committed> last_commit;
    bool commit_is_due = false;  // last_commit was not yet sent
  };

  // Called by librdkafka from within Poll or Close.
  static void OnRebalance(rd_kafka_t*, rd_kafka_resp_err_t code,
                          rd_kafka_topic_partition_list_t* partitions, void* self);
  static void OnCommitted(rd_kafka_t*, rd_kafka_resp_err_t error,
                          rd_kafka_topic_partition_list_t* offsets, void* self);
  static void RefuseToRead(rd_kafka_t* client, rd_kafka_topic_partition_list_t* partitions);
  void OnRevoked(const rd_kafka_topic_partition_list_t& partitions);
  void Release(rd_kafka_topic_partition_list_t* partitions);

  Status ServeGroup(const Handler& handler);
  Status TakeWanted();
  Status StartPending();
  Status StartReading(rd_kafka_topic_partition_list_t* partitions);
  void StopReading(int32_t partition);
  Status ReadAgain(int32_t partition, Offset offset);
  Status HandOut(size_t max_records, const Handler& handler, size_t& events);
  PartitionList TakeDueCommits();
  void SendCommits();
  void CommitAgain();
  Status Leave();
  PartitionList ListOf(int32_t partition) const;

  const std::string topic_;
  Wakeup* const wakeup_;
  std::string group_;
  bool joins_ = true;
  std::unique_ptr<RebalanceWatch> rebalance_ = std::make_unique<RebalanceWatch>();
  Handle<rd_kafka_t> client_;
  std::optional<FetchQueue> group_queue_;
  Handle<rd_kafka_queue_t> empty_queue_;     // never holds anything
  std::map<int32_t, Partition> partitions_;  // ours
  kafka_internal::QueueTurns turns_;         // of these
  kafka_internal::ReadPositions positions_;
  std::optional<kafka_internal::FetchNudge> nudge_;
  std::optional<kafka_internal::TopicPresence> presence_;
  // Given to us, but we do not yet know where to start. librdkafka takes nothing away before it
  // was told that reading has begun.
  PartitionList pending_;
  std::optional<std::set<int32_t>> wanted_;  // by Read, and not taken yet
  const Handler* handler_ = nullptr;         // of the Poll that runs
  Status revoke_status_;  // its first error of on_revoked, which librdkafka calls
  bool any_commit_is_due_ = false;
  std::chrono::steady_clock::time_point next_commit_{};
  bool closed_ = false;
  bool left_ = false;          // the group, while it closed
  bool was_assigned_ = false;  // ever, be it nothing
};

CooperativeGroupConsumer::~CooperativeGroupConsumer() {
  if (client_ == nullptr) return;
  static_cast<void>(Close());  // an error only means that the others wait for the session timeout
  partitions_.clear();
  group_queue_.reset();
  empty_queue_.reset();
  // Two clients are left alone, to go with the process. Before 2.3 librdkafka aborts when a member
  // of a cooperative-sticky group is destroyed before its first assignment (its issue 4312). And it
  // waits, maybe for ever, for a member that could not leave.
  if (!was_assigned_ || !left_) {
    static_cast<void>(client_.release());
    static_cast<void>(rebalance_.release());  // it outlives the client
  }
}

Status CooperativeGroupConsumer::Open(const KafkaOptions& kafka, const ConsumerOptions& options) {
  if (options.group_id.empty()) {
    return absl::InvalidArgumentError("a consumer group needs a name");
  }
  group_ = options.group_id;
  const auto session_ms = static_cast<int64_t>(options.session_timeout_s * 1000);
  const auto stall_ms = std::max(session_ms, static_cast<int64_t>(options.stall_timeout_s * 1000));
  const size_t queue_kbytes = std::max<size_t>(options.queue_kbytes / kPartitionsAtOnce, 1);
  kafka_internal::Settings ours = kafka_internal::ConsumerSettings(options, queue_kbytes);
  ours.insert(
      ours.end(),
      {
          {"group.id", options.group_id},
          {"partition.assignment.strategy", "cooperative-sticky"},
          {"session.timeout.ms", absl::StrCat(session_ms)},
          // A rebalance is noticed at a heartbeat.
          {"heartbeat.interval.ms", absl::StrCat(std::clamp<int64_t>(session_ms / 4, 1, 300))},
          // Heartbeats come from a thread of librdkafka, also when the main one hangs.
          {"max.poll.interval.ms", absl::StrCat(stall_ms)},
      });
  MILLRACE_ASSIGN_OR_RETURN(auto conf,
                            kafka_internal::MakeConfiguration(kafka, options.client_id, ours));
  rd_kafka_conf_set_rebalance_cb(conf.get(), &CooperativeGroupConsumer::OnRebalance);
  rd_kafka_conf_set_opaque(conf.get(), this);
  rebalance_->AddTo(conf.get());
  MILLRACE_ASSIGN_OR_RETURN(client_,
                            kafka_internal::MakeClient(RD_KAFKA_CONSUMER, std::move(conf)));
  rd_kafka_poll_set_consumer(client_.get());
  group_queue_.emplace(Handle<rd_kafka_queue_t>(rd_kafka_queue_get_consumer(client_.get())),
                       wakeup_);
  nudge_.emplace(client_.get(), topic_, queue_kbytes);
  presence_.emplace(client_.get(), topic_);
  empty_queue_.reset(rd_kafka_queue_new(client_.get()));
  joins_ = options.joins_group;
  if (!joins_) return absl::OkStatus();
  const PartitionList topics = ListOf(RD_KAFKA_PARTITION_UA);
  return StatusOfError(rd_kafka_subscribe(client_.get(), topics.get()),
                       absl::StrCat("subscribing to '", topic_, "'"));
}

PartitionList CooperativeGroupConsumer::ListOf(int32_t partition) const {
  PartitionList list(rd_kafka_topic_partition_list_new(1));
  rd_kafka_topic_partition_list_add(list.get(), topic_.c_str(), partition);
  return list;
}

StatusOr<size_t> CooperativeGroupConsumer::Poll(size_t max_records, const Handler& handler) {
  MILLRACE_CHECK(!closed_ && handler_ == nullptr);
  size_t events = 0;
  handler_ = &handler;
  Status status = ServeGroup(handler);
  if (status.ok()) status = TakeWanted();
  if (status.ok()) status = StartPending();
  if (status.ok()) status = HandOut(max_records, handler, events);
  if (status.ok()) status = presence_->Check();
  handler_ = nullptr;
  if (any_commit_is_due_ && std::chrono::steady_clock::now() >= next_commit_) SendCommits();
  if (absl::IsPermissionDenied(status)) {
    return absl::PermissionDeniedError(absl::StrCat("group '", group_, "': ", status.message()));
  }
  if (!status.ok()) return status;
  // A queue tells only when it has been empty; a coordinator that was away must be asked again.
  if ((events >= max_records || pending_ != nullptr) && wakeup_ != nullptr) wakeup_->Notify();
  return events;
}

Status CooperativeGroupConsumer::ServeGroup(const Handler& handler) {
  kafka_internal::PollResult result;
  const Status status = group_queue_->HandOut(kGroupEvents, handler, positions_, *nudge_, result);
  if (result.is_topic_unknown) presence_->Suspect();
  Status revoked = std::exchange(revoke_status_, absl::OkStatus());
  return revoked.ok() ? status : revoked;
}

void CooperativeGroupConsumer::OnRebalance(rd_kafka_t* client, rd_kafka_resp_err_t code,
                                           rd_kafka_topic_partition_list_t* partitions,
                                           void* self) {
  auto* const consumer = static_cast<CooperativeGroupConsumer*>(self);
  // Paused partitions go on when this was answered: until then nothing comes after what was lost.
  consumer->positions_.Rebalanced();
  if (code == RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS) consumer->was_assigned_ = true;
  if (code == RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS && !consumer->closed_) {
    // To be confirmed once the starting offsets are known (StartPending).
    MILLRACE_CHECK(consumer->pending_ == nullptr);
    consumer->pending_.reset(rd_kafka_topic_partition_list_copy(partitions));
    return;
  }
  if (code == RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS) {
    RefuseToRead(client, partitions);
    return;
  }
  consumer->Release(partitions);
}

void CooperativeGroupConsumer::Release(rd_kafka_topic_partition_list_t* partitions) {
  OnRevoked(*partitions);
  // Before the partitions go: the next owner asks for these over another connection, but only when
  // this one has said that it is done.
  SendCommits();
  const Handle<rd_kafka_error_t> error(rd_kafka_incremental_unassign(client_.get(), partitions));
  // Their records are outdated from here on; this frees what is left in the queues.
  for (int i = 0; i < partitions->cnt; ++i) StopReading(partitions->elems[i].partition);
}

// The answer to an assignment that comes while the consumer closes.
void CooperativeGroupConsumer::RefuseToRead(rd_kafka_t* client,
                                            rd_kafka_topic_partition_list_t* partitions) {
  for (int i = 0; i < partitions->cnt; ++i) partitions->elems[i].offset = RD_KAFKA_OFFSET_END;
  const Handle<rd_kafka_error_t> error(rd_kafka_incremental_assign(client, partitions));
}

void CooperativeGroupConsumer::OnRevoked(const rd_kafka_topic_partition_list_t& partitions) {
  const bool lost = rd_kafka_assignment_lost(client_.get()) != 0;
  for (int i = 0; i < partitions.cnt; ++i) {
    const int32_t partition = partitions.elems[i].partition;
    if (handler_ != nullptr && handler_->on_revoked && partitions_.contains(partition)) {
      revoke_status_.Update(handler_->on_revoked(partition, lost));
    }
  }
}

// What Read has changed. What still has to start does so first.
Status CooperativeGroupConsumer::TakeWanted() {
  if (!wanted_ || pending_ != nullptr) return absl::OkStatus();
  const std::set<int32_t> wanted = *std::exchange(wanted_, std::nullopt);
  was_assigned_ = true;
  PartitionList gone(rd_kafka_topic_partition_list_new(1));
  for (const auto& [number, partition] : partitions_) {
    if (wanted.contains(number)) continue;
    rd_kafka_topic_partition_list_add(gone.get(), topic_.c_str(), number);
  }
  PartitionList added(rd_kafka_topic_partition_list_new(1));
  for (const int32_t number : wanted) {
    if (partitions_.contains(number)) continue;
    rd_kafka_topic_partition_list_add(added.get(), topic_.c_str(), number);
  }
  if (added->cnt > 0) pending_ = std::move(added);
  if (gone->cnt == 0) return absl::OkStatus();
  Release(gone.get());
  return std::exchange(revoke_status_, absl::OkStatus());
}

Status CooperativeGroupConsumer::StartPending() {
  if (pending_ == nullptr) return absl::OkStatus();
  if (pending_->cnt > 0) {
    const rd_kafka_resp_err_t error =
        rd_kafka_committed(client_.get(), pending_.get(), kCommittedTimeoutMs);
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR) {
      // The coordinator is away; it is asked again in the next Poll.
      return kafka_internal::IsPermanent(error)
                 ? StatusOfError(error, "reading the committed offsets")
                 : absl::OkStatus();
    }
  }
  std::vector<Offset> offsets;
  for (int i = 0; i < pending_->cnt; ++i) {
    const rd_kafka_topic_partition_t& entry = pending_->elems[i];
    std::optional<Committed> committed;
    if (entry.offset >= 0) {
      committed.emplace(Offset(entry.offset), Text(entry.metadata, entry.metadata_size));
    }
    MILLRACE_ASSIGN_OR_RETURN(const Offset offset,
                              handler_->on_assigned(entry.partition, committed));
    MILLRACE_CHECK(offset >= 0);
    offsets.push_back(offset);
  }
  const PartitionList starting = std::exchange(pending_, nullptr);
  for (size_t i = 0; i < offsets.size(); ++i) starting->elems[i].offset = offsets[i];
  return StartReading(starting.get());
}

Status CooperativeGroupConsumer::StartReading(rd_kafka_topic_partition_list_t* partitions) {
  for (int i = 0; i < partitions->cnt; ++i) {
    const rd_kafka_topic_partition_t& entry = partitions->elems[i];
    Handle<rd_kafka_queue_t> queue(
        rd_kafka_queue_get_partition(client_.get(), entry.topic, entry.partition));
    if (queue == nullptr) {
      return absl::InternalError(
          absl::StrCat("no fetch queue for ", entry.topic, " [", entry.partition, "]"));
    }
    rd_kafka_queue_forward(queue.get(), nullptr);  // its records stay out of the group's queue
    partitions_[entry.partition].queue = std::make_unique<FetchQueue>(std::move(queue), wakeup_);
    positions_.Start(entry.partition, Offset(entry.offset));
  }
  const Handle<rd_kafka_error_t> error(rd_kafka_incremental_assign(client_.get(), partitions));
  if (error == nullptr) return absl::OkStatus();
  return StatusOfError(rd_kafka_error_code(error.get()), "starting to read the assigned partitions",
                       rd_kafka_error_string(error.get()));
}

void CooperativeGroupConsumer::StopReading(int32_t partition) {
  positions_.Stop(partition);
  const auto found = partitions_.find(partition);
  if (found == partitions_.end()) return;
  found->second.queue->DropAll();
  partitions_.erase(found);
}

Status CooperativeGroupConsumer::HandOut(size_t max_records, const Handler& handler,
                                         size_t& events) {
  if (partitions_.empty()) return absl::OkStatus();
  kafka_internal::PollResult result;
  MILLRACE_RETURN_IF_ERROR(turns_.Take(
      partitions_, max_records, result.events, [&](const Partition& partition, size_t most) {
        return partition.queue->HandOut(most, handler, positions_, *nudge_, result);
      }));
  if (result.is_topic_unknown) presence_->Suspect();
  events += result.events;
  for (const int32_t partition : result.restart) {
    MILLRACE_RETURN_IF_ERROR(ReadAgain(partition, positions_.all().at(partition)));
  }
  return absl::OkStatus();
}

void CooperativeGroupConsumer::Hold(int32_t partition, bool held) {
  const auto found = partitions_.find(partition);
  if (found == partitions_.end()) return;
  found->second.queue->Hold(held);
  if (!held && wakeup_ != nullptr) wakeup_->Notify();  // its queue may have filled long ago
}

// librdkafka takes any look into a queue for the sign of life that max.poll.interval.ms asks for.
void CooperativeGroupConsumer::ReportProgress() {
  rd_kafka_message_t* message = nullptr;
  const auto count = rd_kafka_consume_batch_queue(empty_queue_.get(), 0, &message, 1);
  MILLRACE_CHECK(count <= 0);
}

Status CooperativeGroupConsumer::Seek(int32_t partition, Offset offset) {
  MILLRACE_CHECK(offset >= 0 && handler_ == nullptr);
  const auto found = partitions_.find(partition);
  if (found == partitions_.end()) {
    return absl::NotFoundError(
        absl::StrCat(topic_, " [", partition, "] is not assigned to this process"));
  }
  MILLRACE_RETURN_IF_ERROR(ReadAgain(partition, offset));
  found->second.queue->Hold(false);
  return absl::OkStatus();
}

Status CooperativeGroupConsumer::ReadAgain(int32_t partition, Offset offset) {
  const auto found = partitions_.find(partition);
  MILLRACE_CHECK(found != partitions_.end());
  // Not librdkafka's seek, which refuses a partition that stands still after an error.
  const PartitionList list = ListOf(partition);
  Handle<rd_kafka_error_t> error(rd_kafka_incremental_unassign(client_.get(), list.get()));
  if (error == nullptr) {
    found->second.queue->DropAll();
    positions_.Start(partition, offset);
    list->elems[0].offset = offset;
    error.reset(rd_kafka_incremental_assign(client_.get(), list.get()));
  }
  if (error == nullptr) return absl::OkStatus();
  return StatusOfError(rd_kafka_error_code(error.get()),
                       absl::StrCat("reading ", topic_, " [", partition, "] again"),
                       rd_kafka_error_string(error.get()));
}

void CooperativeGroupConsumer::Commit(int32_t partition, const Committed& position) {
  MILLRACE_CHECK(position.metadata.find('\0') == std::string::npos);
  const auto found = partitions_.find(partition);
  if (found == partitions_.end()) return;
  found->second.last_commit = position;
  found->second.commit_is_due = true;
  any_commit_is_due_ = true;
  if (std::chrono::steady_clock::now() >= next_commit_) SendCommits();
}

void CooperativeGroupConsumer::DropCommits() {
  for (auto& [number, partition] : partitions_) {
    partition.last_commit.reset();
    partition.commit_is_due = false;
  }
  any_commit_is_due_ = false;
}

PartitionList CooperativeGroupConsumer::TakeDueCommits() {
  PartitionList list(rd_kafka_topic_partition_list_new(static_cast<int>(partitions_.size())));
  for (auto& [number, partition] : partitions_) {
    if (!partition.commit_is_due) continue;
    SetCommitted(*rd_kafka_topic_partition_list_add(list.get(), topic_.c_str(), number),
                 *partition.last_commit);
    partition.commit_is_due = false;
  }
  any_commit_is_due_ = false;
  return list;
}

// What has to wait for the end of a rebalance is sent by a later Poll.
void CooperativeGroupConsumer::SendCommits() {
  if (rebalance_->joining()) return;
  const PartitionList due = TakeDueCommits();
  if (due->cnt == 0) return;
  next_commit_ = std::chrono::steady_clock::now() + kBetweenCommits;
  static_cast<void>(rd_kafka_commit_queue(client_.get(), due.get(), group_queue_->get(),
                                          &CooperativeGroupConsumer::OnCommitted, this));
}

void CooperativeGroupConsumer::OnCommitted(rd_kafka_t*, rd_kafka_resp_err_t error,
                                           rd_kafka_topic_partition_list_t* offsets, void* self) {
  auto* const consumer = static_cast<CooperativeGroupConsumer*>(self);
  if (offsets == nullptr) return;
  for (int i = 0; i < offsets->cnt; ++i) {
    const rd_kafka_topic_partition_t& entry = offsets->elems[i];
    if (error == RD_KAFKA_RESP_ERR_NO_ERROR && entry.err == RD_KAFKA_RESP_ERR_NO_ERROR) continue;
    const auto found = consumer->partitions_.find(entry.partition);
    if (found == consumer->partitions_.end() || !found->second.last_commit.has_value()) continue;
    // In the middle of a rebalance commits are refused. If the partition stays ours, the last
    // position is sent again.
    found->second.commit_is_due = true;
    consumer->any_commit_is_due_ = true;
  }
}

// Whether an asynchronous commit has arrived is not known, so each is made once more. A group that
// takes long to rebalance accepts none, nor does one without a coordinator: then whoever gets the
// partitions starts from an older position.
void CooperativeGroupConsumer::CommitAgain() {
  const auto end = std::chrono::steady_clock::now() + kCloseWaitForRebalance;
  while (rebalance_->joining() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  if (rebalance_->joining()) return;
  for (auto& [number, partition] : partitions_) {
    partition.commit_is_due = partition.last_commit.has_value();
  }
  const PartitionList list = TakeDueCommits();
  if (list->cnt == 0) return;
  const Handle<rd_kafka_queue_t> answers(rd_kafka_queue_new(client_.get()));
  if (rd_kafka_commit_queue(client_.get(), list.get(), answers.get(), nullptr, nullptr) ==
      RD_KAFKA_RESP_ERR_NO_ERROR) {
    const Handle<rd_kafka_event_t> answer(
        rd_kafka_queue_poll(answers.get(), kCloseCommitTimeoutMs));
  }
}

Status CooperativeGroupConsumer::Close() {
  if (closed_) return absl::OkStatus();
  MILLRACE_CHECK(handler_ == nullptr);
  closed_ = true;
  CommitAgain();
  // librdkafka before 2.6 waits for ever when it is told to close while it waits for the answer to
  // an assignment (its issue 4527).
  if (pending_ != nullptr && joins_) RefuseToRead(client_.get(), pending_.get());
  pending_.reset();
  group_queue_->DropAll();  // calls OnRebalance
  Status left = Leave();
  partitions_.clear();
  return left;
}

// rd_kafka_consumer_close() waits for ever when a commit was under way and the coordinator is away.
Status CooperativeGroupConsumer::Leave() {
  const Handle<rd_kafka_queue_t> events(rd_kafka_queue_new(client_.get()));
  const Handle<rd_kafka_error_t> error(rd_kafka_consumer_close_queue(client_.get(), events.get()));
  if (error != nullptr) {
    return StatusOfError(rd_kafka_error_code(error.get()), "leaving the consumer group",
                         rd_kafka_error_string(error.get()));
  }
  const auto deadline = std::chrono::steady_clock::now() + kCloseTimeout;
  while (!rd_kafka_consumer_closed(client_.get())) {
    if (std::chrono::steady_clock::now() > deadline) {
      return absl::DeadlineExceededError(
          "leaving the consumer group: no answer from the coordinator; its partitions are "
          "reassigned after the session timeout (--session-timeout)");
    }
    // Calls OnRebalance.
    rd_kafka_message_t* message = nullptr;
    if (rd_kafka_consume_batch_queue(events.get(), 20, &message, 1) == 1) {
      rd_kafka_message_destroy(message);
    }
  }
  left_ = true;
  return absl::OkStatus();
}

}  // namespace

StatusOr<std::unique_ptr<GroupConsumer>> GroupConsumer::Create(const KafkaOptions& kafka,
                                                               const ConsumerOptions& options,
                                                               std::string topic, Wakeup* wakeup) {
  auto consumer = std::make_unique<CooperativeGroupConsumer>(std::move(topic), wakeup);
  MILLRACE_RETURN_IF_ERROR(consumer->Open(kafka, options));
  return std::unique_ptr<GroupConsumer>(std::move(consumer));
}

}  // namespace millrace
