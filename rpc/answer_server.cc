#include "rpc/answer_server.h"

#include <spdlog/spdlog.h>

#include <array>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "base/printable.h"
#include "messages/answers.grpc.pb.h"
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

class OpenStream;

// What the streams and the server's loop share.
struct OpenStreams {
  OpenStreams(const AnswerServerOptions& of, Wakeup* to_notify)
      : options(of), wakeup(*to_notify), routes(of.most_waiting_bytes) {}

  const AnswerServerOptions options;
  Wakeup& wakeup;
  std::mutex mutex;  // guards the following, and what the streams have
  AnswerRoutes routes;
  std::map<AnswerRoutes::Stream, OpenStream*> open;
  std::vector<WorkerId> lost;
};

// One process with workers. gRPC calls the reactions, each kind at most once at a time; it deletes
// itself after the last one.
class OpenStream final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  OpenStream(OpenStreams& streams, grpc::CallbackServerContext& context)
      : streams_(streams), context_(context), peer_(Printable(context.peer())) {
    StartRead(&incoming_);
  }

  // REQUIRES the lock, as all of the private ones.
  void Push(Record record) {
    if (is_over_) return;
    waiting_.push_back(std::move(record));
    if (!is_writing_) WriteFirst();
  }

  void OnReadDone(bool ok) override {
    const std::lock_guard<std::mutex> lock(streams_.mutex);
    if (!ok) return End(grpc::Status::OK);
    const grpc::Status taken = Take();
    if (!taken.ok()) return End(taken);
    StartRead(&incoming_);
  }

  void OnWriteDone(bool ok) override {
    const std::lock_guard<std::mutex> lock(streams_.mutex);
    is_writing_ = false;
    if (is_over_) return Finish(end_);
    if (!ok) return End(grpc::Status::OK);
    streams_.routes.Taken(id_, waiting_.front().value_bytes);
    waiting_.pop_front();
    if (!waiting_.empty()) WriteFirst();
  }

  void OnCancel() override {
    const std::lock_guard<std::mutex> lock(streams_.mutex);
    End(grpc::Status::CANCELLED);
  }

  void OnDone() override { delete this; }

 private:
  void WriteFirst() {
    is_writing_ = true;
    StartWrite(&waiting_.front().bytes);
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
      StartSendInitialMetadata();
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

  // Once; the call is finished when nothing is being written.
  void End(const grpc::Status& status) {
    if (is_over_) return;
    is_over_ = true;
    end_ = status;
    if (id_ != 0) {
      streams_.open.erase(id_);
      AnswerAgain(streams_.routes.Close(id_));
      spdlog::info("the stream of answers to {} has ended: they go through Kafka", peer_);
    }
    if (!is_writing_) return Finish(end_);
    context_.TryCancel();  // what is being written may wait for ever
  }

  OpenStreams& streams_;
  grpc::CallbackServerContext& context_;
  const std::string peer_;
  grpc::ByteBuffer incoming_;
  AnswerRoutes::Stream id_ = 0;  // 0: it has not said who it is
  std::deque<Record> waiting_;
  bool is_writing_ = false;  // the first of them
  bool is_over_ = false;
  grpc::Status end_;
};

// Its messages go as bytes, so that an answer is encoded once for all streams.
class Service final : public StraightAnswers::WithRawCallbackMethod_Open<StraightAnswers::Service> {
 public:
  explicit Service(OpenStreams& streams) : streams_(streams) {}

  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Open(
      grpc::CallbackServerContext* context) override {
    return new OpenStream(streams_, *context);  // which deletes itself
  }

 private:
  OpenStreams& streams_;
};

class GrpcAnswerServer final : public AnswerServer {
 public:
  GrpcAnswerServer(const AnswerServerOptions& options, Wakeup* wakeup)
      : streams_(options, wakeup), service_(streams_) {}

  Status Listen() {
    grpc::ServerBuilder builder;
    builder.SetMaxReceiveMessageSize(kMostSubscriptionBytes);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                               kLeastPingIntervalMs);
    return listener_.Start(builder, service_,
                           {.address = streams_.options.listen,
                            .tls = streams_.options.tls,
                            .keepalive_ms = kAnswerKeepaliveMs,
                            .keepalive_timeout_ms = kAnswerKeepaliveTimeoutMs,
                            .what = "answers",
                            .flags = "--answers"});
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
    for (const AnswerRoutes::Stream stream : ways.streams) streams_.open.at(stream)->Push(answer);
    return to_log;
  }

  std::vector<WorkerId> TakeLost() override {
    const std::lock_guard<std::mutex> lock(streams_.mutex);
    return std::exchange(streams_.lost, {});
  }

 private:
  OpenStreams streams_;
  Service service_;
  grpc_internal::Listener listener_;  // after what it serves
};

}  // namespace

StatusOr<std::unique_ptr<AnswerServer>> AnswerServer::Start(const AnswerServerOptions& options,
                                                            Wakeup* wakeup) {
  auto server = std::make_unique<GrpcAnswerServer>(options, wakeup);
  MILLRACE_RETURN_IF_ERROR(server->Listen());
  return std::unique_ptr<AnswerServer>(std::move(server));
}

}  // namespace millrace
