#include "follower/checkpoint_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "exports/model_scorer.h"
#include "tests/durability/snapshots/trained_job.h"
#include "tests/stores/temporary_folder.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

// The checkpoints of all shards of a job.
class Checkpoints {
 public:
  explicit Checkpoints(const TrainedJob& job) {
    for (ShardId shard = 0; shard < job.training().shards(); ++shard) {
      images_.push_back(std::make_unique<CheckpointImage>(
          MakeServerOptions(job.features(), job.training(), shard)));
      pointers_.push_back(images_.back().get());
    }
    StatusOr<JobModel> model = JobModel::Create(job.features(), job.training());
    EXPECT_TRUE(model.ok()) << model.status();
    model_ = std::make_unique<JobModel>(*std::move(model));
    for (ShardId shard = 0; shard < job.training().shards(); ++shard) {
      const Status taken = Take(shard, job.CheckpointOf(shard));
      EXPECT_TRUE(taken.ok()) << taken;
    }
  }

  Status Take(ShardId shard, const CheckpointAssembler::Part& part) {
    return images_[shard]->Take(part);
  }
  const CheckpointImage& image(ShardId shard) const { return *images_[shard]; }
  StatusOr<ExportedModel> ToModel() const { return ModelOfCheckpoints(*model_, pointers_); }

 private:
  std::unique_ptr<JobModel> model_;
  std::vector<std::unique_ptr<CheckpointImage>> images_;
  std::vector<const CheckpointImage*> pointers_;
};

class EveryCheckpointedJob : public ::testing::TestWithParam<JobCase> {};
INSTANTIATE_TEST_SUITE_P(CheckpointModel, EveryCheckpointedJob, ::testing::ValuesIn(AllJobCases()),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_P(EveryCheckpointedJob, IsTheModelThatItsSnapshotExports) {
  for (const uint32_t shards : {1u, 3u}) {
    TrainedJob job(GetParam(), shards);
    const TemporaryFolder folder;
    const StatusOr<ExportedModel> exported = ExportOf(job.WriteSnapshot(folder / "job-4"));
    ASSERT_TRUE(exported.ok()) << exported.status();
    StatusOr<ExportedModel> followed = Checkpoints(job).ToModel();
    ASSERT_TRUE(followed.ok()) << followed.status();
    EXPECT_EQ(followed->weights, exported->weights);
    EXPECT_EQ(followed->ids, exported->ids);
    EXPECT_EQ(followed->rows, exported->rows);
    EXPECT_EQ(followed->moments.mean, exported->moments.mean);
    const ModelDescription& theirs = exported->description;
    const ModelDescription& ours = followed->description;
    EXPECT_EQ(ours.shape().DebugString(), theirs.shape().DebugString());
    EXPECT_EQ(ours.target().DebugString(), theirs.target().DebugString());
    EXPECT_EQ(ours.frequencies().DebugString(), theirs.frequencies().DebugString());
    EXPECT_EQ(ours.has_frequencies(), theirs.has_frequencies());
    EXPECT_EQ(ours.rows(), theirs.rows());
    EXPECT_EQ(ours.clock(), theirs.clock());
    EXPECT_EQ(ours.progressive().rows(), theirs.progressive().rows());
    const ModelScorer scorer(*std::move(followed));
    const std::vector<Row> rows = job.SomeRows();
    const std::vector<const Row*> pointers = Pointers(rows);
    std::vector<float> scores(rows.size() * scorer.score_count());
    scorer.Score(pointers, scores);
    EXPECT_EQ(scores, job.ScoresOf(pointers)) << shards << " shards";
  }
}

CheckpointAssembler::Part StateOnly(const TrainedJob& job, ShardId shard) {
  CheckpointAssembler::Part part = job.CheckpointOf(shard);
  part.entries.clear();
  return part;
}

TEST(CheckpointModel, TakesRowsThatComeAgainAndLeavesOutThoseThatWereRemoved) {
  const TrainedJob job({"OnlineWithIds", 2, true}, 1);
  Checkpoints checkpoints(job);
  const StatusOr<ExportedModel> before = checkpoints.ToModel();
  ASSERT_TRUE(before.ok() && before->ids.size() > 3) << before.status();
  const EmbeddingId gone = before->ids[1];
  CheckpointAssembler::Part part = StateOnly(job, 0);
  part.entries.push_back({EmbeddingRowKey(0, gone), ""});
  part.entries.push_back({EmbeddingRowKey(0, 123'456'789), ""});  // never there
  ASSERT_TRUE(checkpoints.Take(0, part).ok());
  StatusOr<ExportedModel> after = checkpoints.ToModel();
  ASSERT_TRUE(after.ok()) << after.status();
  std::vector<EmbeddingId> expected = before->ids;
  std::erase(expected, gone);
  EXPECT_EQ(after->ids, expected);
  // Another row takes its place.
  ASSERT_TRUE(checkpoints.Take(0, job.CheckpointOf(0)).ok());
  after = checkpoints.ToModel();
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_EQ(after->ids, before->ids);
  EXPECT_EQ(after->rows, before->rows);
}

TEST(CheckpointModel, IsWholeOnlyWithTheLastPartOfACheckpoint) {
  const TrainedJob job({"OnlineWithIds", 2, true}, 1);
  CheckpointImage image(MakeServerOptions(job.features(), job.training(), 0));
  EXPECT_TRUE(image.is_whole());
  CheckpointAssembler::Part first = job.CheckpointOf(0);
  CheckpointAssembler::Part last = first;
  first.end.reset();
  last.entries.clear();
  ASSERT_TRUE(image.Take(first).ok());
  EXPECT_FALSE(image.is_whole());
  ASSERT_TRUE(image.Take(last).ok());
  EXPECT_TRUE(image.is_whole());
}

TEST(CheckpointModel, RefusesWhatIsNotOfTheShard) {
  const TrainedJob job({"OnlineWithIds", 2, true}, 2);
  const auto refused = [&](const CheckpointAssembler::Part& part) {
    CheckpointImage image(MakeServerOptions(job.features(), job.training(), 0));
    const Status status = image.Take(part);
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    return std::string(status.message());
  };
  refused(job.CheckpointOf(1));
  CheckpointAssembler::Part part = StateOnly(job, 0);
  part.entries.push_back({EmbeddingRowKey(0, 7), "no row"});
  EXPECT_THAT(refused(part), HasSubstr("embedding row 7"));
  part = StateOnly(job, 0);
  part.state = "no state";
  refused(part);
}

TEST(CheckpointModel, OfAJobOfTrainersOfOnesOwnThereIsNone) {
  JobFeatures features;
  features.add_parameters()->set_name("w");
  JobTraining training;
  training.mutable_training()->set_model(Training::EXTERNAL);
  const Status status = JobModel::Create(features, training).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("only that knows how to predict"));
}

}  // namespace
}  // namespace millrace
