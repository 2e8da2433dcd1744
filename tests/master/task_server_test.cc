// What trainers call, over the loopback; the loop has no Kafka.
#include "master/task_server.h"

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

#include "messages/elasticai.grpc.pb.h"

namespace millrace {
namespace {

using testing::HasSubstr;

class TaskServerTest : public testing::Test {
 protected:
  explicit TaskServerTest(const TaskServerOptions& options = {}) : options_(options) {
    desk_.Open(Offset(0), manager_);
    node_desk_.Open(Offset(0), nodes_);
    options_.address = "127.0.0.1:0";
    options_.timeout_ticks = 60;
    auto server = TaskServer::Start(options_, desk_, node_desk_);
    EXPECT_EQ(server.status(), absl::OkStatus());
    server_ = *std::move(server);
    stub_ = proto::Master::NewStub(grpc::CreateChannel(
        "127.0.0.1:" + std::to_string(server_->port()), grpc::InsecureChannelCredentials()));
    loop_ = std::thread([this] {
      while (!ends_) {
        for (const TaskCommand& command : desk_.TakeCommands(manager_)) {
          (void)manager_.Apply(command, 0);
        }
        desk_.Answer(manager_);
        for (const NodeCommand& command : node_desk_.TakeCommands(nodes_)) nodes_.Apply(command);
        node_desk_.Answer(nodes_);
        wakeup_.WaitFor(std::chrono::milliseconds(10));
      }
    });
  }
  ~TaskServerTest() override {
    ends_ = true;
    loop_.join();
    server_.reset();
  }

  template <typename Request, typename Response>
  using Method = grpc::Status (proto::Master::Stub::*)(grpc::ClientContext*, const Request&,
                                                       Response*);
  template <typename Request, typename Response>
  grpc::Status Call(Method<Request, Response> method, const Request& request, Response& response) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(2));
    return (stub_.get()->*method)(&context, request, &response);
  }

  static proto::ReportDatasetShardParamsRequest Params() {
    proto::ReportDatasetShardParamsRequest params;
    params.set_dataset_name("rows");
    params.set_batch_size(5);
    params.set_num_minibatches_per_shard(2);
    params.set_num_epochs(1);
    params.set_dataset_size(25);
    params.set_task_type(proto::TRAINING);
    return params;
  }
  grpc::Status Begin(const proto::ReportDatasetShardParamsRequest& params = Params()) {
    google::protobuf::Empty nothing;
    return Call(&proto::Master::Stub::report_dataset_shard_params, params, nothing);
  }
  proto::Task Get(int worker = 0) {
    proto::GetDatasetTaskRequest request;
    request.set_dataset_name("rows");
    request.set_worker_id(worker);
    request.set_worker_type("worker");
    proto::Task task;
    EXPECT_TRUE(Call(&proto::Master::Stub::get_dataset_task, request, task).ok());
    return task;
  }
  void Report(int task, const std::string& failure = "") {
    proto::ReportDatasetTaskResultRequest request;
    request.set_dataset_name("rows");
    request.set_task_id(task);
    request.set_err_message(failure);
    google::protobuf::Empty nothing;
    EXPECT_TRUE(Call(&proto::Master::Stub::report_dataset_task_result, request, nothing).ok());
  }
  std::string Checkpoint() {
    proto::GetShardCheckpointRequest request;
    request.set_dataset_name("rows");
    proto::ShardCheckpoint checkpoint;
    EXPECT_TRUE(Call(&proto::Master::Stub::get_shard_checkpoint, request, checkpoint).ok());
    return checkpoint.content();
  }
  bool Restore(const std::string& content) {
    proto::ShardCheckpoint checkpoint;
    checkpoint.set_content(content);
    proto::ReportShardCheckpointResponse response;
    EXPECT_TRUE(Call(&proto::Master::Stub::report_shard_checkpoint, checkpoint, response).ok());
    return response.success();
  }
  int Epoch() {
    proto::GetDatasetEpochRequest request;
    request.set_dataset_name("rows");
    proto::GetDatasetEpochResponse response;
    EXPECT_TRUE(Call(&proto::Master::Stub::get_dataset_epoch, request, response).ok());
    return response.epoch();
  }

  TaskServerOptions options_;
  Wakeup wakeup_;
  TaskManager manager_;  // the loop's, until it has ended
  TaskDesk desk_{wakeup_};
  JobNodes nodes_;  // the loop's, too
  NodeDesk node_desk_{wakeup_};
  std::unique_ptr<TaskServer> server_;
  std::unique_ptr<proto::Master::Stub> stub_;
  std::atomic<bool> ends_ = false;
  std::thread loop_;
};

TEST_F(TaskServerTest, DealsOutASetUntilItIsDone) {
  ASSERT_TRUE(Begin().ok());
  EXPECT_EQ(Epoch(), 0);
  for (const int begin : {0, 10, 20}) {
    const proto::Task task = Get();
    EXPECT_EQ(task.type(), proto::TRAINING);
    EXPECT_GT(task.task_id(), 0);
    EXPECT_EQ(task.shard().name(), "rows");
    EXPECT_EQ(task.shard().start(), begin);
    EXPECT_EQ(task.shard().end(), begin == 20 ? 25 : begin + 10);
    EXPECT_EQ(Epoch(), 1);
    Report(task.task_id());
  }
  const proto::Task end = Get();
  EXPECT_EQ(end.type(), proto::NONE);
  EXPECT_EQ(end.shard().end() - end.shard().start(), 0);
}

class FollowedTaskServerTest : public TaskServerTest {
 protected:
  static TaskServerOptions Followed() {
    TaskServerOptions options;
    options.evaluation_records = 15;
    options.end_task = true;
    return options;
  }
  FollowedTaskServerTest() : TaskServerTest(Followed()) {}

  proto::Task GetTask(proto::TaskType type) {
    proto::GetTaskRequest request;
    request.set_dataset_name("rows");
    request.set_task_type(type);
    proto::Task task;
    EXPECT_TRUE(Call(&proto::Master::Stub::get_task, request, task).ok());
    return task;
  }
  void ReportTask(int task) {
    proto::ReportTaskResultRequest request;
    request.set_dataset_name("rows");
    request.set_task_id(task);
    google::protobuf::Empty nothing;
    EXPECT_TRUE(Call(&proto::Master::Stub::report_task_result, request, nothing).ok());
  }
};

TEST_F(FollowedTaskServerTest, WhoAsksForAnyTaskGetsEvaluationsAndTheTaskAtTheEnd) {
  ASSERT_TRUE(Begin().ok());
  EXPECT_EQ(GetTask(proto::EVALUATION).type(), proto::WAIT);
  for (int i = 0; i < 3; ++i) {
    const proto::Task task = GetTask(proto::NONE);
    EXPECT_EQ(task.type(), proto::TRAINING);
    ReportTask(task.task_id());
  }
  for (const int begin : {0, 10}) {
    const proto::Task task = GetTask(begin == 0 ? proto::NONE : proto::EVALUATION);
    EXPECT_EQ(task.type(), proto::EVALUATION);
    EXPECT_EQ(task.model_version(), 1);
    EXPECT_EQ(task.shard().name(), "rows/evaluation");
    EXPECT_EQ(task.shard().start(), begin);
    EXPECT_EQ(task.shard().end(), begin == 0 ? 10 : 15);
    ReportTask(task.task_id());
  }
  EXPECT_EQ(GetTask(proto::EVALUATION).type(), proto::NONE);
  const proto::Task end = GetTask(proto::TRAIN_END_CALLBACK);
  EXPECT_EQ(end.type(), proto::TRAIN_END_CALLBACK);
  EXPECT_EQ(end.shard().name(), "rows");
  EXPECT_EQ(end.shard().end(), 10);
  ReportTask(end.task_id());
  EXPECT_EQ(GetTask(proto::NONE).type(), proto::NONE);
}

TEST_F(FollowedTaskServerTest, ThePublishedClientGetsTrainingTasksAlone) {
  ASSERT_TRUE(Begin().ok());
  for (int i = 0; i < 3; ++i) {
    const proto::Task task = Get();
    EXPECT_EQ(task.type(), proto::TRAINING);
    Report(task.task_id());
  }
  EXPECT_EQ(Get().type(), proto::NONE);
}

TEST_F(FollowedTaskServerTest, NothingFollowsASetThatIsNoneOfTraining) {
  proto::ReportDatasetShardParamsRequest params = Params();
  params.set_task_type(proto::EVALUATION);
  params.set_dataset_size(10);
  ASSERT_TRUE(Begin(params).ok());
  const proto::Task task = GetTask(proto::NONE);
  EXPECT_EQ(task.type(), proto::EVALUATION);
  ReportTask(task.task_id());
  EXPECT_EQ(GetTask(proto::NONE).type(), proto::NONE);
}

TEST_F(TaskServerTest, KeepsWhoAsksWaitingUntilATaskComesBack) {
  proto::ReportDatasetShardParamsRequest params = Params();
  params.set_dataset_size(10);
  ASSERT_TRUE(Begin(params).ok());
  const proto::Task first = Get(0);
  std::atomic<bool> is_answered = false;
  std::thread other([&] {
    const proto::Task again = Get(1);
    is_answered = true;
    EXPECT_EQ(again.shard().end(), 10);
    Report(again.task_id());
  });
  EXPECT_FALSE(is_answered);
  Report(first.task_id(), "out of memory");
  other.join();
  EXPECT_EQ(Get(0).type(), proto::NONE);
}

TEST_F(TaskServerTest, GivesNothingToWhoHasHungUp) {
  proto::ReportDatasetShardParamsRequest params = Params();
  params.set_dataset_size(10);
  ASSERT_TRUE(Begin(params).ok());
  const proto::Task first = Get(0);
  proto::GetDatasetTaskRequest request;
  request.set_dataset_name("rows");
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(50));
  proto::Task task;
  EXPECT_EQ(stub_->get_dataset_task(&context, request, &task).error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);
  Report(first.task_id(), "failed");
  EXPECT_EQ(Get(2).shard().end(), 10);
}

TEST_F(TaskServerTest, ACheckpointIsWhereTheSetGoesOn) {
  ASSERT_TRUE(Begin().ok());
  Report(Get().task_id());
  Get();
  const std::string checkpoint = Checkpoint();
  Get();
  EXPECT_TRUE(Restore(checkpoint));
  EXPECT_EQ(Get().shard().start(), 10);
  EXPECT_EQ(Get().shard().start(), 20);
  EXPECT_FALSE(Restore("{}"));
  proto::ResetDatasetRequest reset;
  reset.set_dataset_name("rows");
  google::protobuf::Empty nothing;
  EXPECT_TRUE(Call(&proto::Master::Stub::reset_dataset, reset, nothing).ok());
  EXPECT_EQ(Get().shard().start(), 0);
}

TEST_F(TaskServerTest, TakesTheClientSWordsForWhatTheyMean) {
  proto::ReportDatasetShardParamsRequest params = Params();
  params.clear_num_minibatches_per_shard();
  params.set_dataset_size(1'003);
  params.set_remainder("drop");
  params.set_shuffle_shards(true);
  ASSERT_TRUE(Begin(params).ok());
  const std::string checkpoint = Checkpoint();
  EXPECT_THAT(checkpoint, HasSubstr("\"dataset_size\":1000,\"records_per_task\":500"));
  EXPECT_THAT(checkpoint, HasSubstr("\"shuffle_shards\":true"));
  EXPECT_THAT(checkpoint, HasSubstr("\"task_timeout\":60"));
  // Without a name the training data are meant.
  params.clear_dataset_name();
  ASSERT_TRUE(Begin(params).ok());
  proto::GetTaskRequest request;
  proto::Task task;
  EXPECT_TRUE(Call(&proto::Master::Stub::get_task, request, task).ok());
  EXPECT_EQ(task.shard().end() - task.shard().start(), 500);
}

TEST_F(TaskServerTest, RefusesASetThatCannotBe) {
  proto::ReportDatasetShardParamsRequest params = Params();
  params.set_dataset_size(-1);
  const grpc::Status refused = Begin(params);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(refused.error_message(), HasSubstr("records of the data set rows"));
  params = Params();
  params.set_num_epochs(-1);
  EXPECT_FALSE(Begin(params).ok());
  params = Params();
  params.set_batch_size(0);
  EXPECT_FALSE(Begin(params).ok());
}

TEST_F(TaskServerTest, RefusesASetTooMany) {
  proto::ReportDatasetShardParamsRequest params = Params();
  for (int i = 0; i < 100; ++i) {
    params.set_dataset_name("s" + std::to_string(i));
    ASSERT_TRUE(Begin(params).ok());
  }
  const grpc::Status refused = Begin();
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(refused.error_message(), HasSubstr("100 data sets"));
}

TEST_F(TaskServerTest, AnswersWhatTheClientSaysOfItselfAndRefusesWhatIsNotServed) {
  google::protobuf::Empty nothing;
  EXPECT_TRUE(
      Call(&proto::Master::Stub::report_used_resource, proto::ReportUsedResourceRequest(), nothing)
          .ok());
  proto::GetCommRankResponse rank;
  EXPECT_EQ(
      Call(&proto::Master::Stub::get_comm_rank, proto::GetCommRankRequest(), rank).error_code(),
      grpc::StatusCode::UNIMPLEMENTED);
}

TEST_F(TaskServerTest, EndsTheCallsThatWaitWhenItEnds) {
  grpc::StatusCode code = grpc::StatusCode::OK;
  std::thread waits([&] {
    proto::GetDatasetTaskRequest request;
    request.set_dataset_name("no such set");
    proto::Task task;
    code = Call(&proto::Master::Stub::get_dataset_task, request, task).error_code();
  });
  ASSERT_TRUE(Begin().ok());  // it serves
  ends_ = true;
  loop_.join();
  loop_ = std::thread([] {});
  server_.reset();
  waits.join();
  EXPECT_EQ(code, grpc::StatusCode::UNAVAILABLE);
}

TEST_F(TaskServerTest, CannotListenWhereAnotherDoes) {
  TaskServerOptions options;
  options.address = "127.0.0.1:" + std::to_string(server_->port());
  Wakeup wakeup;
  TaskDesk desk(wakeup);
  NodeDesk node_desk(wakeup);
  const auto second = TaskServer::Start(options, desk, node_desk);
  EXPECT_TRUE(absl::IsUnavailable(second.status()));
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("--master-address"));
}

}  // namespace
}  // namespace millrace
