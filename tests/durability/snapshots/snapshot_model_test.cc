#include "durability/snapshots/snapshot_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "durability/snapshots/snapshot_files.h"
#include "exports/model_scorer.h"
#include "tests/durability/snapshots/trained_job.h"
#include "tests/stores/temporary_folder.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

class EveryJob : public ::testing::TestWithParam<JobCase> {};
INSTANTIATE_TEST_SUITE_P(Snapshots, EveryJob, ::testing::ValuesIn(AllJobCases()),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_P(EveryJob, HasAModelThatGivesTheScoresOfItsServersToTheLastBit) {
  for (const uint32_t shards : {1u, 3u}) {
    const TemporaryFolder folder;
    TrainedJob job(GetParam(), shards);
    StatusOr<ExportedModel> model = ExportOf(job.WriteSnapshot(folder / "job-4"));
    ASSERT_TRUE(model.ok()) << model.status();
    const ModelScorer scorer(*std::move(model));
    const std::vector<Row> rows = job.SomeRows();
    const std::vector<const Row*> pointers = Pointers(rows);
    std::vector<float> scores(rows.size() * scorer.score_count());
    scorer.Score(pointers, scores);
    EXPECT_EQ(scores, job.ScoresOf(pointers)) << shards << " shards";
  }
}

TEST(SnapshotModel, SaysWhereItComesFromAndHowGoodItWas) {
  const TemporaryFolder folder;
  TrainedJob job({"FactorizationMachine", 2, true,
                  [](Training& t) { t.set_model(Training::FACTORIZATION_MACHINE); }},
                 2);
  const StatusOr<ExportedModel> model = ExportOf(job.WriteSnapshot(folder / "job-4"));
  ASSERT_TRUE(model.ok()) << model.status();
  const ModelDescription& description = model->description;
  EXPECT_EQ(description.job(), "job");
  EXPECT_EQ(description.epoch(), 1u);
  EXPECT_EQ(description.snapshot(), 4u);
  EXPECT_EQ(description.clock(), 9u);
  EXPECT_EQ(description.rows(), 77u);
  EXPECT_EQ(description.training().model(), Training::FACTORIZATION_MACHINE);
  EXPECT_EQ(description.progressive().rows(), 10u);
  EXPECT_EQ(description.progressive().accuracy(), 0.5);
  EXPECT_TRUE(description.features().has_text_buckets()) << "defaults are said";
  EXPECT_EQ(description.features().classes(1), "class 1");
  EXPECT_EQ(description.frequencies().rows(1), 8u);
  EXPECT_EQ(model->moments.mean, job.moments().mean);
}

TEST(SnapshotModel, HasTheAdmittedRowsOnlyInTheOrderOfTheirIds) {
  const TemporaryFolder folder;
  TrainedJob job({"OnlineWithIds", 3, true}, 3);
  const StatusOr<ExportedModel> model = ExportOf(job.WriteSnapshot(folder / "job-4"));
  ASSERT_TRUE(model.ok()) << model.status();
  std::vector<EmbeddingId> expected;
  for (EmbeddingId id = 0; id < kIds; id += 3) {
    if (1 + id % 4 >= 2) expected.push_back(id * id);
  }
  EXPECT_EQ(model->ids, expected);
  EXPECT_EQ(model->description.shape().row_width(), 3u) << "of each racer it would be 36";
}

TEST(SnapshotModel, OfTheSameSnapshotIsTheSameBytes) {
  const TemporaryFolder folder;
  TrainedJob job({"OnlineWithIds", 2, true}, 2);
  const std::string snapshot = job.WriteSnapshot(folder / "job-4");
  const auto bytes_of = [](const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  std::map<std::string, std::string> first;
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(ExportOf(snapshot).ok());
    for (const auto& entry : std::filesystem::directory_iterator(SnapshotModelFolder(snapshot))) {
      const auto [at, is_new] =
          first.emplace(entry.path().filename(), bytes_of(entry.path().string()));
      EXPECT_EQ(is_new, i == 0) << entry.path();
      EXPECT_EQ(bytes_of(entry.path().string()), at->second) << entry.path();
    }
  }
  EXPECT_EQ(first.size(), 5u);
}

TEST(SnapshotModel, OfADamagedSnapshotIsAnErrorThatNamesTheFile) {
  for (const std::string file :
       {"weights-1.npy", "state-0.pb", "embedding-ids-0.npy", "embedding-values-1.npy",
        "embedding-slots-0.npy", "embedding-updates-1.npy"}) {
    const TemporaryFolder folder;
    TrainedJob job({"OnlineWithIds", 2, true}, 2);
    const std::string snapshot = job.WriteSnapshot(folder / "job-4");
    const StatusOr<SnapshotManifest> manifest = CheckSnapshot(snapshot);
    ASSERT_TRUE(manifest.ok()) << manifest.status();
    std::filesystem::resize_file(snapshot + "/" + file, 20);
    const Status status = ExportSnapshot(snapshot, *manifest, folder / "model").status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(snapshot + "/" + file));
    EXPECT_FALSE(std::filesystem::exists(folder / "model"));
    EXPECT_FALSE(std::filesystem::exists(folder / "model.partial"));
  }
}

TEST(SnapshotModel, OfAManifestThatNamesNoModelIsAnError) {
  const TemporaryFolder folder;
  TrainedJob job({"OnlineOfTwoClasses"}, 1);
  const std::string snapshot = job.WriteSnapshot(folder / "job-4");
  const StatusOr<SnapshotManifest> whole = CheckSnapshot(snapshot);
  ASSERT_TRUE(whole.ok()) << whole.status();
  const std::vector<std::function<void(SnapshotManifest&)>> changes = {
      [](auto& manifest) { manifest.mutable_features()->mutable_spec()->clear_classes(); },
      [](auto& manifest) { manifest.mutable_features()->set_feature_count(19); },
      [](auto& manifest) {
        manifest.mutable_training()->set_model(Training::NETWORK);
        manifest.mutable_training()->add_hidden(0);
      },
      [](auto& manifest) { manifest.mutable_training()->mutable_optimizer()->set_epsilon(1e-60); },
      [](auto& manifest) {
        manifest.mutable_training()->mutable_embedding()->set_expire_after_s(1e300);
      }};
  for (const auto& change : changes) {
    SnapshotManifest manifest = *whole;
    change(manifest);
    const Status status = ExportSnapshot(snapshot, manifest, folder / "model").status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(snapshot + "/manifest.json"));
  }
}

TEST(SnapshotModel, OfAJobOfTrainersOfOnesOwnIsRefused) {
  const TemporaryFolder folder;
  TrainedJob job({"OnlineOfTwoClasses"}, 1);
  const std::string snapshot = job.WriteSnapshot(folder / "job-4");
  StatusOr<SnapshotManifest> manifest = CheckSnapshot(snapshot);
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  manifest->mutable_training()->set_model(Training::EXTERNAL);
  manifest->mutable_features()->add_parameters()->set_name("w");
  const Status status = ExportSnapshot(snapshot, *manifest, folder / "model").status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("only that knows how to predict"));
  EXPECT_FALSE(std::filesystem::exists(folder / "model"));
}

}  // namespace
}  // namespace millrace
