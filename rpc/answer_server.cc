#include "rpc/answer_server.h"

#include <spdlog/spdlog.h>

#include <array>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "base/printable.h"
#include "messages/answers.grpc.pb.h"
#include "rpc/answers_agreed.h"
#include "rpc/driven_queue.h"
#include "rpc/listener.h"
#include "tasks/answer_routes.h"
#include "topics/slice_codec.h"
#include "topics/topics.h"

namespace millrace {
namespace {

// A worker that has vanished is noticed after so long, and is answered through Kafka.
constexpr int kAnswerKeepaliveMs = 3'000;
constexpr int kAnswerKeepaliveTimeoutMs = 3'000;
constexpr int kLeastPingIntervalMs = 1'000;
constexpr int kMostSubscriptionBytes = 256 << 10;

// An AnswerRecord, as all streams that get it send it.
struct Record {
  grpc::ByteBuffer bytes;
  size_t value_bytes = 0;
};

// Its value is not copied, however many streams there are, and is gone when the last of them has
// sent it.
Record ToRecord(OutgoingRecord record) {
  AnswerRecord head;  // without the value, which is the last field
  head.set_partition(record.partition);
  head.set_key(std::move(record.key));
  std::string bytes = head.SerializeAsString();
  AppendFieldHead(AnswerRecord::kValueFieldNumber, record.value.size(), bytes);
  auto* const value = new std::string(std::move(record.value));
  const std::array<grpc::Slice, 2> slices = {
      grpc::Slice(bytes), grpc::Slice(
                              value->data(), value->size(),
                              [](void* taken) { delete static_cast<std::string*>(taken); }, value)};
  return {.bytes = grpc::ByteBuffer(slices.data(), slices.size()), .value_bytes = value->size()};
}

using grpc_internal::DrivenQueue;
using grpc_internal::Operation;

class OpenStream;

// Its messages go as bytes, so that an answer is encoded once for all streams.
using Service = StraightAnswers::WithRawMethod_Open<StraightAnswers::Service>;

// What the streams and the server's loop share.
struct OpenStreams {
  OpenStreams(const AnswerServerOptions& of, Wakeup* to_notify)
      : options(of), wakeup(*to_notify), routes(of.most_waiting_bytes) {}

  const AnswerServerOptions options;
  Wakeup& wakeup;
  Service service;
  std::optional<DrivenQueue> queue;              // what streams have begun
  grpc::ServerCompletionQueue* calls = nullptr;  // the same, as RequestOpen wants it
  std::mutex mutex;                              // guards the following, and what the streams have
  std::condition_variable changed;
  size_t there = 0;  // streams, also the one that waits for a process
  AnswerRoutes routes;
  std::map<AnswerRoutes::Stream, OpenStream*> open;
  size_t unsent = 0;  // records, of all of them
  std::vector<WorkerId> lost;
};

// One process with workers. Whatever it begins ends in a reaction, which takes the lock; it deletes
// itself when all of that has ended.
class OpenStream final {
 public:
  // Waits for a process. REQUIRES the lock, as all of the others.
  static void Await(OpenStreams& streams) { new OpenStream(streams); }

  void Push(Record record) {
    if (is_over_) return;
    waiting_.push_back(std::move(record));
    ++streams_.unsent;
    if (is_writing_) {
      streams_.queue->LeaveToThread(true);  // it sends while the loop encodes what comes next
    } else {
      WriteFirst();
    }
  }

 private:
  using Reaction = void (OpenStream::*)(bool ok);

  explicit OpenStream(OpenStreams& streams) : streams_(streams) {
    ++streams.there;
    streams.service.RequestOpen(&context_, &call_, streams.calls, streams.calls, Begin(accepting_));
  }

  Operation OperationOf(Reaction reaction) {
    return {[this, reaction](bool ok) { React(reaction, ok); }};
  }

  Operation* Begin(Operation& operation) {
    ++under_way_;
    return &operation;
  }

  void React(Reaction reaction, bool ok) {
    {
      const std::lock_guard<std::mutex> lock(streams_.mutex);
      --under_way_;
      (this->*reaction)(ok);
      if (is_over_ && !is_finished_ && under_way_ == 0) Finish();
      if (under_way_ > 0) return;
      --streams_.there;
      streams_.changed.notify_all();
    }
    delete this;
  }

  void OnAccepted(bool ok) {
    is_finished_ = is_over_ = !ok;  // the server is ending: there is no call
    if (!ok) return;
    Await(streams_);
    peer_ = Printable(context_.peer());
    call_.Read(&incoming_, Begin(reading_));
  }

  void OnRead(bool ok) {
    if (is_over_) return;
    const grpc::Status taken = ok ? Take() : grpc::Status::OK;
    if (!ok || !taken.ok()) return End(taken);
    call_.Read(&incoming_, Begin(reading_));
  }

  void OnAgreed(bool /*ok*/) {}

  void OnWritten(bool ok) {
    is_writing_ = false;
    if (is_over_) return;
    if (!ok) return End(grpc::Status::OK);
    streams_.routes.Taken(id_, waiting_.front().value_bytes);
    waiting_.pop_front();
    Sent(1);
    if (!waiting_.empty()) WriteFirst();
  }

  void OnFinished(bool /*ok*/) {}

  // So many records wait no more.
  void Sent(size_t records) {
    streams_.unsent -= records;
    if (streams_.unsent == 0) streams_.queue->LeaveToThread(false);
  }

  void WriteFirst() {
    is_writing_ = true;
    call_.Write(waiting_.front().bytes, Begin(writing_));
  }

  grpc::Status Take() {
    AnswerSubscription subscription;
    const grpc::Status parsed =
        grpc::SerializationTraits<AnswerSubscription>::Deserialize(&incoming_, &subscription);
    if (!parsed.ok()) return {grpc::StatusCode::INVALID_ARGUMENT, "not a subscription"};
    if (id_ == 0) {
      const AnswerServerOptions& options = streams_.options;
      if (subscription.job() != options.job || subscription.epoch() != options.epoch) {
        return {grpc::StatusCode::NOT_FOUND, "this server belongs to job " + options.job +
                                                 ", epoch " + std::to_string(options.epoch)};
      }
      if (streams_.open.size() >= options.most_streams) {
        return {grpc::StatusCode::RESOURCE_EXHAUSTED, "this server has too many streams"};
      }
      id_ = streams_.routes.Open();
      streams_.open[id_] = this;
      context_.AddInitialMetadata(kAnswersAgreed, "1");
      call_.SendInitialMetadata(Begin(agreeing_));
      spdlog::info("{} gets its answers straight", peer_);
    }
    std::set<WorkerId> workers;
    for (const uint32_t worker : subscription.worker()) {
      if (worker >= kMostWorkers) {
        return {grpc::StatusCode::INVALID_ARGUMENT, "there is no such worker"};
      }
      workers.insert(WorkerId(worker));
    }
    AnswerAgain(streams_.routes.Subscribe(id_, workers));
    return grpc::Status::OK;
  }

  void AnswerAgain(const std::vector<WorkerId>& lost) {
    if (lost.empty()) return;
    streams_.lost.insert(streams_.lost.end(), lost.begin(), lost.end());
    streams_.wakeup.Notify();
  }

  // Once; the call is finished when nothing is under way.
  void End(const grpc::Status& status) {
    if (is_over_) return;
    is_over_ = true;
    end_ = status;
    Sent(waiting_.size());
    if (id_ != 0) {
      streams_.open.erase(id_);
      AnswerAgain(streams_.routes.Close(id_));
      spdlog::info("the stream of answers to {} has ended: they go through Kafka", peer_);
    }
    if (under_way_ > 0) context_.TryCancel();  // what is being written may wait for ever
  }

  void Finish() {
    is_finished_ = true;
    call_.Finish(end_, Begin(finishing_));
  }

  OpenStreams& streams_;
  grpc::ServerContext context_;
  grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer> call_{&context_};
  Operation accepting_ = OperationOf(&OpenStream::OnAccepted);
  Operation agreeing_ = OperationOf(&OpenStream::OnAgreed);
  Operation reading_ = OperationOf(&OpenStream::OnRead);
  Operation writing_ = OperationOf(&OpenStream::OnWritten);
  Operation finishing_ = OperationOf(&OpenStream::OnFinished);
  int under_way_ = 0;
  std::string peer_;
  grpc::ByteBuffer incoming_;
  AnswerRoutes::Stream id_ = 0;  // 0: it has not said who it is
  std::deque<Record> waiting_;
  bool is_writing_ = false;   // the first of them
  bool is_over_ = false;      // nothing but the end may be begun any more
  bool is_finished_ = false;  // the end has been begun
  grpc::Status end_;
};

class GrpcAnswerServer final : public AnswerServer {
 public:
  GrpcAnswerServer(const AnswerServerOptions& options, Wakeup* wakeup)
      : streams_(options, wakeup) {}

  ~GrpcAnswerServer() override {
    if (streams_.queue) streams_.queue->LeaveToThread(true);
    listener_.Shutdown();
    {
      // Nothing may be begun on a queue that has been shut down, not even the end of a call.
      std::unique_lock<std::mutex> lock(streams_.mutex);
      streams_.changed.wait(lock, [this] { return streams_.there == 0; });
    }
    streams_.queue.reset();
  }

  Status Listen() {
    grpc::ServerBuilder builder;
    builder.SetMaxReceiveMessageSize(kMostSubscriptionBytes);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                               kLeastPingIntervalMs);
    std::unique_ptr<grpc::ServerCompletionQueue> calls = builder.AddCompletionQueue();
    streams_.calls = calls.get();
    Status started = listener_.Start(builder, streams_.service,
                                     {.address = streams_.options.listen,
                                      .tls = streams_.options.tls,
                                      .keepalive_ms = kAnswerKeepaliveMs,
                                      .keepalive_timeout_ms = kAnswerKeepaliveTimeoutMs,
                                      .what = "answers",
                                      .flags = "--answers"});
    streams_.queue.emplace(std::move(calls));
    if (!started.ok()) return started;
    const std::lock_guard<std::mutex> lock(streams_.mutex);
    OpenStream::Await(streams_);
    return absl::OkStatus();
  }

  int port() const override { return listener_.port(); }

  std::optional<OutgoingRecord> Send(OutgoingRecord record) override {
    const std::lock_guard<std::mutex> lock(streams_.mutex);
    const AnswerRoutes::Ways ways = streams_.routes.Route(record);
    std::optional<OutgoingRecord> to_log;
    if (ways.streams.empty()) {
      if (ways.log) to_log = std::move(record);
      return to_log;
    }
    if (ways.log) to_log = record;
    const Record answer = ToRecord(std::move(record));
    has_sent_ = true;
    for (const AnswerRoutes::Stream stream : ways.streams) streams_.open.at(stream)->Push(answer);
    return to_log;
  }

  void Advance() override {
    if (!std::exchange(has_sent_, false)) return;
    streams_.queue->RunDue();
    const std::lock_guard<std::mutex> lock(streams_.mutex);
    if (streams_.unsent > 0) streams_.queue->LeaveToThread(true);
  }

  std::vector<WorkerId> TakeLost() override {
    const std::lock_guard<std::mutex> lock(streams_.mutex);
    return std::exchange(streams_.lost, {});
  }

 private:
  OpenStreams streams_;
  grpc_internal::Listener listener_;
  bool has_sent_ = false;  // since the last Advance
};

}  // namespace

StatusOr<std::unique_ptr<AnswerServer>> AnswerServer::Start(const AnswerServerOptions& options,
                                                            Wakeup* wakeup) {
  auto server = std::make_unique<GrpcAnswerServer>(options, wakeup);
  MILLRACE_RETURN_IF_ERROR(server->Listen());
  return std::unique_ptr<AnswerServer>(std::move(server));
}

}  // namespace millrace
