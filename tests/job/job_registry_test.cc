#include "job/job_registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <barrier>
#include <thread>

#include "base/clock.h"
#include "job/begun_by.h"
#include "job/layout_in_force.h"
#include "kafka/producer.h"
#include "tests/kafka/mock_cluster.h"
#include "topics/frame.h"
#include "topics/protocol.h"
#include "topics/topics.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

class JobRegistryTest : public testing::Test {
 protected:
  JobRegistryTest() {
    config_.set_name("registry");
    config_.set_brokers(cluster_.options().brokers);
    cluster_.CreateTopic(TopicName("registry", Topic::kJob), 1);
  }

  std::unique_ptr<JobRegistry> Open() {
    StatusOr<std::unique_ptr<JobRegistry>> registry = JobRegistry::Create(config_, stop_);
    EXPECT_TRUE(registry.ok()) << registry.status();
    return *std::move(registry);
  }

  JobTraining TrainingWith(uint32_t batch_rows) const {
    JobTraining training;
    training.set_epoch(config_.epoch());
    training.set_shards(2);
    training.mutable_training()->set_batch_rows(batch_rows);
    return training;
  }

  // As a program of any version.
  void Write(const std::string& key, const google::protobuf::Message& message) {
    auto producer = KafkaProducer::Create(cluster_.options(), {.client_id = "other"}, nullptr);
    const std::string topic = TopicName("registry", Topic::kJob);
    const std::string record = MakeFrames(message.SerializeAsString(), 0).front();
    ASSERT_TRUE((*producer)->Send(topic, 0, key, record).ok());
    ASSERT_TRUE((*producer)->Flush(std::chrono::seconds(20)).ok());
  }

  MockCluster cluster_;
  JobConfig config_;
  std::atomic<bool> stop_ = false;
};

void ExpectRefused(const Status& status, const std::string& words) {
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(words));
}

TEST(LayoutsOf, TheNextLayoutIsInForceWhenAllShardsOfTheLastAreSealed) {
  SealedShards sealed;
  EXPECT_THAT(LayoutsOf(2, sealed), testing::ElementsAre(2));
  sealed[0][ShardId(0)] = 3;
  EXPECT_THAT(LayoutsOf(2, sealed), testing::ElementsAre(2));
  sealed[0][ShardId(1)] = 3;
  EXPECT_THAT(LayoutsOf(2, sealed), testing::ElementsAre(2, 3));
  sealed[0][ShardId(2)] = 7;  // there is none
  EXPECT_THAT(LayoutsOf(2, sealed), testing::ElementsAre(2, 3));
  sealed[2][ShardId(0)] = 4;  // before layout 1 is sealed
  for (ShardId shard = 0; shard < 3; ++shard) sealed[1][shard] = 1;
  EXPECT_THAT(LayoutsOf(2, sealed), testing::ElementsAre(2, 3, 1, 4));
}

TEST(LayoutsOf, ShardsThatContradictEachOtherSealNothing) {
  const SealedShards sealed = {{0, {{ShardId(0), 3}, {ShardId(1), 4}}}};
  EXPECT_THAT(LayoutsOf(2, sealed), testing::ElementsAre(2));
}

TEST_F(JobRegistryTest, TheLayoutOfShardsIsWhatAllSealedShardsHaveSaid) {
  const std::unique_ptr<JobRegistry> registry = Open();
  EXPECT_THAT(registry->ReadLayouts().value(), testing::IsEmpty());
  ASSERT_TRUE(registry->PublishTraining(TrainingWith(1)).ok());
  EXPECT_THAT(registry->ReadLayouts().value(), testing::ElementsAre(2));
  ASSERT_TRUE(registry->PublishSealed(0, ShardId(1), 5).ok());
  ASSERT_TRUE(registry->PublishSealed(0, ShardId(1), 5).ok());  // again
  EXPECT_THAT(registry->ReadLayouts().value(), testing::ElementsAre(2));
  ASSERT_TRUE(registry->PublishSealed(0, ShardId(0), 5).ok());
  const std::unique_ptr<JobRegistry> late = Open();
  EXPECT_THAT(late->ReadLayouts().value(), testing::ElementsAre(2, 5));
  JobConfig config;
  JobTraining training = TrainingWith(1);
  EXPECT_THAT(FollowLayout(*late, config, training).value(), testing::ElementsAre(2, 5));
  EXPECT_EQ(config.layout(), 1u);
  EXPECT_EQ(training.layout(), 1u);
  EXPECT_EQ(training.shards(), 5u);
  // Who begins with the settings of the job's beginning does not contradict it.
  EXPECT_TRUE(late->PublishTraining(TrainingWith(1)).ok());
}

TEST_F(JobRegistryTest, WhoWorksWithALayoutLearnsThatALaterOneIsInForce) {
  const std::unique_ptr<JobRegistry> registry = Open();
  EXPECT_FALSE(*IsNextLayoutInForce(*registry, 0)) << "the job has not begun";
  ASSERT_TRUE(registry->PublishTraining(TrainingWith(1)).ok());
  ASSERT_TRUE(registry->PublishSealed(0, ShardId(0), 1).ok());
  EXPECT_FALSE(*IsNextLayoutInForce(*registry, 0));
  ASSERT_TRUE(registry->PublishSealed(0, ShardId(1), 1).ok());
  EXPECT_TRUE(*IsNextLayoutInForce(*registry, 0));
  EXPECT_FALSE(*IsNextLayoutInForce(*registry, 1));
  ASSERT_TRUE(registry->PublishSealed(1, ShardId(0), 4).ok());
  EXPECT_TRUE(*IsNextLayoutInForce(*registry, 0)) << "it has missed one";
  EXPECT_TRUE(*IsNextLayoutInForce(*registry, 1));
}

TEST_F(JobRegistryTest, SealsOfShardsThatNoJobHasAreIgnored) {
  const std::unique_ptr<JobRegistry> registry = Open();
  JobTraining training = TrainingWith(1);
  training.set_shards(1);
  ASSERT_TRUE(registry->PublishTraining(training).ok());
  for (const uint32_t next : {0u, kMostShards + 1}) {
    ASSERT_TRUE(registry->PublishSealed(0, ShardId(0), next).ok());
    EXPECT_THAT(registry->ReadLayouts().value(), testing::ElementsAre(1));
  }
}

TEST_F(JobRegistryTest, WhatIsPublishedIsReadByThoseWhoCameBeforeAndAfter) {
  const std::unique_ptr<JobRegistry> early = Open();
  EXPECT_EQ(*early->ReadTraining(), std::nullopt);
  ASSERT_TRUE(Open()->PublishTraining(TrainingWith(7)).ok());
  EXPECT_EQ(early->WaitForTraining()->training().batch_rows(), 7u);
  EXPECT_EQ(Open()->ReadTraining()->value().training().batch_rows(), 7u);
  EXPECT_EQ(*Open()->ReadFeatures(), std::nullopt);
  EXPECT_THAT(*Open()->ReadEnded(), testing::IsEmpty());
}

TEST_F(JobRegistryTest, TheFirstWhoPublishedTheTrainingSettingsDidSoAtATimeThatAllKnow) {
  const int64_t before_ms = NowMs();
  const std::unique_ptr<JobRegistry> first = Open();
  EXPECT_EQ(first->training_published_ms(), 0);
  ASSERT_TRUE(first->PublishTraining(TrainingWith(7)).ok());
  const int64_t published_ms = first->training_published_ms();
  EXPECT_GE(published_ms, before_ms);
  EXPECT_LE(published_ms, NowMs());
  std::this_thread::sleep_for(std::chrono::milliseconds(5));  // or the second would say the same
  Write("training:2", TrainingWith(7));
  const std::unique_ptr<JobRegistry> second = Open();
  ASSERT_TRUE(second->ReadTraining().ok());
  EXPECT_EQ(second->training_published_ms(), published_ms);
}

TEST_F(JobRegistryTest, PublishingSomethingElseIsAnErrorThatNamesTheField) {
  ASSERT_TRUE(Open()->PublishTraining(TrainingWith(7)).ok());
  ASSERT_TRUE(Open()->PublishTraining(TrainingWith(7)).ok());
  const Status other = Open()->PublishTraining(TrainingWith(8));
  EXPECT_TRUE(absl::IsFailedPrecondition(other)) << other;
  EXPECT_THAT(std::string(other.message()), HasSubstr("training.batch_rows: 7 -> 8"));
  EXPECT_EQ(Open()->ReadTraining()->value().training().batch_rows(), 7u);
}

TEST_F(JobRegistryTest, RecordsOfStrangersHarmNobody) {
  ASSERT_TRUE(Open()->PublishTraining(TrainingWith(7)).ok());
  auto producer = KafkaProducer::Create(cluster_.options(), {.client_id = "stranger"}, nullptr);
  ASSERT_TRUE(producer.ok());
  for (const char* key : {"training:1", "features:1", "ended:x", "foo:1", ""}) {
    ASSERT_TRUE((*producer)->Send(TopicName("registry", Topic::kJob), 0, key, "garbage").ok());
  }
  ASSERT_TRUE((*producer)->Flush(std::chrono::seconds(20)).ok());
  EXPECT_EQ(Open()->ReadTraining()->value().training().batch_rows(), 7u);
  EXPECT_EQ(*Open()->ReadFeatures(), std::nullopt);
  EXPECT_THAT(*Open()->ReadEnded(), testing::IsEmpty());
}

constexpr char kOfProtocol9[] =
    "the job registry was begun by a program whose protocol is 9, and the protocol of this one is "
    "5: "
    "let all programs of the job have the same version of Millrace, or start a new job";

TEST_F(JobRegistryTest, AJobThatAnotherProtocolBeganIsRefusedWhateverIsReadOrPublished) {
  Write("training:9-1", TrainingWith(7));
  ASSERT_FALSE(Open()->ReadTraining().ok()) << "or who waits below waits for ever";
  ExpectRefused(Open()->ReadTraining().status(), kOfProtocol9);
  ExpectRefused(Open()->WaitForTraining().status(), kOfProtocol9);
  ExpectRefused(Open()->ReadFeatures().status(), kOfProtocol9);
  ExpectRefused(Open()->WaitForFeatures().status(), kOfProtocol9);
  ExpectRefused(Open()->PublishTraining(TrainingWith(7)), kOfProtocol9);
  ExpectRefused(Open()->Generation().status(), kOfProtocol9);
  JobFeatures features;
  features.set_epoch(config_.epoch());
  ExpectRefused(Open()->PublishFeatures(features), kOfProtocol9);
  config_.set_epoch(2);
  EXPECT_EQ(*Open()->ReadTraining(), std::nullopt) << "another epoch is another job";
  features.set_epoch(2);
  Write("features:9-2", features);
  ExpectRefused(Open()->WaitForTraining().status(), kOfProtocol9);
}

TEST_F(JobRegistryTest, WhoWaitsIsToldThatAnotherProtocolBeginsTheJob) {
  Status waited;
  std::thread waits([&] { waited = Open()->WaitForTraining().status(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  Write("training:9-1", TrainingWith(7));
  waits.join();
  ExpectRefused(waited, kOfProtocol9);
}

TEST_F(JobRegistryTest, WhoBeginsAJobSaysItsProtocolAndLaterOnesOfOthersDoNotCount) {
  ASSERT_TRUE(Open()->PublishTraining(TrainingWith(7)).ok());
  Write("training:9-1", TrainingWith(7));
  EXPECT_EQ(Open()->ReadTraining()->value().training().batch_rows(), 7u);
}

TEST_F(JobRegistryTest, AKeyThatSaysNothingIsOfTheFirstProtocol) {
  Write("training:77", TrainingWith(8));
  ExpectRefused(Open()->ReadTraining().status(),
                "the job registry was begun by a program whose protocol is 1, and the protocol of "
                "this one is 5");
}

TEST_F(JobRegistryTest, AJobOfWhichMoreIsSaidThanThisVersionKnowsIsRefused) {
  JobTraining newer = TrainingWith(7);
  Training& training = *newer.mutable_training();
  training.GetReflection()->MutableUnknownFields(&training)->AddVarint(1000, 7);
  Write("training:5-1", newer);
  ExpectRefused(Open()->WaitForTraining().status(),
                "the job registry was begun by another version of Millrace, with settings");
}

TEST(BegunBy, TheKeyOfEachChunkNamesTheProtocol) {
  EXPECT_EQ(BeginKey("features", 77), "features:5-77");
  EXPECT_EQ(ProtocolOfKey(BeginKey("features", 77)).value(), kProtocol);
  EXPECT_EQ(ProtocolOfKey("features:12-77:3").value(), 12u);
  for (const char* before : {"features:77", "features:77:3", "features:", "features", ""}) {
    EXPECT_EQ(ProtocolOfKey(before).value(), 1u) << before;
  }
  for (const char* bad : {"features:-77", "features:0-77", "features:x-77", "features:1x-77",
                          "features:4294967296-77"}) {
    EXPECT_FALSE(ProtocolOfKey(bad).ok()) << bad;
  }
}

TEST_F(JobRegistryTest, AnotherEpochIsAnotherJob) {
  ASSERT_TRUE(Open()->PublishTraining(TrainingWith(7)).ok());
  ASSERT_TRUE(Open()->PublishEnded(0).ok());
  ASSERT_TRUE(Open()->PublishEnded(0).ok());
  EXPECT_THAT(*Open()->ReadEnded(), testing::ElementsAreArray<ShardId>({0}));
  ASSERT_TRUE(Open()->PublishEnded(1).ok());
  EXPECT_THAT(*Open()->ReadEnded(), testing::ElementsAreArray<ShardId>({0, 1}));
  config_.set_epoch(2);
  EXPECT_THAT(*Open()->ReadEnded(), testing::IsEmpty());
  EXPECT_EQ(*Open()->ReadTraining(), std::nullopt);
  ASSERT_TRUE(Open()->PublishTraining(TrainingWith(8)).ok());
}

TEST_F(JobRegistryTest, OfEachServersOffersTheLastCounts) {
  const auto publish = [&](uint32_t server, const std::string& address) {
    ReplicaOffer offer;
    offer.set_epoch(config_.epoch());
    offer.set_server(server);
    offer.add_shard(server + 1);
    offer.set_address(address);
    ASSERT_TRUE(Open()->PublishOffer(offer).ok());
  };
  EXPECT_TRUE(Open()->ReadOffers()->empty());
  publish(3, "b:1");
  publish(0, "a:1");
  publish(3, "b:2");
  const std::vector<ReplicaOffer> offers = *Open()->ReadOffers();
  ASSERT_EQ(offers.size(), 2u);
  EXPECT_EQ(offers[0].address(), "a:1");
  EXPECT_EQ(offers[1].address(), "b:2");
  EXPECT_EQ(offers[1].shard(0), 4u);
  config_.set_epoch(2);
  EXPECT_TRUE(Open()->ReadOffers()->empty()) << "of another epoch";
}

TEST_F(JobRegistryTest, FeaturesThatAreLargerThanARecordArePublishedInParts) {
  JobFeatures features;
  features.set_epoch(config_.epoch());
  features.set_workers(1);
  for (int i = 0; i < 60'000; ++i) {
    features.mutable_spec()->add_classes("a class with a long name, number " + std::to_string(i));
  }
  ASSERT_GT(features.ByteSizeLong(), 2'000'000u);
  const Status published = Open()->PublishFeatures(features);
  ASSERT_TRUE(published.ok()) << published;
  const StatusOr<std::optional<JobFeatures>> read = Open()->ReadFeatures();
  ASSERT_TRUE(read.ok() && read->has_value());
  EXPECT_EQ((*read)->SerializeAsString(), features.SerializeAsString());
}

TEST_F(JobRegistryTest, AJobHasRowsOrTrainersOfItsOwn) {
  JobFeatures of_rows;
  of_rows.set_epoch(config_.epoch());
  of_rows.set_feature_count(3);
  JobFeatures of_trainers;
  of_trainers.set_epoch(config_.epoch());
  of_trainers.add_parameters()->set_name("w");
  const auto complaint = [this](const JobFeatures& first, const JobFeatures& second) {
    EXPECT_TRUE(Open()->PublishFeatures(first).ok());
    const Status status = Open()->PublishFeatures(second);
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(complaint(of_rows, of_trainers),
              HasSubstr("so it learns from rows: start a new job"));
  config_.set_epoch(2);
  of_rows.set_epoch(2);
  of_trainers.set_epoch(2);
  EXPECT_THAT(complaint(of_trainers, of_rows), HasSubstr("so it learns from no rows"));
}

TEST(JobRegistry, AnOfferLeadsToAHostAndAPortAndNowhereElse) {
  const auto check = [](const std::string& address) {
    ReplicaOffer offer;
    offer.set_address(address);
    return CheckOffer(offer).ok();
  };
  for (const char* good : {"host:1", "a-b.example:65535", "10.0.0.1:4000", "[::1]:4000"}) {
    EXPECT_TRUE(check(good)) << good;
  }
  for (const char* bad : {"", "host", "host:", ":1", "host:0", "host:65536", "host:1x", "::1:4000",
                          "unix:/run/docker.sock", "dns:///host:1/x", "ho st:1", "host\x1b[2J:1",
                          "host:-1", "host:+1"}) {
    EXPECT_FALSE(check(bad)) << bad;
  }
  std::string too_long(300, 'a');
  too_long += ":1";
  EXPECT_FALSE(check(too_long));
}

TEST_F(JobRegistryTest, AnOfferOfAStrangerWithNoAddressIsIgnored) {
  ReplicaOffer offer;
  offer.set_epoch(config_.epoch());
  offer.set_address("unix:/run/docker.sock");
  ASSERT_TRUE(Open()->PublishOffer(offer).ok());
  EXPECT_TRUE(Open()->ReadOffers()->empty());
}

TEST_F(JobRegistryTest, TheFirstWhoAsksChoosesTheGenerationOfTheTopics) {
  const StatusOr<uint64_t> first = Open()->Generation();
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(*Open()->Generation(), *first);
  config_.set_epoch(2);
  EXPECT_EQ(*Open()->Generation(), *first) << "another epoch has the same topics";
  MockCluster recreated;
  recreated.CreateTopic(TopicName("registry", Topic::kJob), 1);
  config_.set_brokers(recreated.options().brokers);
  EXPECT_NE(*Open()->Generation(), *first);
}

TEST_F(JobRegistryTest, AWorkerWaitsUntilAServerHasChosenTheGeneration) {
  std::atomic<bool> asked = false;
  StatusOr<uint64_t> chosen = 0;
  std::thread server([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    asked = true;
    chosen = Open()->Generation();
  });
  const StatusOr<uint64_t> waited = Open()->WaitForGeneration();
  EXPECT_TRUE(asked) << "a worker's user may not write to the topic";
  server.join();
  ASSERT_TRUE(waited.ok() && chosen.ok()) << waited.status() << chosen.status();
  EXPECT_EQ(*waited, *chosen);
}

// As a broker does that was paused, and does not know yet that another leads the topic.
TEST(JobRegistry, WhatWasPublishedIsReadThoughABrokerTellsAnEndOfBefore) {
  MockCluster cluster(2);
  const std::string topic = TopicName("registry", Topic::kJob);
  cluster.CreateTopic(topic, 1);
  cluster.ReadFromSecond(topic, 0, 0);
  JobConfig config;
  config.set_name("registry");
  config.set_brokers(cluster.options().brokers);
  const std::atomic<bool> stop = false;
  const StatusOr<std::unique_ptr<JobRegistry>> registry = JobRegistry::Create(config, stop);
  ASSERT_TRUE(registry.ok()) << registry.status();
  std::thread knows_it_later([&] {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    cluster.ReadFromSecond(topic, 0, -1);
  });
  const StatusOr<uint64_t> generation = (*registry)->Generation();
  knows_it_later.join();
  EXPECT_TRUE(generation.ok()) << generation.status();
}

TEST(JobRegistry, AJobHasEndedWhenEachOfItsShardsHas) {
  EXPECT_FALSE(EveryShardEnded({}, 2));
  EXPECT_FALSE(EveryShardEnded({1}, 2));
  EXPECT_TRUE(EveryShardEnded({0, 1}, 2));
  EXPECT_FALSE(EveryShardEnded({1, 7}, 2)) << "7 is no shard of the job";
  EXPECT_TRUE(EveryShardEnded({0, 1, 7}, 2));
}

TEST_F(JobRegistryTest, OfTwoThatPublishAtOnceOneWinsForEverybody) {
  for (uint64_t race = 1; race <= 20; ++race) {
    config_.set_epoch(race);
    const std::unique_ptr<JobRegistry> boards[] = {Open(), Open()};
    Status published[2];
    std::barrier start(2);
    const auto publish = [&](uint32_t i) {
      start.arrive_and_wait();
      published[i] = boards[i]->PublishTraining(TrainingWith(i + 1));
    };
    std::thread other(publish, 1);
    publish(0);
    other.join();
    ASSERT_NE(published[0].ok(), published[1].ok())
        << "race " << race << ": " << published[0] << ", " << published[1];
    const uint32_t winner = published[0].ok() ? 1 : 2;
    for (const auto& registry : {Open(), Open()}) {
      EXPECT_EQ(registry->ReadTraining()->value().training().batch_rows(), winner);
    }
  }
}

// How often threads of this process have waited for something.
int64_t Waits() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_nvcsw;
}

TEST_F(JobRegistryTest, ARegistryThatNobodyAsksAsksTheBrokerNothing) {
  ASSERT_TRUE(Open()->PublishTraining(TrainingWith(7)).ok());
  const std::unique_ptr<JobRegistry> asked = Open();
  ASSERT_TRUE(asked->ReadEnded().ok());
  const std::unique_ptr<JobRegistry> waited = Open();
  ASSERT_TRUE(waited->WaitForTraining().ok());
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  const int64_t before = Waits();
  const auto begin = std::chrono::steady_clock::now();
  std::this_thread::sleep_for(std::chrono::seconds(1));
  const std::chrono::duration<double> slept = std::chrono::steady_clock::now() - begin;
  // A reader that goes on asks a hundred times a second, and each answer wakes several threads.
  EXPECT_LT(static_cast<double>(Waits() - before), 150 * slept.count());
}

TEST_F(JobRegistryTest, AWaitEndsWhenItIsStopped) {
  const std::unique_ptr<JobRegistry> registry = Open();
  std::thread stopper([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    stop_ = true;
  });
  EXPECT_TRUE(absl::IsCancelled(registry->WaitForTraining().status()));
  stopper.join();
}

}  // namespace
}  // namespace millrace
