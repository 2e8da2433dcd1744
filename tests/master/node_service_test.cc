// What nodes call, over the loopback; the loop has no Kafka.
#include "master/node_service.h"

#include <gmock/gmock.h>
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "master/task_server.h"
#include "messages/elasticai.grpc.pb.h"
#include "messages/nodes.grpc.pb.h"

namespace millrace {
namespace {

using testing::HasSubstr;

class NodeServiceTest : public testing::Test {
 protected:
  NodeServiceTest() {
    task_desk_.Open(Offset(0), tasks_);
    desk_.Open(Offset(0), nodes_);
    TaskServerOptions options;
    options.address = "127.0.0.1:0";
    options.node_timeout_ticks = 3;
    auto server = TaskServer::Start(options, task_desk_, desk_);
    EXPECT_EQ(server.status(), absl::OkStatus());
    server_ = *std::move(server);
    channel_ = grpc::CreateChannel("127.0.0.1:" + std::to_string(server_->port()),
                                   grpc::InsecureChannelCredentials());
    stub_ = nodes::Nodes::NewStub(channel_);
    loop_ = std::thread([this] {
      while (!ends_) {
        for (const NodeCommand& command : desk_.TakeCommands(nodes_)) nodes_.Apply(command);
        for (; ticks_wanted_ > 0; --ticks_wanted_) nodes_.Tick(nodes_.ticks() + 1);
        size_t arrived = 0;
        for (const auto& [name, barrier] : nodes_.barriers().barriers()) {
          arrived += barrier.arrived.size();
        }
        arrived_ = arrived;
        desk_.Answer(nodes_);
        wakeup_.WaitFor(std::chrono::milliseconds(10));
      }
    });
  }
  ~NodeServiceTest() override { End(); }

  void End() {
    ends_ = true;
    if (loop_.joinable()) loop_.join();
    server_.reset();
  }

  void Ticks(int count) {
    ticks_wanted_ += count;
    wakeup_.Notify();
    while (ticks_wanted_ > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  template <typename Request, typename Response>
  using Method = grpc::Status (nodes::Nodes::Stub::*)(grpc::ClientContext*, const Request&,
                                                      Response*);
  template <typename Request, typename Response>
  grpc::Status Call(Method<Request, Response> method, const Request& request, Response& response,
                    std::chrono::milliseconds deadline = std::chrono::minutes(2)) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + deadline);
    return (stub_.get()->*method)(&context, request, &response);
  }

  nodes::JoinResponse Join(const std::string& instance, const std::string& role = "worker") {
    nodes::JoinRequest request;
    request.set_role(role);
    request.set_instance(instance);
    request.set_address(instance + ":7000");
    nodes::JoinResponse response;
    EXPECT_TRUE(Call(&nodes::Nodes::Stub::Join, request, response).ok());
    return response;
  }
  grpc::Status Sign(const std::string& instance) {
    nodes::SignRequest request;
    request.set_instance(instance);
    nodes::SignResponse response;
    return Call(&nodes::Nodes::Stub::Sign, request, response);
  }
  grpc::Status Leave(const std::string& instance) {
    nodes::LeaveRequest request;
    request.set_instance(instance);
    nodes::LeaveResponse response;
    return Call(&nodes::Nodes::Stub::Leave, request, response);
  }
  static nodes::BarrierRequest At(const std::string& instance, uint64_t passing = 1) {
    nodes::BarrierRequest request;
    request.set_instance(instance);
    request.set_name("start");
    request.set_passing(passing);
    return request;
  }
  nodes::ListResponse List() {
    nodes::ListResponse response;
    EXPECT_TRUE(Call(&nodes::Nodes::Stub::List, nodes::ListRequest(), response).ok());
    return response;
  }

  Wakeup wakeup_;
  TaskManager tasks_;
  TaskDesk task_desk_{wakeup_};
  JobNodes nodes_;  // the loop's
  NodeDesk desk_{wakeup_};
  std::unique_ptr<TaskServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<nodes::Nodes::Stub> stub_;
  std::atomic<bool> ends_ = false;
  std::atomic<int> ticks_wanted_ = 0;
  std::atomic<size_t> arrived_ = 0;
  std::thread loop_;
};

TEST_F(NodeServiceTest, ANodeJoinsSignsAndLeaves) {
  EXPECT_EQ(Join("a").rank(), 0u);
  const nodes::JoinResponse joined = Join("b");
  EXPECT_EQ(joined.rank(), 1u);
  EXPECT_EQ(joined.timeout_s(), 3u);
  EXPECT_EQ(joined.replaced(), "");
  EXPECT_TRUE(Sign("a").ok());
  EXPECT_TRUE(Leave("a").ok());
  const grpc::Status refused = Sign("a");
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(refused.error_message(), HasSubstr("worker-0, and has left"));
  EXPECT_EQ(Sign("c").error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(Join("d").replaced(), "a");
}

TEST_F(NodeServiceTest, ABarrierIsHeldOpenUntilItIsReleasedAndNamesTheDead) {
  Join("a");
  Join("b");
  Join("c");
  Ticks(2);
  nodes::BarrierResponse first;
  std::thread other([&] { EXPECT_TRUE(Call(&nodes::Nodes::Stub::Barrier, At("a"), first).ok()); });
  EXPECT_TRUE(Sign("b").ok());
  while (arrived_ == 0) ASSERT_TRUE(Sign("a").ok());
  Ticks(1);
  nodes::BarrierResponse second;
  EXPECT_TRUE(Call(&nodes::Nodes::Stub::Barrier, At("b"), second).ok());
  other.join();
  for (const nodes::BarrierResponse& response : {first, second}) {
    ASSERT_EQ(response.passed_size(), 2);
    EXPECT_EQ(response.passed(1).rank(), 1u);
    ASSERT_EQ(response.died_size(), 1);
    EXPECT_EQ(response.died(0).role(), "worker");
    EXPECT_EQ(response.died(0).rank(), 2u);
    EXPECT_EQ(response.died(0).instance(), "c");
  }
}

TEST_F(NodeServiceTest, WhoGivesUpWaitingHasArrived) {
  Join("a");
  Join("b");
  nodes::BarrierResponse response;
  EXPECT_EQ(Call(&nodes::Nodes::Stub::Barrier, At("a"), response, std::chrono::milliseconds(300))
                .error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_TRUE(Call(&nodes::Nodes::Stub::Barrier, At("b"), response).ok());
  EXPECT_TRUE(Call(&nodes::Nodes::Stub::Barrier, At("a"), response).ok());
}

TEST_F(NodeServiceTest, WhoPassesIsToldOfAllByRankWithTheValuesThatTheyGave) {
  Join("a");
  Join("b");
  EXPECT_TRUE(Leave("a").ok());
  Join("c");  // after b, with a lower rank
  std::thread other([&] {
    nodes::BarrierRequest request = At("b");
    request.set_value("of b");
    nodes::BarrierResponse response;
    EXPECT_TRUE(Call(&nodes::Nodes::Stub::Barrier, request, response).ok());
  });
  nodes::BarrierRequest request = At("c");
  request.set_value(std::string("\0\xff", 2));
  nodes::BarrierResponse response;
  EXPECT_TRUE(Call(&nodes::Nodes::Stub::Barrier, request, response).ok());
  other.join();
  EXPECT_EQ(response.release(), 1u);
  ASSERT_EQ(response.passed_size(), 2);
  EXPECT_EQ(response.passed(0).rank(), 0u);
  EXPECT_EQ(response.passed(0).instance(), "c");
  EXPECT_EQ(response.passed(0).address(), "c:7000");
  EXPECT_EQ(response.passed(0).value(), std::string("\0\xff", 2));
  EXPECT_EQ(response.passed(1).rank(), 1u);
  EXPECT_EQ(response.passed(1).value(), "of b");
  request.set_value(std::string(1025, 'v'));
  EXPECT_EQ(Call(&nodes::Nodes::Stub::Barrier, request, response).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(NodeServiceTest, TheStartOfWorkWaitsForEnoughOfEachRole) {
  Join("a");
  nodes::BarrierRequest request = At("a");
  request.add_least()->set_role("ps");
  request.mutable_least(0)->set_nodes(1);
  nodes::BarrierResponse response;
  EXPECT_EQ(Call(&nodes::Nodes::Stub::Barrier, request, response, std::chrono::milliseconds(300))
                .error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);
  Join("p", "ps");
  EXPECT_TRUE(Call(&nodes::Nodes::Stub::Barrier, At("p"), response).ok());
  EXPECT_TRUE(Call(&nodes::Nodes::Stub::Barrier, request, response).ok());
  EXPECT_EQ(response.passed_size(), 2);
}

TEST_F(NodeServiceTest, ListsTheNodesAlsoByThePublishedClientSCall) {
  Join("p", "ps");
  Join("a");
  Join("b");
  EXPECT_TRUE(Leave("a").ok());
  Ticks(2);
  EXPECT_TRUE(Sign("b").ok());
  const nodes::ListResponse list = List();
  ASSERT_EQ(list.nodes_size(), 3);
  EXPECT_EQ(list.nodes(0).role(), "ps");
  EXPECT_EQ(list.nodes(0).ticks_since_sign(), 2u);
  EXPECT_EQ(list.nodes(1).phase(), nodes::Node::LEFT);
  EXPECT_EQ(list.nodes(2).address(), "b:7000");
  EXPECT_EQ(list.nodes(2).ticks_since_sign(), 0u);
  const auto published = proto::Master::NewStub(channel_);
  grpc::ClientContext context;
  proto::RunningNodes running;
  EXPECT_TRUE(published->query_running_nodes(&context, google::protobuf::Empty(), &running).ok());
  ASSERT_EQ(running.nodes_size(), 2);
  EXPECT_EQ(running.nodes(0).type(), "ps");
  EXPECT_EQ(running.nodes(1).addr(), "b:7000");
}

TEST_F(NodeServiceTest, RefusesWhatCannotBe) {
  nodes::JoinRequest request;
  request.set_role("Worker");
  request.set_instance("a");
  request.set_address("here");
  nodes::JoinResponse response;
  const grpc::Status refused = Call(&nodes::Nodes::Stub::Join, request, response);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(refused.error_message(), HasSubstr("not a role of nodes"));
}

TEST_F(NodeServiceTest, EndsTheCallsThatWaitWhenItEnds) {
  Join("a");
  Join("b");
  grpc::StatusCode code = grpc::StatusCode::OK;
  std::thread waits([&] {
    nodes::BarrierResponse response;
    code = Call(&nodes::Nodes::Stub::Barrier, At("a"), response).error_code();
  });
  while (arrived_ == 0) ASSERT_TRUE(Sign("b").ok());
  End();
  waits.join();
  EXPECT_EQ(code, grpc::StatusCode::UNAVAILABLE);
}

}  // namespace
}  // namespace millrace
