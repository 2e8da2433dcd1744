#include "client/node_client.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "base/random_number.h"
#include "messages/nodes.grpc.pb.h"

namespace millrace {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr char kTrainerRole[] = "trainer";
constexpr milliseconds kSignEvery(500);
constexpr milliseconds kSignWithin(300);
constexpr milliseconds kCallAgainAfter(5000);
constexpr milliseconds kCallPause(50);
constexpr milliseconds kAskEvery(100);
constexpr std::chrono::seconds kLeaveWithin(3);

client::Member ToMember(const nodes::Node& node) {
  client::Member member = {.role = node.role(),
                           .rank = node.rank(),
                           .instance = node.instance(),
                           .address = node.address()};
  if (node.phase() == nodes::Node::DEAD) member.state = client::Member::State::kDead;
  if (node.phase() == nodes::Node::LEFT) member.state = client::Member::State::kLeft;
  return member;
}

bool MasterIsAway(grpc::StatusCode code) {
  return code == grpc::StatusCode::UNAVAILABLE || code == grpc::StatusCode::CANCELLED ||
         code == grpc::StatusCode::DEADLINE_EXCEEDED;
}

template <typename Request, typename Response>
using Method = grpc::Status (nodes::Nodes::Stub::*)(grpc::ClientContext*, const Request&,
                                                    Response*);

}  // namespace

class NodeClient::Calls {
 public:
  explicit Calls(const NodeClientOptions& options)
      : options_(options), instance_(std::to_string(RandomNumber())) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 500);
    stub_ = nodes::Nodes::NewStub(
        grpc::CreateCustomChannel(options.master, grpc::InsecureChannelCredentials(), arguments));
  }
  ~Calls() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    wakeup_.notify_all();
    if (signs_.joinable()) signs_.join();
  }

  // Until it is answered, by this master or by the next.
  template <typename Request, typename Response>
  Status Call(Method<Request, Response> method, const Request& request, Response& response) {
    const auto begin = steady_clock::now();
    const auto is_late = [&] {
      const std::chrono::duration<double> waited = steady_clock::now() - begin;
      return options_.timeout_s > 0 && waited.count() >= options_.timeout_s;
    };
    const std::string master = "MasterApp at " + options_.master;
    while (true) {
      const grpc::Status status = CallOnce(method, request, response, kCallAgainAfter, is_late);
      if (status.ok()) return absl::OkStatus();
      if (!MasterIsAway(status.error_code())) {
        return {static_cast<absl::StatusCode>(status.error_code()),
                master + ": " + status.error_message()};
      }
      if (stops_) return absl::CancelledError("stopped");
      if (is_late()) {
        return absl::DeadlineExceededError(
            master +
            ": no answer in time; others are awaited, or it does not run there (its "
            "--master-address)");
      }
      std::this_thread::sleep_for(kCallPause);
    }
  }

  // Whoever waits is asked meanwhile whether it is to stop, or `is_late`.
  template <typename Request, typename Response>
  grpc::Status CallOnce(Method<Request, Response> method, const Request& request,
                        Response& response, milliseconds within,
                        const std::function<bool()>& is_late) {
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    context.set_deadline(std::chrono::system_clock::now() + within);
    std::future<grpc::Status> done = std::async(
        std::launch::async, [&] { return (stub_.get()->*method)(&context, request, &response); });
    while (done.wait_for(kAskEvery) != std::future_status::ready) {
      stops_ = options_.should_stop();
      if (stops_ || is_late()) context.TryCancel();
    }
    return done.get();
  }

  const std::string& instance() const { return instance_; }
  bool has_joined() const { return signs_.joinable(); }
  void GiveSigns() {
    signs_ = std::thread([this] {
      nodes::SignRequest sign;
      sign.set_instance(instance_);
      nodes::SignResponse response;
      std::unique_lock lock(mutex_);
      while (!ends_) {
        lock.unlock();
        // (If this node is dead its next barrier says so.)
        grpc::ClientContext context;
        context.set_deadline(std::chrono::system_clock::now() + kSignWithin);
        (void)stub_->Sign(&context, sign, &response);
        lock.lock();
        wakeup_.wait_for(lock, kSignEvery, [this] { return ends_; });
      }
    });
  }

  // The number of the next passing of each barrier.
  std::map<std::string, uint64_t> passing;

 private:
  const NodeClientOptions& options_;
  const std::string instance_;
  std::unique_ptr<nodes::Nodes::Stub> stub_;
  std::mutex mutex_;
  std::condition_variable wakeup_;
  bool stops_ = false;
  bool ends_ = false;  // guarded by mutex_
  std::thread signs_;
};

NodeClient::NodeClient(NodeClientOptions options)
    : options_(std::move(options)), calls_(std::make_unique<Calls>(options_)) {}
NodeClient::~NodeClient() = default;

Status NodeClient::Join() {
  if (calls_->has_joined()) return absl::OkStatus();
  nodes::JoinRequest request;
  request.set_role(kTrainerRole);
  request.set_instance(calls_->instance());
  request.set_address(options_.address);
  nodes::JoinResponse response;
  MILLRACE_RETURN_IF_ERROR(calls_->Call(&nodes::Nodes::Stub::Join, request, response));
  calls_->GiveSigns();
  return absl::OkStatus();
}

Status NodeClient::Barrier(const std::string& name, uint32_t least) {
  MILLRACE_RETURN_IF_ERROR(Join());
  uint64_t& passing = calls_->passing.try_emplace(name, 1).first->second;
  nodes::BarrierRequest request;
  request.set_instance(calls_->instance());
  request.set_name(name);
  request.set_role(kTrainerRole);
  request.set_passing(passing);
  nodes::BarrierRequest::Least& trainers = *request.add_least();
  trainers.set_role(kTrainerRole);
  trainers.set_nodes(least);
  nodes::BarrierResponse response;
  MILLRACE_RETURN_IF_ERROR(calls_->Call(&nodes::Nodes::Stub::Barrier, request, response));
  ++passing;
  return absl::OkStatus();
}

StatusOr<std::vector<client::Member>> NodeClient::Members() {
  MILLRACE_RETURN_IF_ERROR(Join());
  nodes::ListResponse response;
  MILLRACE_RETURN_IF_ERROR(calls_->Call(&nodes::Nodes::Stub::List, nodes::ListRequest(), response));
  std::vector<client::Member> members;
  for (const nodes::Node& node : response.nodes()) members.push_back(ToMember(node));
  return members;
}

void NodeClient::Leave() {
  if (!calls_->has_joined()) return;
  nodes::LeaveRequest request;
  request.set_instance(calls_->instance());
  nodes::LeaveResponse response;
  (void)calls_->CallOnce(&nodes::Nodes::Stub::Leave, request, response, kLeaveWithin,
                         [] { return false; });
}

}  // namespace millrace
