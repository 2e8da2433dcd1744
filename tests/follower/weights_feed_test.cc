#include "follower/weights_feed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/big_endian.h"
#include "exports/model_scorer.h"
#include "tests/durability/snapshots/trained_job.h"
#include "tests/stores/temporary_folder.h"
#include "topics/frame.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

// As a server sends it; large ones in pieces.
StatusOr<bool> Send(WeightsFeed& feed, ShardId shard, const std::string& body,
                    int64_t timestamp_ms = 1000, size_t frame_bytes = 100) {
  bool is_newer = false;
  uint32_t chunk = 0;
  for (const std::string& frame : MakeFrames(body, 1, frame_bytes)) {
    MILLRACE_ASSIGN_OR_RETURN(
        const auto newer,
        feed.Take(EncodeBigEndian32(shard) + EncodeBigEndian32(chunk++), frame, timestamp_ms));
    is_newer = newer != nullptr;
  }
  return is_newer;
}

WeightsFeed FeedOf(const TrainedJob& job) {
  StatusOr<JobModel> model = JobModel::Create(job.features(), job.training());
  EXPECT_TRUE(model.ok()) << model.status();
  return WeightsFeed(*std::move(model));
}

WeightsFeed FullFeedOf(const TrainedJob& job, uint64_t version = 5) {
  WeightsFeed feed = FeedOf(job);
  for (ShardId shard = 0; shard < job.training().shards(); ++shard) {
    EXPECT_TRUE(Send(feed, shard, job.FeedBody(shard, version)).value_or(false));
  }
  return feed;
}

std::string WithVersion(std::string body, uint64_t version) {
  SharedWeights message;
  EXPECT_TRUE(message.ParseFromString(body));
  message.set_version(version);
  for (float& weight : *message.mutable_slice()->mutable_dense()) weight += 1;
  return message.SerializeAsString();
}

class EveryJobWithoutRows : public ::testing::TestWithParam<JobCase> {};
INSTANTIATE_TEST_SUITE_P(WeightsFeed, EveryJobWithoutRows, ::testing::ValuesIn([] {
                           std::vector<JobCase> cases = AllJobCases();
                           std::erase_if(cases, [](const JobCase& each) {
                             return TrainedJob(each, 1).model().row_width() > 0;
                           });
                           return cases;
                         }()),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_P(EveryJobWithoutRows, IsInItsFeedTheModelThatItsSnapshotExports) {
  for (const uint32_t shards : {1u, 3u}) {
    TrainedJob job(GetParam(), shards);
    const TemporaryFolder folder;
    const StatusOr<ExportedModel> exported = ExportOf(job.WriteSnapshot(folder / "job-4"));
    ASSERT_TRUE(exported.ok()) << exported.status();
    StatusOr<ExportedModel> followed = FullFeedOf(job).ToModel();
    ASSERT_TRUE(followed.ok()) << followed.status();
    EXPECT_EQ(followed->weights, exported->weights);
    EXPECT_EQ(followed->moments.mean, exported->moments.mean);
    const ModelDescription& theirs = exported->description;
    const ModelDescription& ours = followed->description;
    EXPECT_EQ(ours.shape().DebugString(), theirs.shape().DebugString());
    EXPECT_EQ(ours.target().DebugString(), theirs.target().DebugString());
    EXPECT_EQ(ours.frequencies().DebugString(), theirs.frequencies().DebugString());
    EXPECT_EQ(ours.has_frequencies(), theirs.has_frequencies());
    EXPECT_EQ(ours.job(), "job");
    EXPECT_EQ(ours.rows(), theirs.rows());
    EXPECT_GT(ours.rows(), 0u);
    EXPECT_EQ(ours.clock(), theirs.clock());
    EXPECT_GT(ours.clock(), 0u);
    const ModelScorer scorer(*std::move(followed));
    const std::vector<Row> rows = job.SomeRows();
    const std::vector<const Row*> pointers = Pointers(rows);
    std::vector<float> scores(rows.size() * scorer.score_count());
    scorer.Score(pointers, scores);
    EXPECT_EQ(scores, job.ScoresOf(pointers)) << shards << " shards";
  }
}

TEST(WeightsFeed, HasAModelWhenEachShardHasSentItsPartAndIsAsOldAsTheOldestPart) {
  const TrainedJob job({"Softmax", 3, false, SendGradients}, 3);
  WeightsFeed feed = FeedOf(job);
  EXPECT_EQ(feed.missing(), 3u);
  for (const ShardId shard : std::vector<ShardId>{2, 0, 1}) {
    EXPECT_TRUE(
        Send(feed, shard, job.FeedBody(shard, 7), 1000 + int64_t{uint32_t{shard}}).value_or(false));
  }
  EXPECT_EQ(feed.missing(), 0u);
  EXPECT_EQ(feed.sent_ms(), 1000);
  EXPECT_EQ(feed.ToModel()->description.created_ms(), 1000);
  EXPECT_TRUE(Send(feed, 0, WithVersion(job.FeedBody(0, 7), 8), 2000).value_or(false));
  EXPECT_EQ(feed.ToModel()->description.created_ms(), 1001);
}

TEST(WeightsFeed, SaysHowManyRowsTheWeightsThatItHasWereTrainedOn) {
  const TrainedJob job({"Softmax", 3, false, SendGradients}, 2);
  WeightsFeed feed = FullFeedOf(job, 5);
  SharedWeights newer;
  ASSERT_TRUE(newer.ParseFromString(job.FeedBody(0, 6)));
  newer.set_rows_trained(1000);
  newer.set_clock(50);
  ASSERT_TRUE(Send(feed, 0, newer.SerializeAsString()).value_or(false));
  // Other shards do not count rows.
  ASSERT_TRUE(Send(feed, 1, job.FeedBody(1, 6)).value_or(false));
  // What is older than its weights is not told of them.
  ASSERT_FALSE(Send(feed, 0, job.FeedBody(0, 4)).value_or(true));
  EXPECT_EQ(feed.ToModel()->description.rows(), 1000u);
  EXPECT_EQ(feed.ToModel()->description.clock(), 50u);
}

TEST(WeightsFeed, TakesNoOlderWeightsOfAServerThatWasReplaced) {
  const TrainedJob job({"Softmax", 3, false, SendGradients}, 1);
  WeightsFeed feed = FullFeedOf(job, 5);
  const std::vector<float> before = feed.ToModel()->weights;
  for (const uint64_t version : {4, 5}) {
    EXPECT_FALSE(Send(feed, 0, WithVersion(job.FeedBody(0, 1), version)).value_or(true));
  }
  EXPECT_EQ(feed.ToModel()->weights, before);
  EXPECT_TRUE(Send(feed, 0, WithVersion(job.FeedBody(0, 1), 6)).value_or(false));
  EXPECT_NE(feed.ToModel()->weights, before);
}

TEST(WeightsFeed, RefusesWhatIsOfNoShardOfTheJobAndKeepsWhatItHas) {
  const TrainedJob job({"Softmax", 3, false, SendGradients}, 2);
  WeightsFeed feed = FullFeedOf(job);
  const std::vector<float> before = feed.ToModel()->weights;
  SharedWeights of_other;
  ASSERT_TRUE(of_other.ParseFromString(job.FeedBody(0, 9)));
  of_other.set_job(of_other.job() + 1);
  EXPECT_TRUE(absl::IsInvalidArgument(Send(feed, 0, of_other.SerializeAsString()).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(Send(feed, 0, "no message").status()));
  EXPECT_EQ(feed.ToModel()->weights, before);
}

TEST(WeightsFeed, HasNoModelOfWeightsThatAreNoNumbers) {
  const TrainedJob job({"Softmax", 3, false, SendGradients}, 1);
  WeightsFeed feed = FullFeedOf(job);
  SharedWeights message;
  ASSERT_TRUE(message.ParseFromString(job.FeedBody(0, 9)));
  message.mutable_slice()->set_dense(3, std::numeric_limits<float>::infinity());
  ASSERT_TRUE(Send(feed, 0, message.SerializeAsString()).value_or(false));
  const Status status = feed.ToModel().status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("--learning-rate"));
}

}  // namespace
}  // namespace millrace
