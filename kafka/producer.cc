#include "kafka/producer.h"

#include <algorithm>
#include <array>
#include <optional>
#include <thread>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error_marks.h"
#include "kafka/client_config.h"
#include "kafka/client_log.h"
#include "kafka/rdkafka_handles.h"
#include "kafka/status_of_error.h"
#include "kafka/topic_metadata.h"
#include "kafka/topic_presence.h"

namespace millrace {
namespace {

using kafka_internal::Handle;
using kafka_internal::StatusOfError;
using kafka_internal::StatusOfTransactionError;

// Below it, a copy costs less than keeping a value.
constexpr size_t kWorthOwning = 16384;
int Milliseconds(std::chrono::milliseconds timeout) {
  return static_cast<int>(std::clamp<int64_t>(timeout.count(), 0, 1 << 30));
}

Refused RefusedBy(rd_kafka_resp_err_t error) {
  switch (error) {
    case RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP:
      return Refused::kTime;
    case RD_KAFKA_RESP_ERR_INVALID_RECORD:
      return Refused::kRecord;
    case RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE:
    case RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE:
      return Refused::kSize;
    case RD_KAFKA_RESP_ERR_POLICY_VIOLATION:
      return Refused::kOther;
    default:
      return Refused::kNothing;
  }
}

class LibrdkafkaProducer final : public KafkaProducer {
 public:
  explicit LibrdkafkaProducer(Wakeup* wakeup) : wakeup_(wakeup) {}
  ~LibrdkafkaProducer() override;
  Status Open(const KafkaOptions& kafka, const ProducerOptions& options);

  Status Prepare(const std::vector<std::string>& topics) override;
  Status Send(const std::string& topic, int32_t partition, std::string_view key,
              std::string_view value, int64_t timestamp_ms) override;
  Status SendWithHeaders(const std::string& topic, int32_t partition, std::string_view key,
                         std::string_view value, int64_t timestamp_ms,
                         std::span<const RecordHeader> headers, uint64_t tag) override;
  Status SendOwned(const std::string& topic, int32_t partition, std::string_view key,
                   std::string& value) override;
  void Poll(std::chrono::milliseconds timeout) override;
  std::vector<FailedDelivery> TakeFailures() override { return std::exchange(failures_, {}); }
  size_t outstanding() const override { return outstanding_; }
  Status Flush(std::chrono::milliseconds timeout) override;
  Status CheckTopics(std::chrono::milliseconds timeout) override;
  Offset DeliveredEnd(const std::string& topic, int32_t partition) const override;

  Status InitTransactions(std::chrono::milliseconds timeout) override;
  Status BeginTransaction() override;
  Status SendOffsets(const std::string& group, const std::string& topic,
                     const std::map<int32_t, Offset>& next,
                     std::chrono::milliseconds timeout) override;
  Status CommitTransaction(std::chrono::milliseconds timeout) override;
  Status AbortTransaction(std::chrono::milliseconds timeout) override;
  Status CheckTransaction() override;

 private:
  struct Topic {
    Handle<rd_kafka_topic_t> handle;
    std::vector<Offset> delivered_end;  // by partition
    std::optional<kafka_internal::TopicPresence> presence{};
  };

  // Called by rd_kafka_poll and rd_kafka_flush, so in the one thread that uses this producer:
  // nothing here needs a lock.
  static void OnDelivery(rd_kafka_t*, const rd_kafka_message_t* message, void* self);
  StatusOr<Topic*> Find(const std::string& topic);
  Status Hand(const std::string& topic, int32_t partition, std::string_view key,
              std::string_view value, int64_t timestamp_ms, int flags,
              Handle<rd_kafka_headers_t> headers = nullptr, uint64_t tag = 0);
  Status FatalError() const;

  Wakeup* const wakeup_;
  std::string transactional_id_;
  Handle<rd_kafka_t> client_;
  Handle<rd_kafka_queue_t> main_queue_;
  // Pointers to topics are librdkafka's opaque values, so they must not move.
  absl::flat_hash_map<std::string, std::unique_ptr<Topic>> topics_;
  size_t outstanding_ = 0;
  // Values that librdkafka reads from where they are, until it reports on them; by their bytes.
  absl::flat_hash_map<const void*, std::string> owned_;
  std::vector<FailedDelivery> failures_;
};

LibrdkafkaProducer::~LibrdkafkaProducer() {
  if (main_queue_ != nullptr) rd_kafka_queue_cb_event_enable(main_queue_.get(), nullptr, nullptr);
  main_queue_.reset();
  topics_.clear();
  // Ends the threads; what is still queued is given up, as after a Flush that ran out of time.
  client_.reset();
}

Status LibrdkafkaProducer::Open(const KafkaOptions& kafka, const ProducerOptions& options) {
  kafka_internal::Settings ours = {
      // Topics are made by those who know their settings. (Consumers make none by default.)
      {"allow.auto.create.topics", "false"},
      {"enable.idempotence", "true"},
      {"acks", "all"},
      {"linger.ms", absl::StrCat(options.linger_ms)},
      {"queue.buffering.max.kbytes", absl::StrCat(options.queue_kbytes)},
      // A waiting record costs librdkafka some 300 bytes besides its own; a bound on the bytes of
      // records alone would let small ones take ten times as much. (But two requests of 10,000
      // records have room: no queue is full before a request is.)
      {"queue.buffering.max.messages",
       absl::StrCat(std::max<size_t>(options.queue_kbytes * 2, 20'000))},
      // librdkafka counts the frame of a record, too.
      {"message.max.bytes", absl::StrCat(kMaxRecordBytes + 1024)},
      {"compression.type", options.compress ? "lz4" : "none"},
  };
  transactional_id_ = options.transactional_id;
  if (options.gapless) ours.emplace_back("enable.gapless.guarantee", "true");
  if (options.one_request_at_a_time || !options.transactional_id.empty()) {
    ours.emplace_back("max.in.flight.requests.per.connection", "1");
  }
  if (options.transactional_id.empty()) {
    ours.emplace_back("message.timeout.ms", "0");  // a broker that is away is waited for
  } else {
    // Here librdkafka binds message.timeout.ms to transaction.timeout.ms: a transaction that takes
    // longer is aborted by the broker. Large ones take their time; brokers allow 15 minutes as they
    // come. (Nobody waits for those of the dead: their successor aborts them.)
    ours.emplace_back("transactional.id", options.transactional_id);
    ours.emplace_back("transaction.timeout.ms", "600000");
  }
  MILLRACE_ASSIGN_OR_RETURN(auto conf,
                            kafka_internal::MakeConfiguration(kafka, options.client_id, ours));
  rd_kafka_conf_set_dr_msg_cb(conf.get(), &LibrdkafkaProducer::OnDelivery);
  rd_kafka_conf_set_opaque(conf.get(), this);
  MILLRACE_ASSIGN_OR_RETURN(client_,
                            kafka_internal::MakeClient(RD_KAFKA_PRODUCER, std::move(conf)));
  if (wakeup_ != nullptr) {
    main_queue_.reset(rd_kafka_queue_get_main(client_.get()));
    rd_kafka_queue_cb_event_enable(
        main_queue_.get(),
        [](rd_kafka_t*, void* wakeup) { static_cast<Wakeup*>(wakeup)->Notify(); }, wakeup_);
  }
  return absl::OkStatus();
}

StatusOr<LibrdkafkaProducer::Topic*> LibrdkafkaProducer::Find(const std::string& topic) {
  std::unique_ptr<Topic>& found = topics_[topic];
  if (found == nullptr) {
    auto created = std::make_unique<Topic>();
    // With the client's defaults as they stand, but its own opaque.
    rd_kafka_topic_conf_t* const conf = rd_kafka_default_topic_conf_dup(client_.get());
    rd_kafka_topic_conf_set_opaque(conf, created.get());
    created->handle.reset(rd_kafka_topic_new(client_.get(), topic.c_str(), conf));
    if (created->handle == nullptr) {
      topics_.erase(topic);
      return StatusOfError(rd_kafka_last_error(), absl::StrCat("topic '", topic, "'"));
    }
    created->presence.emplace(client_.get(), topic);
    found = std::move(created);
  }
  return found.get();
}

Status LibrdkafkaProducer::Prepare(const std::vector<std::string>& topics) {
  constexpr int kTimeoutMs = 10000;
  for (const std::string& name : topics) {
    MILLRACE_RETURN_IF_ERROR(Find(name).status());  // made here, it is kept
    Handle<const rd_kafka_metadata_t> metadata;
    const rd_kafka_resp_err_t error =
        kafka_internal::RequestTopicMetadata(client_.get(), name, kTimeoutMs, metadata);
    if (error == RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE) continue;
    MILLRACE_RETURN_IF_ERROR(StatusOfError(error, absl::StrCat("looking up topic '", name, "'")));
  }
  return absl::OkStatus();
}

Status LibrdkafkaProducer::Send(const std::string& topic, int32_t partition, std::string_view key,
                                std::string_view value, int64_t timestamp_ms) {
  return Hand(topic, partition, key, value, timestamp_ms, RD_KAFKA_MSG_F_COPY);
}

Status LibrdkafkaProducer::SendWithHeaders(const std::string& topic, int32_t partition,
                                           std::string_view key, std::string_view value,
                                           int64_t timestamp_ms,
                                           std::span<const RecordHeader> headers, uint64_t tag) {
  Handle<rd_kafka_headers_t> copies;
  if (!headers.empty()) copies.reset(rd_kafka_headers_new(headers.size()));
  for (const RecordHeader& header : headers) {
    const rd_kafka_resp_err_t error = rd_kafka_header_add(
        copies.get(), header.name.data(), static_cast<ssize_t>(header.name.size()),
        header.value.data(), static_cast<ssize_t>(header.value.size()));
    MILLRACE_RETURN_IF_ERROR(StatusOfError(error, "a record's header"));
  }
  return Hand(topic, partition, key, value, timestamp_ms, RD_KAFKA_MSG_F_COPY, std::move(copies),
              tag);
}

Status LibrdkafkaProducer::SendOwned(const std::string& topic, int32_t partition,
                                     std::string_view key, std::string& value) {
  if (value.size() < kWorthOwning) return Send(topic, partition, key, value, 0);
  // It lies where it lay: a string of this size keeps its memory when it is moved.
  MILLRACE_RETURN_IF_ERROR(Hand(topic, partition, key, value, 0, 0));
  const char* const bytes = value.data();
  owned_.emplace(bytes, std::move(value));
  return absl::OkStatus();
}

Status LibrdkafkaProducer::Hand(const std::string& topic, int32_t partition, std::string_view key,
                                std::string_view value, int64_t timestamp_ms, int flags,
                                Handle<rd_kafka_headers_t> headers, uint64_t tag) {
  MILLRACE_ASSIGN_OR_RETURN(Topic * found, Find(topic));
  const rd_kafka_resp_err_t error = rd_kafka_producev(
      client_.get(), RD_KAFKA_V_RKT(found->handle.get()), RD_KAFKA_V_PARTITION(partition),
      RD_KAFKA_V_MSGFLAGS(flags), RD_KAFKA_V_KEY(key.data(), key.size()),
      RD_KAFKA_V_VALUE(const_cast<char*>(value.data()), value.size()),
      RD_KAFKA_V_TIMESTAMP(timestamp_ms), RD_KAFKA_V_HEADERS(headers.get()),
      RD_KAFKA_V_OPAQUE(reinterpret_cast<void*>(tag)), RD_KAFKA_V_END);
  switch (error) {
    case RD_KAFKA_RESP_ERR_NO_ERROR:
      ++outstanding_;
      static_cast<void>(headers.release());  // librdkafka's now
      return absl::OkStatus();
    case RD_KAFKA_RESP_ERR__QUEUE_FULL:
      return absl::ResourceExhaustedError("the queue of records to send is full");
    case RD_KAFKA_RESP_ERR__FATAL:
    case RD_KAFKA_RESP_ERR__FENCED:
      return FatalError();
    case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC:
    case RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION:
      return absl::NotFoundError(
          absl::StrCat("topic '", topic, "' [", partition,
                       "] does not exist: if it was deleted, stop the programs of this job and "
                       "start a new one (another --job)"));
    case RD_KAFKA_RESP_ERR__STATE:
      return absl::AbortedError(absl::StrCat("sending to ", topic, " [", partition,
                                             "]: its transaction failed or was not started"));
    default:
      return StatusOfError(error, absl::StrCat("sending ", key.size() + value.size(), " bytes to ",
                                               topic, " [", partition, "]"));
  }
}

Status LibrdkafkaProducer::FatalError() const {
  std::array<char, 512> text{};
  const rd_kafka_resp_err_t error = rd_kafka_fatal_error(client_.get(), text.data(), text.size());
  const bool is_fenced = error == RD_KAFKA_RESP_ERR_NO_ERROR || kafka_internal::IsFencing(error);
  Status status =
      absl::FailedPreconditionError(kafka_internal::ClientLog::OfProcess().Redact(absl::StrCat(
          "this Kafka producer can send nothing any more: ",
          error == RD_KAFKA_RESP_ERR_NO_ERROR
              ? "fenced, since a newer instance with the same transactional id has taken over"
              : text.data())));
  return is_fenced ? MarkFenced(std::move(status)) : status;
}

void LibrdkafkaProducer::OnDelivery(rd_kafka_t*, const rd_kafka_message_t* message, void* self) {
  auto* const producer = static_cast<LibrdkafkaProducer*>(self);
  MILLRACE_CHECK(producer->outstanding_ > 0);
  --producer->outstanding_;
  producer->owned_.erase(message->payload);
  switch (message->err) {
    case RD_KAFKA_RESP_ERR_NO_ERROR: {
      // librdkafka infers the delivery of a batch from that of a later one ("implicitly acked").
      // But a broker that knows nothing of this producer takes any batch as its first, also one
      // that has overtaken another, which it refused a moment ago since it did not lead the
      // partition yet. Only an offset proves that a record is in a log.
      if (message->offset < 0) {
        producer->failures_.push_back({rd_kafka_topic_name(message->rkt), message->partition,
                                       "no broker confirmed the record's offset"});
        return;
      }
      auto* const topic = static_cast<Topic*>(rd_kafka_topic_opaque(message->rkt));
      const auto partition = static_cast<size_t>(message->partition);
      if (topic->delivered_end.size() <= partition) {
        topic->delivered_end.resize(partition + 1, Offset{-1});
      }
      Offset& end = topic->delivered_end[partition];
      end = std::max(end, Offset(message->offset + 1));
      return;
    }
    // Thrown away by AbortTransaction, as it should be.
    case RD_KAFKA_RESP_ERR__PURGE_QUEUE:
    case RD_KAFKA_RESP_ERR__PURGE_INFLIGHT:
      return;
    case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED: {
      // No waiting mends this, whatever its owner makes of it.
      const Status denied = StatusOfError(
          message->err, absl::StrCat("writing to ", rd_kafka_topic_name(message->rkt)));
      kafka_internal::ClientLog::OfProcess().Warn(TextOf(denied));
      [[fallthrough]];
    }
    default:
      producer->failures_.push_back(
          // (Not rd_kafka_message_errstr: of a record that was to be sent that is its value.)
          {rd_kafka_topic_name(message->rkt), message->partition, rd_kafka_err2str(message->err),
           kafka_internal::RefusesForGood(message->err), RefusedBy(message->err),
           reinterpret_cast<uint64_t>(message->_private)});
  }
}

void LibrdkafkaProducer::Poll(std::chrono::milliseconds timeout) {
  rd_kafka_poll(client_.get(), Milliseconds(timeout));
}

Status LibrdkafkaProducer::Flush(std::chrono::milliseconds timeout) {
  const rd_kafka_resp_err_t error = rd_kafka_flush(client_.get(), Milliseconds(timeout));
  if (error == RD_KAFKA_RESP_ERR_NO_ERROR || outstanding_ == 0) return absl::OkStatus();
  if (error == RD_KAFKA_RESP_ERR__TIMED_OUT) {
    // (Of a topic that is gone librdkafka says nothing.)
    MILLRACE_RETURN_IF_ERROR(CheckTopics(std::chrono::milliseconds(0)));
    return absl::DeadlineExceededError(absl::StrCat(outstanding_,
                                                    " records were not delivered within ",
                                                    timeout.count(), " ms; check the brokers"));
  }
  return StatusOfError(error, "flushing the producer");
}

Status LibrdkafkaProducer::CheckTopics(std::chrono::milliseconds timeout) {
  const auto end = std::chrono::steady_clock::now() + timeout;
  for (auto& [name, topic] : topics_) topic->presence->Suspect();
  while (true) {
    bool all_are_there = true;
    for (auto& [name, topic] : topics_) {
      MILLRACE_RETURN_IF_ERROR(topic->presence->Check());
      if (topic->presence->is_suspected()) all_are_there = false;
    }
    if (all_are_there || std::chrono::steady_clock::now() >= end) return absl::OkStatus();
    constexpr std::chrono::milliseconds kBetweenLooks(100);
    std::this_thread::sleep_for(kBetweenLooks);
  }
}

Offset LibrdkafkaProducer::DeliveredEnd(const std::string& topic, int32_t partition) const {
  const auto found = topics_.find(topic);
  if (found == topics_.end() || partition < 0) return -1;
  const std::vector<Offset>& ends = found->second->delivered_end;
  const auto index = static_cast<size_t>(partition);
  return index < ends.size() ? ends[index] : Offset(-1);
}

Status LibrdkafkaProducer::InitTransactions(std::chrono::milliseconds timeout) {
  return StatusOfTransactionError(
      rd_kafka_init_transactions(client_.get(), Milliseconds(timeout)),
      absl::StrCat("starting transactions of '", transactional_id_, "'"));
}

Status LibrdkafkaProducer::BeginTransaction() {
  for (auto& [name, topic] : topics_) topic->delivered_end.clear();
  return StatusOfTransactionError(rd_kafka_begin_transaction(client_.get()),
                                  "beginning a transaction");
}

Status LibrdkafkaProducer::SendOffsets(const std::string& group, const std::string& topic,
                                       const std::map<int32_t, Offset>& next,
                                       std::chrono::milliseconds timeout) {
  const Handle<rd_kafka_topic_partition_list_t> list(
      rd_kafka_topic_partition_list_new(static_cast<int>(next.size())));
  for (const auto& [partition, offset] : next) {
    rd_kafka_topic_partition_list_add(list.get(), topic.c_str(), partition)->offset = offset;
  }
  const Handle<rd_kafka_consumer_group_metadata_t> metadata(
      rd_kafka_consumer_group_metadata_new(group.c_str()));
  return StatusOfTransactionError(
      rd_kafka_send_offsets_to_transaction(client_.get(), list.get(), metadata.get(),
                                           Milliseconds(timeout)),
      absl::StrCat("committing the positions of the group '", group, "'"));
}

Status LibrdkafkaProducer::CommitTransaction(std::chrono::milliseconds timeout) {
  return StatusOfTransactionError(rd_kafka_commit_transaction(client_.get(), Milliseconds(timeout)),
                                  "committing a transaction");
}

Status LibrdkafkaProducer::AbortTransaction(std::chrono::milliseconds timeout) {
  return StatusOfTransactionError(rd_kafka_abort_transaction(client_.get(), Milliseconds(timeout)),
                                  "aborting a transaction");
}

Status LibrdkafkaProducer::CheckTransaction() {
  // librdkafka looks at its state before it looks at what is to be sent, here nothing.
  const rd_kafka_resp_err_t error = rd_kafka_producev(client_.get(), RD_KAFKA_V_END);
  if (error == RD_KAFKA_RESP_ERR__FATAL) return FatalError();
  if (error != RD_KAFKA_RESP_ERR__STATE) return absl::OkStatus();
  // What has failed cannot be committed: the refusal says why.
  constexpr std::chrono::milliseconds kTimeout(1000);
  Status refusal = CommitTransaction(kTimeout);
  return refusal.ok() ? absl::InternalError("a transaction that had failed was committed")
                      : refusal;
}

}  // namespace

StatusOr<std::unique_ptr<KafkaProducer>> KafkaProducer::Create(const KafkaOptions& kafka,
                                                               const ProducerOptions& options,
                                                               Wakeup* wakeup) {
  auto producer = std::make_unique<LibrdkafkaProducer>(wakeup);
  MILLRACE_RETURN_IF_ERROR(producer->Open(kafka, options));
  return std::unique_ptr<KafkaProducer>(std::move(producer));
}

}  // namespace millrace
