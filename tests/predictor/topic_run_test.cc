#include "predictor/topic_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "base/error_marks.h"
#include "predictor/http_server.h"
#include "predictor/model_folder.h"
#include "tests/exports/small_models.h"
#include "tests/formats/avro_bytes.h"
#include "tests/kafka/mock_cluster.h"
#include "tests/stores/temporary_folder.h"

namespace millrace {
namespace {

using nlohmann::json;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Not;

// (The mock cluster keeps no positions of transactions: what a second run does is tested on a real
// broker, in tests/end_to_end/test_predict_topic.py.)
class TopicRunTest : public ::testing::Test {
 protected:
  TopicRunTest() {
    cluster_.CreateTopic("rows", 3);
    cluster_.CreateTopic("answers", 2);
    Put(3);
    models_ = ModelFolder::Open(folder_ / "model").value();
    options_.kafka = cluster_.options();
    options_.input = "rows";
    options_.output = "answers";
    options_.quiet = true;
    options_.stop = &stop_;
  }
  ~TopicRunTest() override { Stop().IgnoreError(); }

  void Put(size_t classes) {
    const ExportedModel model = RandomModel(DescriptionFor(ModelShape::NETWORK, classes, false), 1);
    ASSERT_TRUE(Write(folder_ / "model", model).ok());
  }
  void Send(int32_t partition, std::string_view value) {
    auto producer = KafkaProducer::Create(cluster_.options(), {.client_id = "test"}, nullptr);
    ASSERT_TRUE((*producer)->Send("rows", partition, "key", value, 1234).ok());
    ASSERT_TRUE((*producer)->Flush(seconds(20)).ok());
  }
  // A schema registry that answers so; the run asks it.
  std::unique_ptr<HttpServer> Registry(const std::function<HttpResponse()>& answer) {
    HttpServerOptions options;
    options.address = "127.0.0.1:0";
    auto server = HttpServer::Start(options, [answer](const HttpRequest&) { return answer(); });
    EXPECT_TRUE(server.ok()) << server.status();
    options_.records.format = RecordScorer::Format::kAvro;
    options_.schemas.registry.url = "http://127.0.0.1:" + std::to_string((*server)->port());
    return *std::move(server);
  }
  Status RunToEnd() {
    options_.until_end = true;
    auto run = TopicRun::Create(*models_, options_);
    return run.ok() ? (*run)->Run() : run.status();
  }
  void Start() {
    run_ = TopicRun::Create(*models_, options_).value();
    thread_ = std::thread([this] { result_ = run_->Run(); });
  }
  Status Stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
    stop_ = false;
    return result_;
  }

  struct Answer {
    int32_t partition;
    std::string key;
    int64_t timestamp_ms;
    json value;
  };
  // Waits for so many in a topic.
  std::vector<Answer> Answers(size_t count, const std::string& topic = "answers",
                              int32_t partitions = 2) {
    auto consumer = PartitionConsumer::Create(
        cluster_.options(), {.client_id = "test", .read_committed = true}, topic, nullptr);
    for (int32_t i = 0; i < partitions; ++i) EXPECT_TRUE((*consumer)->Assign(i, 0).ok());
    std::vector<Answer> answers;
    ConsumerHandler handler;
    handler.on_record = [&](const ConsumedRecord& record) {
      answers.push_back({record.partition, std::string(record.key), record.timestamp_ms,
                         json::parse(record.value)});
      return absl::OkStatus();
    };
    EXPECT_TRUE(
        Until([&] { return (*consumer)->Poll(1000, handler).ok() && answers.size() >= count; }));
    EXPECT_EQ(answers.size(), count);
    return answers;
  }

  MockCluster cluster_;
  TemporaryFolder folder_;
  std::unique_ptr<ModelFolder> models_;
  TopicRun::Options options_;
  std::atomic<bool> stop_ = false;
  std::unique_ptr<TopicRun> run_;
  std::thread thread_;
  Status result_;
};

TEST_F(TopicRunTest, EachRecordGetsAnAnswerInItsPartitionModuloThoseOfTheOutput) {
  for (int32_t partition = 0; partition < 3; ++partition) {
    Send(partition, R"({"a": 1, "b": 2, "c": "x"})");
  }
  ASSERT_TRUE(RunToEnd().ok());
  for (const Answer& answer : Answers(3)) {
    EXPECT_EQ(answer.partition, answer.value["source"]["partition"].get<int32_t>() % 2);
    EXPECT_EQ(answer.key, "key");
    EXPECT_EQ(answer.timestamp_ms, 1234);
    EXPECT_EQ(answer.value["probabilities"].size(), 3u);
  }
}

TEST_F(TopicRunTest, AnswersToWhatHoldsNoRowMayHaveATopicOfTheirOwn) {
  cluster_.CreateTopic("errors", 1);
  options_.errors = "errors";
  Send(2, "{");
  Send(0, "{}");
  ASSERT_TRUE(RunToEnd().ok());
  EXPECT_EQ(Answers(1).at(0).value.contains("class"), true);
  const Answer error = Answers(1, "errors", 1).at(0);
  EXPECT_THAT(error.value["error"].get<std::string>(), HasSubstr("malformed JSON"));
  EXPECT_EQ(error.value["source"]["partition"], 2);
}

TEST_F(TopicRunTest, ANewerModelAnswersWhatComesNext) {
  Start();
  Send(0, "{}");
  EXPECT_EQ(Answers(1).at(0).value["probabilities"].size(), 3u);
  Put(4);
  ASSERT_TRUE(models_->Refresh().value());
  Send(0, "{}");
  EXPECT_EQ(Answers(2).at(1).value["probabilities"].size(), 4u);
  EXPECT_TRUE(absl::IsCancelled(Stop()));
}

TEST_F(TopicRunTest, ABrokerThatGoesAndComesLosesNothing) {
  Start();
  Send(0, "{}");
  Answers(1);
  cluster_.SetDown();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  cluster_.SetUp();
  Send(1, "{}");
  Answers(2);
}

TEST_F(TopicRunTest, RowsWithoutAnyOfTheColumnsAreSaidWhileTheRunGoesOn) {
  for (int i = 0; i < 10; ++i) Send(0, R"({"km": 3, "plane": {"id": "x"}})");
  testing::internal::CaptureStderr();
  Start();
  Answers(10);
  Stop().IgnoreError();
  EXPECT_THAT(
      testing::internal::GetCapturedStderr(),
      HasSubstr("none of the first 10 rows of rows has a value in any of the model's columns "
                "(\"a\", \"b\", \"c\"); the first such row has \"km\", \"plane.id\" instead. "));
}

TEST_F(TopicRunTest, RowsWithoutAnyOfTheColumnsAreSaidOfOneThatIsAll) {
  Send(0, R"({"km": 3})");
  testing::internal::CaptureStderr();
  EXPECT_TRUE(RunToEnd().ok());
  std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("none of the first 1 row of rows has a value"));
  EXPECT_THAT(said, Not(HasSubstr("column \"a\" had no value")));
  Send(0, R"({"a": 3})");
  testing::internal::CaptureStderr();
  options_.start = {};
  EXPECT_TRUE(RunToEnd().ok());
  said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, Not(HasSubstr("none of the first")));
  EXPECT_THAT(said, HasSubstr("column \"b\" had no value in any of the first"));
}

TEST_F(TopicRunTest, AvroWaitsForARegistryThatIsAway) {
  std::atomic<int> asked = 0;
  std::atomic<bool> is_away = true;
  const auto registry = Registry([&]() -> HttpResponse {
    ++asked;
    if (is_away) return {.status = 503, .body = "{}"};
    return {.body = json{{"schema", R"({"type": "record", "name": "R", "fields": [
        {"name": "a", "type": "double"}]})"}}
                        .dump()};
  });
  Start();
  Send(0, std::string("\0\0\0\0\7", 5) + AvroFloat(1.5));
  ASSERT_TRUE(Until([&] { return asked >= 2; }));
  // Whoever stops it meanwhile need not wait.
  EXPECT_TRUE(absl::IsCancelled(Stop()));
  Start();
  const int before = asked;
  ASSERT_TRUE(Until([&] { return asked > before; }));
  is_away = false;
  EXPECT_EQ(Answers(1).at(0).value["probabilities"].size(), 3u);
}

TEST_F(TopicRunTest, WhatBecomesOfRecordsOfASchemaThatCannotBeUsedIsSaid) {
  const auto registry = Registry([]() -> HttpResponse {
    return {.status = 404, .body = json{{"error_code", 40403}}.dump()};
  });
  Send(0, std::string("\0\0\0\0\7", 5) + AvroFloat(1.5));
  testing::internal::CaptureStderr();
  EXPECT_TRUE(RunToEnd().ok());
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("no such schema; each of its records gets an error in answers"));
  EXPECT_THAT(said, Not(HasSubstr("dead-letter")));
}

TEST_F(TopicRunTest, AnswersToWhatWasReadBeforeDoNotWaitForARegistryThatHangs) {
  std::atomic<bool> goes_on = false;
  const char schema[] =
      R"({"type": "record", "name": "R", "fields": [{"name": "a", "type": "double"}]})";
  std::atomic<int> asked = 0;
  std::atomic<std::chrono::steady_clock::time_point> hangs_since;
  const auto registry = Registry([&]() -> HttpResponse {
    if (asked++ > 0) {
      hangs_since = std::chrono::steady_clock::now();
      Until([&] { return goes_on.load(); });
    }
    return {.body = json{{"schema", schema}}.dump()};
  });
  // Together, and in one fetch: the second is met while the first is in no transaction yet.
  Send(0, std::string("\0\0\0\0\7", 5) + AvroFloat(1.5));
  Send(0, std::string("\0\0\0\0\10", 5) + AvroFloat(1.5));
  options_.linger = std::chrono::milliseconds(500);
  Start();
  EXPECT_EQ(Answers(1).at(0).value["source"]["offset"], 0);
  EXPECT_EQ(asked, 2);
  // Nor did they wait until the question had taken as long as one may.
  EXPECT_LT(std::chrono::steady_clock::now() - hangs_since.load(), seconds(9));
  goes_on = true;
  EXPECT_EQ(Answers(2).size(), 2u);
}

TEST_F(TopicRunTest, ACommitThatIsNotAnsweredEndsTheRunWhenTheBrokerTimeoutSaysSo) {
  cluster_.Fail(Request::kEndTransaction, RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS, 1000);
  options_.kafka.broker_timeout_s = 1;
  Send(0, "{}");
  const Status status = RunToEnd();
  EXPECT_TRUE(IsAway(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("--broker-timeout is 1 s"));
}

TEST_F(TopicRunTest, AnAnswerThatIsRefusedEndsTheRunWithTheRecordAndTheSetting) {
  Send(2, "{}");
  cluster_.Fail(Request::kProduce, {RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP});
  const Status status = RunToEnd();
  EXPECT_TRUE(IsPermanent(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("the output topic answers refuses the answer to rows [2] offset 0"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("message.timestamp.before.max.ms"));
}

TEST_F(TopicRunTest, TopicsThatAreNotThereAreNamedWithTheRemedy) {
  cluster_.Forget("answers");
  Status status = RunToEnd();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("create it; with 3 partitions"));
}

TEST_F(TopicRunTest, SettingsThatMakeNoSenseAreRefusedBeforeAnyBroker) {
  const auto refusal = [&] {
    const Status status = TopicRun::Create(*models_, options_).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  options_.records.columns = {"a"};
  EXPECT_THAT(refusal(), HasSubstr("needs --format csv"));
  options_.records.format = RecordScorer::Format::kCsv;
  EXPECT_THAT(refusal(), HasSubstr("--columns has no column"));
  options_.records.columns.clear();
  EXPECT_THAT(refusal(), HasSubstr("--columns A,B"));
  options_.records.format = RecordScorer::Format::kAvro;
  EXPECT_THAT(refusal(), HasSubstr("--format avro needs the schemas"));
  options_.records.with_row = true;
  EXPECT_THAT(refusal(), HasSubstr("--with-row has no effect with --format avro"));
  options_.records.format = RecordScorer::Format::kJson;
  options_.schemas.avro_schema_file = "x";
  EXPECT_THAT(refusal(), HasSubstr("need --format avro"));
  options_.output = "rows";
  EXPECT_THAT(refusal(), HasSubstr("--output-topic is the --input-topic"));
}

}  // namespace
}  // namespace millrace
