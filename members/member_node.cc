#include "members/member_node.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "base/random_number.h"
#include "messages/nodes.grpc.pb.h"

namespace millrace {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr char kMemberRole[] = "member";
constexpr char kMembersBarrier[] = "world";
constexpr milliseconds kSignEvery(500);
constexpr seconds kCallAgainAfter(2);  // so that a stop is heard
constexpr seconds kLeaveWithin(3);
constexpr milliseconds kCallPause(100);
constexpr seconds kMasterReportEvery(10);

class GrpcMemberNode final : public MemberNode {
 public:
  GrpcMemberNode(const MemberNodeOptions& options, const std::atomic<bool>& stop)
      : options_(options), stop_(stop) {
    instance_ = std::to_string(RandomNumber());
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 500);
    stub_ = nodes::Nodes::NewStub(
        grpc::CreateCustomChannel(options.master, grpc::InsecureChannelCredentials(), arguments));
  }
  ~GrpcMemberNode() override {
    ends_ = true;
    if (signs_.joinable()) signs_.join();
  }

  Status Join() {
    nodes::JoinRequest request;
    request.set_role(kMemberRole);
    request.set_instance(instance_);
    request.set_address(options_.address);
    nodes::JoinResponse response;
    MILLRACE_RETURN_IF_ERROR(Call(&nodes::Nodes::Stub::Join, request, response, Awaits("")));
    signs_ = std::thread([this] {
      for (; !ends_; std::this_thread::sleep_for(kSignEvery)) SignAndLook();
    });
    return absl::OkStatus();
  }

  const std::string& instance() const override { return instance_; }

  StatusOr<Gathered> Pass(const std::string& value) override {
    nodes::BarrierRequest request;
    request.set_instance(instance_);
    request.set_name(kMembersBarrier);
    request.set_role(kMemberRole);
    request.set_passing(++passed_);
    request.set_value(value);
    nodes::BarrierResponse response;
    MILLRACE_RETURN_IF_ERROR(Call(&nodes::Nodes::Stub::Barrier, request, response,
                                  Awaits(", and for all members to be there")));
    Gathered gathered;
    gathered.release = response.release();
    for (const nodes::PassedNode& node : response.passed()) {
      gathered.members.push_back({node.instance(), node.value()});
    }
    const std::lock_guard lock(mutex_);
    members_.clear();
    for (const Gathered::Member& member : gathered.members) members_.insert(member.instance);
    newcomers_ = false;
    has_lost_ = false;
    ++passed_worlds_;
    return gathered;
  }

  bool HasNewcomers() const override { return newcomers_; }
  bool HasLostMembers() const override { return has_lost_; }
  bool job_has_ended() const override { return job_has_ended_; }

  void Leave() override {
    nodes::LeaveRequest request;
    request.set_instance(instance_);
    nodes::LeaveResponse response;
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    context.set_deadline(std::chrono::system_clock::now() + kLeaveWithin);
    (void)stub_->Leave(&context, request, &response);
  }

 private:
  using WhileAway = std::function<Status()>;

  // For the thread of the owner: says what is awaited, and ends the waiting when the job has ended.
  WhileAway Awaits(const std::string& whom) {
    return [this, whom, reported = std::chrono::steady_clock::now()]() mutable -> Status {
      options_.on_wait();
      const auto now = std::chrono::steady_clock::now();
      if (now - reported < kMasterReportEvery) return absl::OkStatus();
      reported = now;
      spdlog::info("waiting for MasterApp at {}{}", options_.master, whom);
      const StatusOr<bool> ended = options_.has_ended();
      if (!ended.ok() || !*ended) return absl::OkStatus();  // (the broker may be away, too)
      job_has_ended_ = true;
      return absl::OutOfRangeError("the job has ended");
    };
  }

  // Until it is answered, by this master or by the next, or until `while_away` has an error; it is
  // called after each try that was not answered.
  template <typename Request, typename Response>
  Status Call(grpc::Status (nodes::Nodes::Stub::*method)(grpc::ClientContext*, const Request&,
                                                         Response*),
              const Request& request, Response& response, const WhileAway& while_away) {
    while (!stop_ && !ends_) {
      grpc::ClientContext context;
      context.set_wait_for_ready(true);
      context.set_deadline(std::chrono::system_clock::now() + kCallAgainAfter);
      const grpc::Status status = (stub_.get()->*method)(&context, request, &response);
      if (status.ok()) return absl::OkStatus();
      const bool is_away = status.error_code() == grpc::StatusCode::UNAVAILABLE ||
                           status.error_code() == grpc::StatusCode::CANCELLED ||  // it ends
                           status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
      if (!is_away) {
        return {static_cast<absl::StatusCode>(status.error_code()),
                "MasterApp at " + options_.master + ": " + status.error_message()};
      }
      if (while_away) MILLRACE_RETURN_IF_ERROR(while_away());
      std::this_thread::sleep_for(kCallPause);
    }
    return absl::CancelledError("stopped");
  }

  void SignAndLook() {
    nodes::SignRequest sign;
    sign.set_instance(instance_);
    nodes::SignResponse signed_response;
    nodes::ListResponse list;
    const Status told = Call(&nodes::Nodes::Stub::Sign, sign, signed_response, nullptr);
    // It is this node itself that is dead: the others go on without it. (The next barrier says so.)
    if (absl::IsFailedPrecondition(told) || absl::IsNotFound(told)) has_lost_ = true;
    if (!told.ok()) return;
    const uint64_t world = passed_worlds_;
    if (!Call(&nodes::Nodes::Stub::List, nodes::ListRequest(), list, nullptr).ok()) return;
    const std::lock_guard lock(mutex_);
    if (members_.empty() || world != passed_worlds_) return;  // it is of the time before
    std::set<std::string> lost = members_;
    for (const nodes::Node& node : list.nodes()) {
      if (node.role() != kMemberRole || node.phase() == nodes::Node::DEAD) continue;
      lost.erase(node.instance());
      const bool lives = node.phase() == nodes::Node::LIVE;
      if (lives && !members_.contains(node.instance())) newcomers_ = true;
    }
    has_lost_ = !lost.empty();
  }

  const MemberNodeOptions options_;
  const std::atomic<bool>& stop_;
  std::string instance_;
  std::unique_ptr<nodes::Nodes::Stub> stub_;
  uint64_t passed_ = 0;
  bool job_has_ended_ = false;
  std::mutex mutex_;
  std::set<std::string> members_;  // of the newest world, by instance; guarded by mutex_
  std::atomic<bool> newcomers_ = false;
  std::atomic<bool> has_lost_ = false;
  std::atomic<uint64_t> passed_worlds_ = 0;
  std::atomic<bool> ends_ = false;
  std::thread signs_;
};

}  // namespace

StatusOr<std::unique_ptr<MemberNode>> MemberNode::Join(const MemberNodeOptions& options,
                                                       const std::atomic<bool>& stop) {
  auto node = std::make_unique<GrpcMemberNode>(options, stop);
  MILLRACE_RETURN_IF_ERROR(node->Join());
  return node;
}

}  // namespace millrace
