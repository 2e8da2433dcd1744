#include "members/member_node.h"

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "messages/nodes.grpc.pb.h"

namespace millrace {
namespace {

// A master with whom nodes join and pass; signs of life it refuses when it is told to.
class OneWorld final : public nodes::Nodes::Service {
 public:
  grpc::Status Join(grpc::ServerContext*, const nodes::JoinRequest* request,
                    nodes::JoinResponse*) override {
    node_.set_role(request->role());
    node_.set_instance(request->instance());
    return grpc::Status::OK;
  }
  grpc::Status Sign(grpc::ServerContext*, const nodes::SignRequest*,
                    nodes::SignResponse*) override {
    ++signs_;
    return takes_it_for_dead_ ? grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "which is dead")
                              : grpc::Status::OK;
  }
  grpc::Status Leave(grpc::ServerContext*, const nodes::LeaveRequest*,
                     nodes::LeaveResponse*) override {
    return grpc::Status::OK;
  }
  grpc::Status Barrier(grpc::ServerContext*, const nodes::BarrierRequest* request,
                       nodes::BarrierResponse* response) override {
    response->set_release(1);
    response->add_passed()->set_instance(request->instance());
    return grpc::Status::OK;
  }
  // As it was before: who is dead is not told by a list that it asked for too early.
  grpc::Status List(grpc::ServerContext*, const nodes::ListRequest*,
                    nodes::ListResponse* response) override {
    *response->add_nodes() = node_;
    return grpc::Status::OK;
  }

  void TakeItForDead() { takes_it_for_dead_ = true; }
  int signs() const { return signs_; }

 private:
  std::atomic<bool> takes_it_for_dead_ = false;
  std::atomic<int> signs_ = 0;
  nodes::Node node_;  // who has joined; set before it is listed
};

// Whether `condition` becomes true within half a minute.
template <typename Condition>
bool Becomes(const Condition& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!condition() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return condition();
}

// Its world goes on without it, and nobody may tell it so: it must not wait for the others.
TEST(MemberNodeTest, ANodeThatIsTakenForDeadItselfHasLostItsWorld) {
  OneWorld master;
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&master);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  ASSERT_NE(server, nullptr);

  MemberNodeOptions options;
  options.master = "127.0.0.1:" + std::to_string(port);
  options.on_wait = [] {};
  options.has_ended = [] { return false; };
  std::atomic<bool> stop = false;
  const auto node = MemberNode::Join(options, stop);
  ASSERT_TRUE(node.ok()) << node.status();
  ASSERT_TRUE((*node)->Pass("").ok());
  ASSERT_TRUE(Becomes([&] { return master.signs() > 0; }));
  EXPECT_FALSE((*node)->HasLostMembers());
  master.TakeItForDead();
  EXPECT_TRUE(Becomes([&] { return (*node)->HasLostMembers(); }));
}

}  // namespace
}  // namespace millrace
