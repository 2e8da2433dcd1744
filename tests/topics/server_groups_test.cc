#include "topics/server_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace millrace {
namespace {

using ::testing::HasSubstr;

// Group 1 exchanges with group 0, and group 2 with group 1; two shards each.
JobTraining Groups() {
  JobTraining training;
  training.set_shards(6);
  training.add_group()->add_worker(1);
  for (uint32_t group = 1; group < 3; ++group) {
    ServerGroup& made = *training.add_group();
    made.set_neighbor(group - 1);
    made.set_sync_interval(7);
  }
  training.mutable_group(1)->add_worker(0);
  training.mutable_group(1)->add_worker(3);
  training.mutable_group(2)->add_worker(2);
  return training;
}

TEST(ServerGroups, ShareTheShardsAndTheWorkersOfAJob) {
  const JobTraining training = Groups();
  ASSERT_TRUE(CheckGroups(training, 4).ok()) << CheckGroups(training, 4);
  EXPECT_EQ(GroupCount(training), 3U);
  EXPECT_EQ(ShardsOfGroup(training), 2U);
  EXPECT_EQ(GroupOfShard(training, 1), 0U);
  EXPECT_EQ(GroupOfShard(training, 2), 1U);
  EXPECT_EQ(GroupOfShard(training, 5), 2U);
  EXPECT_EQ(GroupOfWorker(training, 3), 1U);
  EXPECT_EQ(FirstWorkerOf(training, 0), 1U);
}

TEST(ServerGroups, OfAJobWithoutAnyAreOne) {
  JobTraining training;
  training.set_shards(5);
  EXPECT_TRUE(CheckGroups(training, 4).ok());
  EXPECT_EQ(GroupCount(training), 1U);
  EXPECT_EQ(ShardsOfGroup(training), 5U);
  EXPECT_EQ(GroupOfShard(training, 4), 0U);
  EXPECT_EQ(GroupOfWorker(training, 3), 0U);
  EXPECT_EQ(FirstWorkerOf(training, 0), 0U);
}

TEST(ServerGroups, HaveHashesAndSendersOfTheirOwn) {
  EXPECT_EQ(HashOfGroup(5, 0), 5U) << "that of the job";
  EXPECT_NE(HashOfGroup(5, 1), HashOfGroup(5, 2));
  EXPECT_NE(HashOfGroup(5, 1), HashOfGroup(6, 1));
  EXPECT_NE(SenderOfGroup(0), kNoWorker);
  EXPECT_NE(SenderOfGroup(0), SenderOfGroup(1));
}

TEST(ServerGroups, ThatCannotBeAreRefused) {
  const auto error = [](auto change, uint32_t workers = 4) {
    JobTraining training = Groups();
    change(training);
    return std::string(CheckGroups(training, workers).message());
  };
  EXPECT_THAT(error([](JobTraining& t) { t.set_shards(7); }), HasSubstr("share 7 shards evenly"));
  EXPECT_THAT(error([](JobTraining& t) { t.set_shards(0); }), HasSubstr("0 shards"));
  EXPECT_THAT(error([](JobTraining& t) { t.mutable_group(1)->set_neighbor(1); }),
              HasSubstr("which is none before it"));
  EXPECT_THAT(error([](JobTraining& t) { t.mutable_group(1)->set_neighbor(2); }),
              HasSubstr("which is none before it"))
      << "so no delta comes back to who sent it";
  EXPECT_THAT(error([](JobTraining& t) { t.mutable_group(2)->set_sync_interval(0); }),
              HasSubstr("exchanges nothing"));
  EXPECT_THAT(error([](JobTraining& t) { t.mutable_group(0)->set_sync_interval(3); }),
              HasSubstr("the first group"));
  EXPECT_THAT(error([](JobTraining& t) { t.mutable_group(2)->clear_worker(); }),
              HasSubstr("has no workers"));
  EXPECT_THAT(error([](JobTraining& t) { t.mutable_group(2)->add_worker(3); }),
              HasSubstr("worker 3 is in two groups"));
  EXPECT_THAT(error([](JobTraining& t) { t.mutable_group(2)->add_worker(0); }),
              HasSubstr("out of order"));
  EXPECT_THAT(error([](JobTraining&) {}, 5), HasSubstr("worker 4 is in no group"));
  EXPECT_THAT(error([](JobTraining& t) { t.mutable_group()->DeleteSubrange(1, 2); }),
              HasSubstr("1 groups"));
}

}  // namespace
}  // namespace millrace
