// What is refused: each by a Status that says what is wrong, and nothing is lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "job/job_registry.h"
#include "job/job_topics.h"
#include "job/kafka_options.h"
#include "kafka/producer.h"
#include "millrace/log.h"
#include "tests/client/client_fixture.h"
#include "topics/frame.h"
#include "topics/topics.h"

namespace millrace {
namespace {

using testing::Each;
using testing::HasSubstr;

constexpr auto kSequential = Training::Consistency::SEQUENTIAL;

class BadCallsTest : public ClientTest {
 protected:
  // What a program of another version has published before.
  void Publish(const std::string& key, const JobFeatures& features) {
    const std::atomic<bool> stop = false;
    ASSERT_TRUE(JobTopics(stop).Prepare(config_).ok());
    const auto producer =
        KafkaProducer::Create(ToKafkaOptions(config_), {.client_id = "other"}, nullptr);
    ASSERT_TRUE(producer.ok()) << producer.status();
    const std::string record = MakeFrames(features.SerializeAsString(), 0).front();
    const std::string topic = TopicName(config_.name(), Topic::kJob);
    ASSERT_TRUE((*producer)->Send(topic, 0, key, record).ok());
    ASSERT_TRUE((*producer)->Flush(std::chrono::seconds(20)).ok());
  }
  JobFeatures FeaturesOfOne(const std::string& name, uint64_t size) const {
    JobFeatures features;
    features.set_job(config_.name());
    features.set_epoch(1);
    features.set_workers(config_.workers());
    features.mutable_spec();
    NamedParameter& parameter = *features.add_parameters();
    parameter.set_name(name);
    parameter.add_shape(size);
    parameter.set_learning_rate_multiplier(1);
    parameter.set_decay_multiplier(1);
    return features;
  }
};

TEST_F(BadCallsTest, SettingsThatNoJobHas) {
  const auto connect = [&](auto change) {
    Settings settings = SettingsOf(0);
    change(settings);
    return ParameterManager::Connect(settings);
  };
  EXPECT_FAILS(connect([](Settings& s) { s.job = ""; }), Code::kInvalidArgument, "job");
  EXPECT_FAILS(connect([](Settings& s) { s.trainers = 0; }), Code::kInvalidArgument, "trainers");
  EXPECT_FAILS(connect([](Settings& s) { s.trainer = 1; }), Code::kInvalidArgument, "1 is not one");
  EXPECT_FAILS(connect([](Settings& s) { s.timeout_s = -1; }), Code::kInvalidArgument, "timeout");
  EXPECT_FAILS(connect([](Settings& s) { s.timeout_s = std::nan(""); }), Code::kInvalidArgument,
               "timeout");
  EXPECT_FAILS(connect([](Settings& s) {
                 s.kafka = {{"no.such.setting", "1"}};
               }),
               Code::kInvalidArgument, "no.such.setting");
  for (const std::string& name : {std::string("no name of a topic"), std::string("a\0b", 3),
                                  std::string(".."), std::string(201, 'a')}) {
    EXPECT_FAILS(connect([&](Settings& s) { s.job = name; }), Code::kInvalidArgument,
                 "use letters, digits");
  }
}

TEST_F(BadCallsTest, ABrokerThatIsNotThereOrAStop) {
  Settings settings = SettingsOf(0);
  settings.brokers = "127.0.0.1:1";
  settings.timeout_s = 0.5;
  EXPECT_FAILS(ParameterManager::Connect(settings), Code::kUnavailable, "127.0.0.1:1");
  const std::atomic<bool> stop = true;
  settings.stop = &stop;
  settings.timeout_s = 0;
  EXPECT_FAILS(ParameterManager::Connect(settings), Code::kCancelled, "stopped");
}

TEST_F(BadCallsTest, AreSaidToWhomWantsToKnow) {
  Settings settings = SettingsOf(0);
  settings.brokers = "127.0.0.1:1";
  settings.timeout_s = 0.5;
  testing::internal::CaptureStderr();
  EXPECT_FALSE(ParameterManager::Connect(settings).ok());
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "") << "it is quiet unless asked";
  std::mutex mutex;
  std::string lines;
  client::SetLog([&](std::string_view line) {
    const std::lock_guard<std::mutex> lock(mutex);
    lines.append(line).append("\n");
  });
  settings.brokers = "127.0.0.1:2";
  EXPECT_FALSE(ParameterManager::Connect(settings).ok());
  client::SetLog(nullptr);
  const std::lock_guard<std::mutex> lock(mutex);
  EXPECT_THAT(lines, HasSubstr("no connection to 127.0.0.1:2"));
}

TEST_F(BadCallsTest, ParametersThatNoJobHas) {
  const auto manager = Connect(0);
  EXPECT_FAILS(manager->Steps(), Code::kFailedPrecondition,
               "register a parameter or a table first");
  const auto refused = [&](const ParamSpec& spec, const char* words) {
    EXPECT_FAILS(manager->Register(spec), Code::kInvalidArgument, words);
  };
  refused({.name = ""}, "without a name");
  refused({.name = "w", .shape = {3, 0}}, "w: give each extent");
  refused({.name = "w", .shape = {-3}}, "w: give each extent");
  refused({.name = "w", .shape = {int64_t{1} << 62, 8}}, "w: give each extent");
  refused({.name = "w", .shape = {int64_t{1} << 40}}, "w: give each extent");
  refused({.name = "w", .shape = {int64_t{1} << 18, int64_t{1} << 18}},
          "w: there is not enough memory for it and its gradient, 549,755,813,888 bytes");
  refused({.name = "w", .shape = std::vector<int64_t>(33, 1)}, "32 extents at most");
  refused({.name = "w", .handler = "addd"}, "no handler addd");
  refused({.name = "w", .learning_rate_multiplier = std::nan("")}, "multipliers");
  refused({.name = "w", .decay_multiplier = -1}, "multipliers");
  ASSERT_WORKS(manager->Register({.name = "w"}));
  refused({.name = "w", .shape = {2}}, "w is there twice");
  StartServer();
  ASSERT_WORKS(manager->Steps());
  EXPECT_FAILS(manager->Register({.name = "late"}), Code::kFailedPrecondition, "has begun");
  EXPECT_FAILS(manager->Shard(1), Code::kInvalidArgument, "no parameter 1");
  EXPECT_FAILS(manager->Shard(-1), Code::kInvalidArgument, "no parameter -1");
}

TEST_F(BadCallsTest, ParametersOfAnotherManagerOrOfNone) {
  const auto manager = Connect(0);
  const auto other = Connect(0);
  ASSERT_WORKS(manager->Register({.name = "w"}));
  Param* const foreign = *other->Register({.name = "w"});
  EXPECT_FAILS(manager->Put(*foreign), Code::kInvalidArgument, "no parameter of this manager");
  EXPECT_FAILS(manager->Update(*foreign), Code::kInvalidArgument, "no parameter of this manager");
  EXPECT_FAILS(manager->Get(foreign), Code::kInvalidArgument, "no parameter of this manager");
  EXPECT_FAILS(manager->Collect(nullptr), Code::kInvalidArgument, "no parameter of this manager");
}

TEST_F(BadCallsTest, NumbersThatAreNoneLeaveTheOpenStepAsItWas) {
  StartServer();
  const Trainer trainer = Begin(0, {1, 1, 1, 1, 1}, "add");
  SetGrad(trainer.w, 6e17f);
  EXPECT_FAILS(trainer.manager->Update(*trainer.w), Code::kFailedPrecondition, "call Get");
  ASSERT_WORKS(trainer.manager->Get(trainer.w));
  ASSERT_WORKS(trainer.manager->Update(*trainer.w));
  for (const float bad : {std::nanf(""), -std::numeric_limits<float>::infinity(), 2e18f}) {
    trainer.w->grad()[3] = bad;
    EXPECT_FAILS(trainer.manager->Update(*trainer.w), Code::kInvalidArgument, "w: a NaN");
    trainer.w->data()[0] = bad;
    EXPECT_FAILS(trainer.manager->Put(*trainer.w), Code::kInvalidArgument, "w: a NaN");
  }
  trainer.w->grad()[3] = 6e17f;
  EXPECT_FAILS(trainer.manager->Update(*trainer.w), Code::kInvalidArgument, "sum");
  for (const double weight : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    EXPECT_FAILS(trainer.manager->Step(weight), Code::kInvalidArgument, "weight above 0");
  }
  ASSERT_WORKS(trainer.manager->Step());
  ASSERT_WORKS(trainer.manager->Collect(trainer.w));
  EXPECT_THAT(ValuesOf(trainer.w), Each(6e17f));
}

TEST_F(BadCallsTest, ShapesOrHandlersThatAreNotThoseOfTheOtherTrainers) {
  NewJob(2, kSequential);
  StartServer();
  const Trainer first = Begin(0, {1, 1, 1, 1, 1}, "add");
  const auto refused = [&](const ParamSpec& spec, const std::string& words) {
    const auto manager = Connect(1);
    Param* const param = *manager->Register(spec);
    EXPECT_FAILS(manager->Put(*param), Code::kOk, "");  // begins nothing
    EXPECT_FAILS(manager->Get(param), Code::kFailedPrecondition, words);
    EXPECT_FAILS(manager->Step(), Code::kFailedPrecondition, words);  // and again
  };
  refused({.name = "w", .shape = {6}, .handler = "add"}, "parameters[0].shape[0]: 5 -> 6");
  refused({.name = "w", .shape = {5, 1}, .handler = "add"}, "parameters[0].shape[1]");
  refused({.name = "v", .shape = {5}, .handler = "add"}, "parameters[0].name");
  refused({.name = "w", .shape = {5}, .handler = "sgd"}, "parameters[0].handler");
  // The job has not noticed.
  const Trainer second = Begin(1, {}, "add");
  ASSERT_WORKS(second.manager->Get(second.w));
  EXPECT_THAT(ValuesOf(second.w), Each(1));
}

TEST_F(BadCallsTest, ATrainerOfAnotherVersion) {
  JobFeatures newer = FeaturesOfOne("w", 5);
  NamedParameter& parameter = *newer.mutable_parameters(0);
  parameter.GetReflection()->MutableUnknownFields(&parameter)->AddVarint(1000, 7);
  const auto refuses = [&](const std::string& words) {
    const auto manager = Connect(0);
    ASSERT_WORKS(manager->Register({.name = "w", .shape = {5}}));
    EXPECT_FAILS(manager->Steps(), Code::kFailedPrecondition, words);
  };
  Publish("features:5-1", newer);
  refuses("another version of Millrace, with settings");
  NewJob(1, kSequential);
  Publish("features:6-1", FeaturesOfOne("w", 5));
  refuses("a program whose protocol is 6, and the protocol of this one is 5");
}

TEST_F(BadCallsTest, AJobWhoseServersLearnFromRows) {
  config_.mutable_training()->set_model(Training::SOFTMAX);
  const auto manager = Connect(0);
  ASSERT_WORKS(manager->Register({.name = "w", .shape = {5}}));
  // ServerApp does not begin: with these parameters it could not.
  JobTraining softmax;
  softmax.set_epoch(1);
  softmax.set_shards(2);
  const std::atomic<bool> stop = false;
  const auto registry = JobRegistry::Create(config_, stop);
  ASSERT_TRUE(registry.ok() && (*registry)->PublishTraining(softmax).ok());
  EXPECT_FAILS(manager->Steps(), Code::kInvalidArgument, "start ServerApp with --model external");
}

TEST_F(BadCallsTest, SettingsInTheJobTopicThatNoServerPublishes) {
  const auto manager = Connect(0);
  ASSERT_WORKS(manager->Register({.name = "w", .shape = {5}}));
  JobTraining training;
  training.set_epoch(1);
  training.set_shards(0);
  training.mutable_training()->set_model(Training::EXTERNAL);
  training.mutable_training()->mutable_update()->set_kind(Training::Update::GRADIENT);
  const std::atomic<bool> stop = false;
  const auto registry = JobRegistry::Create(config_, stop);
  ASSERT_TRUE(registry.ok() && (*registry)->PublishTraining(training).ok());
  EXPECT_FAILS(manager->Steps(), Code::kDataLoss, "0 shards");
}

TEST_F(BadCallsTest, AHandlerThatTheServerHasNotOnlyFailsWhoWaitsForThatServer) {
  const std::atomic<bool> stop = false;
  const auto registry = JobRegistry::Create(config_, stop);
  const auto begin = [&](ParameterManager& manager) {
    const auto w = manager.Register({.name = "w", .shape = {5}, .handler = "mine.not_here"});
    return StatusOfCall(w).ok() ? StatusOfCall(manager.Steps()) : StatusOfCall(w);
  };
  Settings settings = SettingsOf(0);
  bool is_refused = false;
  settings.while_waiting = [&] {
    if (is_refused) return;
    is_refused = true;
    EXPECT_TRUE((*registry)->PublishRefusal("no handler mine.not_here").ok());
  };
  EXPECT_FAILS(begin(**ParameterManager::Connect(settings)), Code::kFailedPrecondition,
               "a server refuses the job: no handler mine.not_here");
  settings.timeout_s = 0.5;
  EXPECT_FAILS(begin(**ParameterManager::Connect(settings)), Code::kDeadlineExceeded,
               "does ServerApp run?");
}

TEST_F(BadCallsTest, AnotherJobOrEpochIsWaitedForAndTheRunningOneNotDisturbed) {
  StartServer();
  const Trainer trainer = Begin(0, {1, 1, 1, 1, 1}, "add");
  Settings other = SettingsOf(0);
  other.epoch = 2;
  other.timeout_s = 0.5;
  const auto manager = std::move(*ParameterManager::Connect(other));
  ASSERT_WORKS(manager->Register({.name = "w", .shape = {7}}));
  EXPECT_FAILS(manager->Steps(), Code::kDeadlineExceeded, "epoch 2: does ServerApp run?");
  ASSERT_WORKS(trainer.manager->Get(trainer.w));
  EXPECT_THAT(ValuesOf(trainer.w), Each(1));
}

TEST_F(BadCallsTest, WhoIsAskedWhileACallWaitsMayStopIt) {
  std::atomic<bool> stop = false;
  int asked = 0;
  Settings settings = SettingsOf(0);
  settings.stop = &stop;
  settings.timeout_s = 0;
  settings.while_waiting = [&] { stop = ++asked >= 3; };
  const auto manager = std::move(*ParameterManager::Connect(settings));
  Param* const w = *manager->Register({.name = "w", .shape = {5}, .handler = "add"});
  ASSERT_WORKS(manager->Put(*w));
  EXPECT_FAILS(manager->Steps(), Code::kCancelled, "stopped");  // there are no servers
  EXPECT_EQ(asked, 3);
  StartServer();
  stop = false;
  asked = -10'000;
  ASSERT_WORKS(manager->Get(w));
  EXPECT_TRUE(server_->Stop().ok());
  asked = 0;
  ASSERT_WORKS(manager->Step());
  EXPECT_FAILS(manager->Get(w), Code::kCancelled, "stopped");  // they have stopped
  EXPECT_EQ(asked, 3);
}

TEST_F(BadCallsTest, AStopEndsAnyWaitAndTheCallCanBeMadeAgain) {
  NewJob(2, kSequential);
  StartServer();
  std::atomic<bool> stop = false;
  Settings settings = SettingsOf(0);
  settings.stop = &stop;
  const auto manager = std::move(*ParameterManager::Connect(settings));
  Param* const w = *manager->Register({.name = "w", .shape = {5}, .handler = "add"});
  ASSERT_WORKS(manager->Put(*w));
  ASSERT_WORKS(manager->Steps());
  std::thread stops([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    stop = true;
  });
  EXPECT_FAILS(manager->Get(w), Code::kCancelled, "stopped");  // the other has not begun
  stops.join();
  stop = false;
  const Trainer other = Begin(1, {}, "add");
  ASSERT_WORKS(manager->Get(w));
}

}  // namespace
}  // namespace millrace
