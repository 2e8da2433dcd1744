#include "master/node_service.h"

#include <grpcpp/impl/service_type.h>

#include <algorithm>
#include <utility>

#include "master/grpc_caller.h"
#include "messages/nodes.grpc.pb.h"

namespace millrace {
namespace {

using NodeContext = grpc::CallbackServerContext;
using NodeReactor = grpc::ServerUnaryReactor;

void FillJoined(const MemberState& member, nodes::JoinResponse& response) {
  response.set_rank(member.rank());
  response.set_timeout_s(member.timeout_ticks());
  if (member.earlier_size() > 0) response.set_replaced(*member.earlier().rbegin());
}

void FillNode(const MemberState& member, uint64_t ticks, nodes::Node& node) {
  node.set_role(member.role());
  node.set_rank(member.rank());
  node.set_instance(member.instance());
  node.set_address(member.address());
  node.set_phase(static_cast<nodes::Node::Phase>(member.phase()));
  node.set_ticks_since_sign(ticks - std::min(ticks, member.last_sign_tick()));
}

// A node's place in `passed` is its position in the world that they form.
void FillPassed(const BarrierState& barrier, nodes::BarrierResponse& response) {
  for (const BarrierState::Arrival& arrival : barrier.passed()) {
    nodes::PassedNode& node = *response.add_passed();
    node.set_role(arrival.role());
    node.set_rank(arrival.rank());
    node.set_instance(arrival.instance());
    node.set_address(arrival.address());
    node.set_value(arrival.value());
  }
  std::sort(response.mutable_passed()->begin(), response.mutable_passed()->end(),
            [](const nodes::PassedNode& left, const nodes::PassedNode& right) {
              return std::pair(left.role(), left.rank()) < std::pair(right.role(), right.rank());
            });
  for (const BarrierState::Death& death : barrier.passed_deaths()) {
    nodes::DeadNode& node = *response.add_died();
    node.set_role(death.role());
    node.set_rank(death.rank());
    node.set_instance(death.instance());
  }
  response.set_release(barrier.release());
}

// Called by gRPC's threads.
class NodeService final : public nodes::Nodes::CallbackService {
 public:
  NodeService(uint64_t timeout_ticks, NodeDesk& desk)
      : timeout_ticks_(timeout_ticks), desk_(desk) {}

  NodeReactor* Join(NodeContext* context, const nodes::JoinRequest* request,
                    nodes::JoinResponse* response) override {
    NodeCommand command;
    NodeCommand::Join& join = *command.mutable_join();
    join.set_role(request->role());
    join.set_instance(request->instance());
    join.set_address(request->address());
    join.set_timeout_ticks(timeout_ticks_);
    return Ask(context, std::move(command),
               [response](const NodeAnswer& answer) { FillJoined(answer.member, *response); });
  }

  NodeReactor* Sign(NodeContext* context, const nodes::SignRequest* request,
                    nodes::SignResponse*) override {
    NodeCommand command;
    command.set_sign(request->instance());
    return Ask(context, std::move(command), nullptr);
  }

  NodeReactor* Leave(NodeContext* context, const nodes::LeaveRequest* request,
                     nodes::LeaveResponse*) override {
    NodeCommand command;
    command.set_leave(request->instance());
    return Ask(context, std::move(command), nullptr);
  }

  NodeReactor* Barrier(NodeContext* context, const nodes::BarrierRequest* request,
                       nodes::BarrierResponse* response) override {
    NodeCommand command;
    NodeCommand::Arrive& arrive = *command.mutable_arrive();
    arrive.set_instance(request->instance());
    arrive.set_barrier(request->name());
    arrive.set_role(request->role());
    arrive.set_passing(request->passing());
    arrive.set_value(request->value());
    for (const nodes::BarrierRequest::Least& least : request->least()) {
      NodeCount& count = *arrive.add_least();
      count.set_role(least.role());
      count.set_nodes(least.nodes());
    }
    return Ask(context, std::move(command),
               [response](const NodeAnswer& answer) { FillPassed(answer.barrier, *response); });
  }

  NodeReactor* List(NodeContext* context, const nodes::ListRequest*,
                    nodes::ListResponse* response) override {
    return Ask(context, NodeCommand(), [response](const NodeAnswer& answer) {
      for (const MemberState& member : answer.members) {
        FillNode(member, answer.ticks, *response->add_nodes());
      }
    });
  }

 private:
  NodeReactor* Ask(NodeContext* context, NodeCommand command, GrpcCaller<NodeAnswer>::Fill fill) {
    NodeReactor* reactor = context->DefaultReactor();
    desk_.Ask(std::move(command),
              std::make_unique<GrpcCaller<NodeAnswer>>(context, reactor, std::move(fill)));
    return reactor;
  }

  const uint64_t timeout_ticks_;
  NodeDesk& desk_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeNodeService(uint64_t timeout_ticks, NodeDesk& desk) {
  return std::make_unique<NodeService>(timeout_ticks, desk);
}

}  // namespace millrace
