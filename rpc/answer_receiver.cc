#include "rpc/answer_receiver.h"

#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/support/async_stream.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/backoff.h"
#include "base/line_sink.h"
#include "base/printable.h"
#include "job/job_registry.h"
#include "messages/answers.grpc.pb.h"
#include "rpc/address.h"
#include "rpc/answers_agreed.h"
#include "rpc/credentials.h"
#include "rpc/driven_queue.h"
#include "topics/frame.h"
#include "topics/topics.h"

namespace millrace {
namespace {

using grpc_internal::DrivenQueue;
using grpc_internal::Operation;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Where no server has offered a stream: twice as long after each time. (One that starts offers its
// own after the settings that workers wait for.)
constexpr milliseconds kFirstLookAfter(500);
constexpr milliseconds kLongestLookAfter(60'000);
constexpr std::chrono::seconds kLookAgainAfter(3);
constexpr milliseconds kFirstPause(100);
constexpr milliseconds kLongestPause(10'000);
// A stream whose records wait so much here is not read.
constexpr size_t kMostReceivedBytes = size_t{32} << 20;
constexpr int kReceiverKeepaliveMs = 10'000;
constexpr int kReceiverKeepaliveTimeoutMs = 5'000;
constexpr int kMostRecordBytes = static_cast<int>(kMaxFrameBytes) + (64 << 10);
constexpr char kTlsFlags[] =
    "--answers-tls-cert, --answers-tls-key and --answers-tls-ca (of a trainer of one's own "
    "answers_tls_cert and so on, in Python answers_tls)";

class Incoming;

struct Received {
  std::shared_ptr<Incoming> from;
  AnswerRecord record;
};

// What the streams, the receiver's threads and the process's loop share.
struct Inbox {
  std::mutex mutex;  // guards the following, and what the streams have
  std::condition_variable changed;
  std::deque<Received> records;
  size_t bytes = 0;
  std::map<std::string, std::shared_ptr<Incoming>> streams;  // by address
  std::set<WorkerId> workers;
  // For the log, by the loop: of others' programs no other thread writes to it.
  std::vector<std::string> said;
  std::set<std::string> warned;  // addresses of which was said why there are no answers from them
  bool is_broken = false;        // a stream has ended since servers were looked for
  bool has_ended = false;        // one that was open has ended since the loop asked
  bool is_new = false;           // a stream has been opened since then
};

// Once for each address. REQUIRES the lock.
void WarnOnce(const std::string& address, const std::string& why, Inbox& inbox) {
  if (!inbox.warned.insert(address).second) return;
  inbox.said.push_back("no straight answers from " + Printable(address) + ": " + why +
                       ". They come through Kafka");
}

// A stream from one server. Whatever it begins ends in a reaction, which takes the lock; it is in
// the inbox until all of that has ended.
class Incoming final : public std::enable_shared_from_this<Incoming> {
 public:
  Incoming(Inbox& inbox, Wakeup& wakeup, std::string address)
      : inbox_(inbox), wakeup_(wakeup), address_(std::move(address)) {}

  // REQUIRES the lock, as all of the other calls.
  void Open(const JobConfig& config, const RpcTls& tls, grpc::CompletionQueue& queue) {
    grpc_internal::SendGrpcLogToOurs();
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kReceiverKeepaliveMs);
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kReceiverKeepaliveTimeoutMs);
    arguments.SetMaxReceiveMessageSize(kMostRecordBytes);
    stub_ = StraightAnswers::NewStub(
        grpc::CreateCustomChannel(address_, grpc_internal::ClientSide(tls), arguments));
    is_by_tls_ = tls.used();
    subscription_.set_job(LayoutName(config));
    subscription_.set_epoch(config.epoch());
    call_ = stub_->PrepareAsyncOpen(&context_, &queue);
    call_->StartCall(Begin(starting_));
  }

  // Says which workers there are.
  void Subscribe() {
    has_news_ = true;
    Write();
  }

  // There is room again.
  void Read() {
    if (!is_open_ || is_over_ || is_reading_ || inbox_.bytes >= kMostReceivedBytes) return;
    is_reading_ = true;
    call_->Read(&incoming_, Begin(reading_));
  }

  void Cancel() {
    is_over_ = true;
    context_.TryCancel();  // also what it waits for already, its status
    EndIfOver();
  }

  const std::string& address() const { return address_; }

 private:
  using Reaction = void (Incoming::*)();

  Operation OperationOf(Reaction reaction) {
    return {[this, reaction](bool ok) { React(reaction, ok); }};
  }

  void React(Reaction reaction, bool ok) {
    const std::shared_ptr<Incoming> kept = shared_from_this();
    const std::lock_guard<std::mutex> lock(inbox_.mutex);
    --under_way_;
    if (!ok) is_over_ = true;
    (this->*reaction)();
    EndIfOver();
  }

  void OnStarted() {
    if (is_over_) return;
    is_started_ = true;
    Subscribe();
    call_->ReadInitialMetadata(Begin(agreeing_));
  }

  void OnAgreed() {
    if (is_over_) return;
    // A server that refuses says nothing before its status.
    is_over_ = !context_.GetServerInitialMetadata().contains(kAnswersAgreed);
    if (is_over_) return;
    inbox_.is_new = true;
    inbox_.changed.notify_all();
    is_open_ = true;
    inbox_.warned.erase(address_);
    inbox_.said.push_back("answers come straight from " + address_);
    Read();
  }

  void OnRead() {
    is_reading_ = false;
    if (is_over_) return;
    inbox_.bytes += incoming_.value().size();
    inbox_.records.push_back({shared_from_this(), std::exchange(incoming_, {})});
    Read();
    wakeup_.Notify();
  }

  void OnWritten() {
    is_writing_ = false;
    Write();
  }

  void OnFinished() {
    if (is_open_) {
      inbox_.said.push_back("the stream of answers from " + address_ +
                            " has ended: they come through Kafka" + (status_.ok() ? "" : ": ") +
                            Printable(status_.error_message()));
      inbox_.has_ended = true;
      wakeup_.Notify();
    } else if (status_.error_code() != grpc::StatusCode::CANCELLED) {
      WarnOnce(address_, WhyNone(), inbox_);
      wakeup_.Notify();
    }
    inbox_.is_broken = true;
    inbox_.changed.notify_all();
    inbox_.streams.erase(address_);  // who holds the last reference destroys it
  }

  // Asks for the status, when nothing else is under way.
  void EndIfOver() {
    if (!is_over_ || is_finished_ || under_way_ > 0) return;
    is_finished_ = true;
    call_->Finish(&status_, Begin(finishing_));
  }

  Operation* Begin(Operation& operation) {
    ++under_way_;
    return &operation;
  }

  void Write() {
    if (!has_news_ || !is_started_ || is_over_ || is_writing_) return;
    outgoing_ = subscription_;
    for (const WorkerId worker : inbox_.workers) outgoing_.add_worker(worker);
    has_news_ = false;
    is_writing_ = true;
    call_->Write(outgoing_, Begin(writing_));
  }

  std::string WhyNone() const {
    if (status_.error_code() != grpc::StatusCode::UNAVAILABLE) {
      return Printable(status_.error_message());
    }
    const std::string remedy =
        is_by_tls_
            ? std::string(
                  "its certificate must be for the host of this address, and each side's must be "
                  "signed by the authority that the other one was given: check ") +
                  kTlsFlags
            : "check that this address of it can be reached from here (--answers-advertise), and "
              "is not by TLS";
    return Printable(status_.error_message()) + ". If that server runs, " + remedy;
  }

  Inbox& inbox_;
  Wakeup& wakeup_;
  const std::string address_;
  std::unique_ptr<StraightAnswers::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientAsyncReaderWriter<AnswerSubscription, AnswerRecord>> call_;
  Operation starting_ = OperationOf(&Incoming::OnStarted);
  Operation agreeing_ = OperationOf(&Incoming::OnAgreed);
  Operation reading_ = OperationOf(&Incoming::OnRead);
  Operation writing_ = OperationOf(&Incoming::OnWritten);
  Operation finishing_ = OperationOf(&Incoming::OnFinished);
  int under_way_ = 0;
  AnswerSubscription subscription_;  // without workers
  AnswerSubscription outgoing_;
  AnswerRecord incoming_;
  grpc::Status status_;
  bool is_by_tls_ = false;
  bool is_started_ = false;
  bool is_reading_ = false;
  bool is_writing_ = false;
  bool has_news_ = false;     // for the server
  bool is_open_ = false;      // the server has agreed
  bool is_over_ = false;      // nothing but the end may be begun any more
  bool is_finished_ = false;  // the end has been begun
};

class GrpcAnswerReceiver final : public AnswerReceiver {
 public:
  GrpcAnswerReceiver(const JobConfig& config, uint32_t shards, RpcTls tls, Wakeup* wakeup)
      : config_(config), shards_(shards), tls_(std::move(tls)), wakeup_(*wakeup), finder_([this] {
          Find();
        }) {}

  ~GrpcAnswerReceiver() override {
    {
      const std::lock_guard<std::mutex> lock(inbox_.mutex);
      ending_ = true;
      inbox_.changed.notify_all();
    }
    finder_.join();
    queue_.LeaveToThread(true);
    std::unique_lock<std::mutex> lock(inbox_.mutex);
    for (const auto& [address, stream] : inbox_.streams) stream->Cancel();
    inbox_.changed.wait(lock, [this] { return inbox_.streams.empty(); });
  }

  void Subscribe(const std::set<WorkerId>& workers) override {
    const std::lock_guard<std::mutex> lock(inbox_.mutex);
    if (inbox_.workers == workers) return;
    inbox_.workers = workers;
    for (const auto& [address, stream] : inbox_.streams) stream->Subscribe();
    inbox_.changed.notify_all();
  }

  size_t Poll(const Take& take) override {
    std::deque<Received> records;
    std::vector<std::string> said;
    {
      const std::lock_guard<std::mutex> lock(inbox_.mutex);
      records = std::exchange(inbox_.records, {});
      inbox_.bytes = 0;
      said = std::exchange(inbox_.said, {});
      for (const auto& [address, stream] : inbox_.streams) stream->Read();
    }
    for (const std::string& line : said) Say(line);
    for (const auto& [from, record] : records) {
      const Status taken = take(record.partition(), record.key(), record.value());
      if (taken.ok()) continue;
      Say("the stream of answers from " + from->address() +
          " is ended: a record of it cannot be used: " + std::string(TextOf(taken)));
      const std::lock_guard<std::mutex> lock(inbox_.mutex);
      from->Cancel();
    }
    return records.size();
  }

  void WaitFor(milliseconds timeout) override {
    if (HasStreams()) {
      wakeup_.WaitFor(timeout, queue_);
    } else {
      wakeup_.WaitFor(timeout);
    }
  }

  bool TakeEnded() override {
    const std::lock_guard<std::mutex> lock(inbox_.mutex);
    return std::exchange(inbox_.has_ended, false);
  }

  void LookAgain() override {
    const std::lock_guard<std::mutex> lock(inbox_.mutex);
    look_again_ = true;
    inbox_.changed.notify_all();
  }

 private:
  // ---- the thread that finds servers ----

  void Find() {
    std::unique_lock<std::mutex> lock(inbox_.mutex);
    while (!ending_) {
      if (inbox_.workers.empty()) {
        inbox_.changed.wait(lock);
        continue;
      }
      const auto now = steady_clock::now();
      NoteChanges(now);
      if (now < next_look_) {
        inbox_.changed.wait_until(lock, next_look_);
        continue;
      }
      lock.unlock();
      const StatusOr<std::set<std::string>> offers = ReadOffers();
      lock.lock();
      last_look_ = steady_clock::now();
      next_look_ =
          last_look_ + std::exchange(look_after_, std::min(2 * look_after_, kLongestLookAfter));
      if (!offers.ok()) {
        Pause();
        continue;
      }
      Open(*offers);
    }
  }

  void NoteChanges(steady_clock::time_point now) {
    if (std::exchange(inbox_.is_new, false)) backoff_.Succeeded();
    if (std::exchange(inbox_.is_broken, false)) Pause();
    if (look_again_ && now >= last_look_ + kLookAgainAfter) {
      look_again_ = false;
      next_look_ = std::min(next_look_, now);
    }
  }

  void Pause() {
    const auto now = steady_clock::now();
    backoff_.Failed(now);
    next_look_ = std::min(next_look_, now + std::chrono::ceil<milliseconds>(backoff_.wait()));
  }

  StatusOr<std::set<std::string>> ReadOffers() {
    if (registry_ == nullptr) {
      MILLRACE_ASSIGN_OR_RETURN(registry_, JobRegistry::Create(config_, ending_));
    }
    MILLRACE_ASSIGN_OR_RETURN(const std::vector<AnswerOffer> offers, registry_->ReadAnswerOffers());
    std::set<std::string> usable;
    for (const AnswerOffer& offer : offers) {
      if (offer.layout() != config_.layout()) continue;
      if (offer.shard() >= shards_ || offer.address().empty() || !MayUse(offer)) continue;
      usable.insert(offer.address());
    }
    return usable;
  }

  bool MayUse(const AnswerOffer& offer) {
    if (offer.tls() && !tls_.used()) {
      Warn(offer.address(), std::string("it sends by TLS only: give ") + kTlsFlags);
      return false;
    }
    if (MayConnect(offer.address(), tls_, config_.answers().insecure())) return true;
    Warn(offer.address(),
         std::string("it is on another machine, and this program has no mutual TLS: give ") +
             kTlsFlags + ", or --answers-insecure in a network that you trust");
    return false;
  }

  void Warn(const std::string& address, const std::string& why) {
    const std::lock_guard<std::mutex> lock(inbox_.mutex);
    WarnOnce(address, why, inbox_);
    wakeup_.Notify();
  }

  bool HasStreams() {
    const std::lock_guard<std::mutex> lock(inbox_.mutex);
    return !inbox_.streams.empty();
  }

  static void Say(const std::string& line) {
    if (!GiveToLineSink(line)) spdlog::info("{}", line);
  }

  // REQUIRES the lock.
  void Open(const std::set<std::string>& offers) {
    for (const auto& [address, stream] : inbox_.streams) {
      if (!offers.contains(address)) stream->Cancel();
    }
    for (const std::string& address : offers) {
      if (inbox_.streams.contains(address)) continue;
      const auto stream = std::make_shared<Incoming>(inbox_, wakeup_, address);
      inbox_.streams[address] = stream;
      stream->Open(config_, tls_, *queue_.get());
    }
  }

  const JobConfig& config_;
  const uint32_t shards_;
  const RpcTls tls_;
  Wakeup& wakeup_;
  Inbox inbox_;
  // What streams have begun. (Its end waits for them.)
  DrivenQueue queue_{std::make_unique<grpc::CompletionQueue>()};
  std::atomic<bool> ending_ = false;
  bool look_again_ = false;  // guarded by inbox_.mutex
  // Of the finder:
  std::unique_ptr<JobRegistry> registry_;
  milliseconds look_after_ = kFirstLookAfter;
  Backoff backoff_{kFirstPause, kLongestPause};
  steady_clock::time_point next_look_{};
  steady_clock::time_point last_look_{};
  std::thread finder_;  // last: it uses all of the above
};

}  // namespace

StatusOr<std::unique_ptr<AnswerReceiver>> AnswerReceiver::Create(const JobConfig& config,
                                                                 uint32_t shards, Wakeup* wakeup) {
  const Answers& answers = config.answers();
  MILLRACE_ASSIGN_OR_RETURN(RpcTls tls,
                            ReadRpcTls(answers.tls_cert(), answers.tls_key(), answers.tls_ca()));
  return std::unique_ptr<AnswerReceiver>(
      std::make_unique<GrpcAnswerReceiver>(config, shards, std::move(tls), wakeup));
}

}  // namespace millrace
