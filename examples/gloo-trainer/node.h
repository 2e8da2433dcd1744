// A process of a trainer as a node of its job (docs/nodes.md), and how to call a master until it
// answers.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/status.h"
#include "collective/world.h"
#include "messages/nodes.grpc.pb.h"

namespace millrace {

struct NodeOptions {
  std::string master = "127.0.0.1:50001";
  std::string host = "127.0.0.1";
  uint32_t least = 1;  // so many nodes at the start
};

inline void AddNodeFlags(CLI::App& app, NodeOptions& options) {
  app.add_option("--master", options.master, "HOST:PORT of MasterApp (its --master-address)");
  app.add_option("--host", options.host,
                 "an address of this machine that the other processes reach");
  app.add_option("--least", options.least, "wait at the start until so many processes live");
}

inline std::shared_ptr<grpc::Channel> ChannelTo(const std::string& master) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 500);
  return grpc::CreateCustomChannel(master, grpc::InsecureChannelCredentials(), arguments);
}

// Until the call is answered, by this master or by the next; or `ends`. (A call that waits for a
// task or at a barrier is made again after ten seconds, and waits on.)
template <typename Stub, typename Request, typename Response>
Status CallUntilAnswered(
    Stub& stub, grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
    const Request& request, Response& response, const std::atomic<bool>& ends) {
  constexpr std::chrono::seconds kCallAgainAfter(10);
  constexpr std::chrono::milliseconds kPause(100);  // before a call is made again
  while (true) {
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    context.set_deadline(std::chrono::system_clock::now() + kCallAgainAfter);
    const grpc::Status status = (stub.*method)(&context, request, &response);
    if (status.ok()) return absl::OkStatus();
    const bool is_away = status.error_code() == grpc::StatusCode::UNAVAILABLE ||
                         status.error_code() == grpc::StatusCode::CANCELLED ||  // it ends
                         status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
    if (!is_away || ends) {
      return {static_cast<absl::StatusCode>(status.error_code()), status.error_message()};
    }
    std::this_thread::sleep_for(kPause);
  }
}

class Node {
 public:
  static constexpr char kRole[] = "trainer";

  explicit Node(const NodeOptions& options) : options_(options) {
    std::random_device random;
    instance_ = std::to_string(uint64_t{random()} << 32 | random());
    stub_ = nodes::Nodes::NewStub(ChannelTo(options.master));
  }
  ~Node() {
    ends_ = true;
    if (signs_.joinable()) signs_.join();
  }

  const std::string& instance() const { return instance_; }

  Status Join() {
    nodes::JoinRequest request;
    request.set_role(kRole);
    request.set_instance(instance_);
    request.set_address(options_.host);
    nodes::JoinResponse response;
    MILLRACE_RETURN_IF_ERROR(Call(&nodes::Nodes::Stub::Join, request, response));
    is_first_ = response.replaced().empty();
    signs_ = std::thread([this] {
      for (; !ends_; std::this_thread::sleep_for(kSignEvery)) SignAndLookForNewcomers();
    });
    return absl::OkStatus();
  }

  Status Leave() {
    nodes::LeaveRequest request;
    request.set_instance(instance_);
    nodes::LeaveResponse response;
    return Call(&nodes::Nodes::Stub::Leave, request, response);
  }

  // All who are released from a barrier together form a world.
  StatusOr<Gathered> Gather(const std::string& value) {
    nodes::BarrierRequest request;
    request.set_instance(instance_);
    request.set_name(kBarrier);
    request.set_role(kRole);
    request.set_passing(++passed_);
    request.set_value(value);
    // Not of a replacement: those that it helps to end may be few.
    if (passed_ == 1 && is_first_) {
      request.add_least()->set_role(kRole);
      request.mutable_least(0)->set_nodes(options_.least);
    }
    nodes::BarrierResponse response;
    MILLRACE_RETURN_IF_ERROR(Call(&nodes::Nodes::Stub::Barrier, request, response));
    Gathered gathered;
    gathered.release = response.release();
    for (const nodes::PassedNode& node : response.passed()) {
      gathered.members.push_back({node.instance(), node.value()});
    }
    const std::lock_guard lock(mutex_);
    members_ = gathered.members;
    newcomers_ = false;
    return gathered;
  }

  // Whether another one has joined since, who waits for the next world.
  bool HasNewcomers() const { return newcomers_; }

 private:
  static constexpr char kBarrier[] = "world";
  static constexpr std::chrono::milliseconds kSignEvery{500};

  template <typename Request, typename Response>
  Status Call(grpc::Status (nodes::Nodes::Stub::*method)(grpc::ClientContext*, const Request&,
                                                         Response*),
              const Request& request, Response& response) {
    return CallUntilAnswered(*stub_, method, request, response, ends_);
  }

  void SignAndLookForNewcomers() {
    nodes::SignRequest sign;
    sign.set_instance(instance_);
    nodes::SignResponse signed_response;
    nodes::ListResponse list;
    // (If this node is dead the next barrier says so.)
    if (!Call(&nodes::Nodes::Stub::Sign, sign, signed_response).ok()) return;
    if (!Call(&nodes::Nodes::Stub::List, nodes::ListRequest(), list).ok()) return;
    const std::lock_guard lock(mutex_);
    for (const nodes::Node& node : list.nodes()) {
      if (node.role() != kRole || node.phase() != nodes::Node::LIVE) continue;
      const auto is_it = [&](const Gathered::Member& member) {
        return member.instance == node.instance();
      };
      if (std::ranges::none_of(members_, is_it)) newcomers_ = true;
    }
  }

  const NodeOptions options_;
  std::string instance_;
  std::unique_ptr<nodes::Nodes::Stub> stub_;
  uint64_t passed_ = 0;
  bool is_first_ = true;  // of its rank
  std::mutex mutex_;
  std::vector<Gathered::Member> members_;  // of the newest world; guarded by mutex_
  std::atomic<bool> newcomers_ = false;
  std::atomic<bool> ends_ = false;
  std::thread signs_;
};

}  // namespace millrace
