// What a snapshot says of itself, and which jobs may begin from it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <regex>
#include <string>
#include <vector>

#include "durability/snapshots/snapshot_files.h"
#include "durability/snapshots/snapshot_reader.h"
#include "tests/durability/snapshots/snapshot_fixture.h"
#include "tests/stores/temporary_folder.h"

namespace millrace {
namespace {

using snapshot_tests::HeadOf;
using snapshot_tests::kKeys;
using snapshot_tests::ShardOf;
using snapshot_tests::WriteAll;
using ::testing::HasSubstr;

// The folder may be another one than the job was started from.
TEST(SnapshotFiles, OfAModelWithOtherKeysAreAnErrorThatNamesThem) {
  const TemporaryFolder folder;
  WriteAll(folder.path(), 2);
  const StatusOr<SnapshotManifest> manifest = CheckSnapshot(folder.path());
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  for (const uint64_t keys : {kKeys - 1, kKeys + 1}) {
    ServerOptions options = ShardOf(2, 3);
    options.range = RangeOfShard(2, 3, keys);
    const Status status =
        ReadFirstCheckpoint(folder.path(), *manifest, options, SnapshotStart::kSameStream).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(folder / "manifest.json"));
  }
}

TEST(SnapshotFiles, AreReadByAManifestThatWasChecked) {
  const TemporaryFolder folder;
  WriteAll(folder.path(), 2);
  StatusOr<SnapshotManifest> manifest = CheckSnapshot(folder.path());
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  manifest->mutable_parts()->RemoveLast();
  EXPECT_DEATH((void)ReadFirstCheckpoint(folder.path(), *manifest, ShardOf(0, 1),
                                         SnapshotStart::kSameStream),
               "CheckParts");
}

// Older versions had one column of text at most, and wrote "text": "" where a job had none.
TEST(SnapshotFiles, OfAnOlderVersionHaveNoColumnOfTextWithoutAName) {
  const TemporaryFolder folder;
  WriteAll(folder.path(), 2);
  const std::string path = folder.path() + "/manifest.json";
  for (const std::string name : {"", "note"}) {
    StatusOr<SnapshotManifest> manifest = ReadManifest(folder.path());
    ASSERT_TRUE(manifest.ok()) << manifest.status();
    FeatureSpec& spec = *manifest->mutable_features()->mutable_spec();
    spec.clear_text();
    spec.add_text(name);
    ASSERT_TRUE(SealSnapshot(folder.path(), *manifest).ok());
    // A list of one has the checksum of what it is a list of.
    std::ifstream file(path);
    const std::string text =
        std::regex_replace(std::string(std::istreambuf_iterator<char>(file), {}),
                           std::regex(R"re("text":\s*\[\s*("[a-z]*")\s*\])re"), R"("text": $1)");
    ASSERT_THAT(text, HasSubstr("\"text\": \"" + name + "\""));
    std::ofstream(path) << text;
    manifest = ReadManifest(folder.path());
    ASSERT_TRUE(manifest.ok()) << manifest.status();
    const auto& read = manifest->features().spec().text();
    EXPECT_EQ(std::vector<std::string>(read.begin(), read.end()),
              name.empty() ? std::vector<std::string>() : std::vector{name});
  }
}

// Whoever writes a manifest can give it a checksum, too.
void ExpectRefused(void (*change)(SnapshotManifest& manifest), const std::string& why) {
  const TemporaryFolder folder;
  WriteAll(folder.path(), 2);
  StatusOr<SnapshotManifest> manifest = ReadManifest(folder.path());
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  change(*manifest);
  ASSERT_TRUE(SealSnapshot(folder.path(), *manifest).ok());
  const Status status = CheckSnapshot(folder.path()).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(why));
}

TEST(SnapshotFiles, WithAHugeEndAreAnErrorAndNoAbort) {
  ExpectRefused(
      [](SnapshotManifest& manifest) {
        manifest.mutable_parts(1)->set_end(uint64_t{1} << 62);
        manifest.set_parameters(uint64_t{1} << 62);
      },
      "more keys or rows than its files can hold");
}

TEST(SnapshotFiles, WithMoreRowsThanTheirFilesHaveRoomForAreRefused) {
  ExpectRefused([](SnapshotManifest& manifest) { manifest.mutable_parts(0)->set_rows(1 << 20); },
                "more keys or rows than its files can hold");
}

TEST(SnapshotFiles, ThatAreOpenedAreThoseThatAreListed) {
  const std::string other = "lists files that no snapshot has";
  ExpectRefused(
      [](SnapshotManifest& manifest) {
        manifest.mutable_parts(0)->mutable_files(0)->set_name("../weights-0.npy");
      },
      other);
  ExpectRefused(
      [](SnapshotManifest& manifest) { manifest.mutable_parts(0)->mutable_files()->RemoveLast(); },
      other);
  ExpectRefused(
      [](SnapshotManifest& manifest) {
        const SnapshotPart::File twice = manifest.parts(0).files(0);
        *manifest.mutable_parts(0)->add_files() = twice;
      },
      other);
}

TEST(SnapshotFiles, OfOtherNamedParametersAreRefused) {
  SnapshotManifest manifest;
  manifest.mutable_training()->set_model(Training::EXTERNAL);
  NamedParameter& saved = *manifest.mutable_features()->add_parameters();
  saved.set_name("w");
  saved.add_shape(3);
  saved.set_handler("adam");
  saved.set_learning_rate_multiplier(1);
  const auto complaint = [&manifest](auto change) {
    JobFeatures features = manifest.features();
    change(*features.mutable_parameters(0));
    return std::string(
        CheckSnapshotFits(manifest, features, manifest.training(), 0, SnapshotStart::kSameStream)
            .message());
  };
  EXPECT_EQ(complaint([](NamedParameter& w) { w.set_learning_rate_multiplier(2); }), "");
  EXPECT_THAT(complaint([](NamedParameter& w) { w.set_name("v"); }), HasSubstr("parameters"));
  EXPECT_THAT(complaint([](NamedParameter& w) { w.set_shape(0, 4); }), HasSubstr("4"));
  EXPECT_THAT(complaint([](NamedParameter& w) { w.set_handler("sgd"); }), HasSubstr("sgd"));
}

TEST(SnapshotFiles, OfAJobThatDealtItsRowsOtherwiseAreRefusedUnlessTheStreamIsNew) {
  SnapshotManifest manifest = HeadOf();
  manifest.mutable_features()->set_rows_per_turn(256);
  manifest.mutable_features()->set_most_rows_per_turn(1024);
  manifest.add_workers();
  JobFeatures features = manifest.features();
  const auto complaint = [&](SnapshotStart start) {
    return std::string(
        CheckSnapshotFits(manifest, features, manifest.training(), 1, start).message());
  };
  EXPECT_EQ(complaint(SnapshotStart::kSameStream), "");
  features.set_dealt_workers(1);
  EXPECT_THAT(
      complaint(SnapshotStart::kSameStream),
      HasSubstr("in turns of 256 to 1024 rows, this job in turns of 256 to 1024 rows, to the "
                "first 1 only"));
  EXPECT_EQ(complaint(SnapshotStart::kNewStream), "");
  features = manifest.features();
  features.set_rows_per_turn(5);
  features.clear_most_rows_per_turn();
  EXPECT_THAT(complaint(SnapshotStart::kSameStream), HasSubstr("this job in turns of 5 rows,"));
  manifest.mutable_features()->set_rows_per_turn(0);
  manifest.mutable_features()->clear_most_rows_per_turn();
  features.set_rows_per_turn(1);
  EXPECT_EQ(complaint(SnapshotStart::kSameStream), "");
}

TEST(SnapshotFiles, OfAnotherJobsShapeAreRefused) {
  SnapshotManifest manifest = HeadOf();
  manifest.mutable_features()->mutable_spec()->add_numeric("x");
  manifest.add_workers();
  const auto fits = [&manifest](const Training& training, const std::string& column,
                                uint32_t workers, SnapshotStart start) {
    JobFeatures features;
    features.mutable_spec()->add_numeric(column);
    return CheckSnapshotFits(manifest, features, training, workers, start);
  };
  const Training same = manifest.training();
  EXPECT_TRUE(fits(same, "x", 1, SnapshotStart::kSameStream).ok());
  EXPECT_FALSE(fits(same, "y", 1, SnapshotStart::kSameStream).ok());
  EXPECT_FALSE(fits(same, "x", 2, SnapshotStart::kSameStream).ok());
  EXPECT_TRUE(fits(same, "x", 2, SnapshotStart::kNewStream).ok());
  Training other = same;
  other.set_model(Training::SOFTMAX);
  EXPECT_FALSE(fits(other, "x", 1, SnapshotStart::kSameStream).ok());
  other = same;
  other.mutable_optimizer()->set_kind(Training::Optimizer::FTRL);
  EXPECT_FALSE(fits(other, "x", 1, SnapshotStart::kSameStream).ok());
  other = same;
  other.mutable_embedding()->set_factors(same.embedding().factors() + 1);
  EXPECT_FALSE(fits(other, "x", 1, SnapshotStart::kSameStream).ok());
  Training network = same;
  network.set_model(Training::DEEP_FM);
  SnapshotManifest of_network = manifest;
  *of_network.mutable_training() = network;
  JobFeatures features;
  features.mutable_spec()->add_numeric("x");
  network.mutable_hidden()->Add(64);
  EXPECT_FALSE(CheckSnapshotFits(of_network, features, network, 1, SnapshotStart::kNewStream).ok());
  network.mutable_hidden()->Add(32);
  EXPECT_TRUE(CheckSnapshotFits(of_network, features, network, 1, SnapshotStart::kNewStream).ok())
      << "what is the default anyway";
  SnapshotManifest of_leases = manifest;
  of_leases.mutable_training()->set_sharding(Training::DYNAMIC);
  for (const SnapshotStart start : {SnapshotStart::kSameStream, SnapshotStart::kNewStream}) {
    EXPECT_EQ(CheckSnapshotFits(of_leases, features, same, 1, start).ok(),
              start == SnapshotStart::kNewStream)
        << "its workers have not had the rows of partitions";
  }
  other = same;
  other.set_batch_rows(same.batch_rows() + 1);
  EXPECT_TRUE(fits(other, "x", 1, SnapshotStart::kSameStream).ok())
      << "its state says how many rows of each worker it has counted";
  other.set_schedule(Training::BUFFER);
  EXPECT_FALSE(fits(other, "x", 1, SnapshotStart::kSameStream).ok())
      << "rows would be left out, or learnt from twice";
  EXPECT_TRUE(fits(other, "x", 1, SnapshotStart::kNewStream).ok());
  manifest.add_workers()->set_clock(1);
  EXPECT_FALSE(fits(same, "x", 2, SnapshotStart::kSameStream).ok())
      << "a sequential job's workers stand at one clock";
  EXPECT_TRUE(fits(same, "x", 2, SnapshotStart::kNewStream).ok());
  other = same;
  other.mutable_consistency()->set_model(Training::Consistency::EVENTUAL);
  EXPECT_TRUE(fits(other, "x", 2, SnapshotStart::kSameStream).ok());
  manifest.mutable_workers(1)->set_left(true);
  EXPECT_TRUE(fits(same, "x", 2, SnapshotStart::kSameStream).ok());
  EXPECT_EQ(TrainingDifferences(manifest, same), "");
  EXPECT_NE(TrainingDifferences(manifest, other), "");
}

}  // namespace
}  // namespace millrace
