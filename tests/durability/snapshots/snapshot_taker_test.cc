#include "durability/snapshots/snapshot_taker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "durability/snapshots/snapshot_files.h"
#include "durability/snapshots/snapshot_request.h"
#include "durability/snapshots/snapshot_writer.h"
#include "exports/model_reader.h"
#include "stores/memory_byte_map.h"
#include "tests/processors/server_fixture.h"
#include "tests/stores/temporary_folder.h"

namespace millrace {
namespace {

using std::chrono::seconds;
using ::testing::IsEmpty;
using ::testing::SizeIs;

ServerOptions OneOfTwo(ShardId shard) {
  ServerOptions options = SmallServer();
  options.shard = shard;
  options.shards = 2;
  options.range = {3 * shard, 3 * shard + 3};
  return options;
}

class SnapshotTakerTest : public ::testing::Test {
 protected:
  SnapshotTakerTest() {
    config_.set_name("job");
    config_.mutable_server()->set_snapshot_dir(folder_.path());
    training_.set_shards(2);
  }

  LogRecord Asked(uint64_t id) const {
    const OutgoingRecord request = SnapshotRequest(config_, id);
    return {request.key, request.value};
  }
  // The server's part of snapshot 7.
  void Write(SnapshotTaker& taker, const TestServer& server) const {
    const Status written = taker.WritePart(7, server.options(), server.processor(), store_);
    ASSERT_TRUE(written.ok()) << written;
    taker.PartWritten(7, server.options().shard, written, start_, start_);
  }
  // Of SmallServer.
  void DescribeFeatures() {
    FeatureSpec& spec = *features_.mutable_spec();
    spec.set_label("y");
    spec.add_classes("no");
    spec.add_classes("yes");
    spec.add_numeric("x");
    features_.set_feature_count(2);
    training_.mutable_training()->mutable_update()->set_kind(Training::Update::GRADIENT);
  }
  // Once the models are written, in the background.
  bool BecomesFinished(SnapshotTaker::Time now) {
    for (int i = 0; i < 10'000; ++i) {
      if (taker_.Finished(now)) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  }
  std::string Manifest(uint64_t id) const { return SnapshotFolder(config_, id) + "/manifest.json"; }

  const TemporaryFolder folder_;
  JobConfig config_;
  JobFeatures features_;
  JobTraining training_;
  SnapshotTaker taker_{config_, features_, training_};
  MemoryByteMap store_;
  TestServer server_{SmallServer()};
  const SnapshotTaker::Time start_ = std::chrono::steady_clock::now();
};

TEST_F(SnapshotTakerTest, CutsTheShardsOfAPausedStreamWhereTheyAre) {
  std::vector<OutgoingRecord> out;
  server_.Send(Asked(7));
  taker_.Tick(0, server_.processor(), start_, out);
  taker_.Tick(0, server_.processor(), start_ + seconds(4), out);
  EXPECT_THAT(out, IsEmpty());
  taker_.Tick(0, server_.processor(), start_ + seconds(6), out);
  ASSERT_THAT(out, SizeIs(2)) << "one to each shard";
  for (int32_t shard = 0; shard < 2; ++shard) {
    EXPECT_EQ(out[static_cast<size_t>(shard)].topic, Topic::kGradients);
    EXPECT_EQ(out[static_cast<size_t>(shard)].partition, shard);
  }
  EXPECT_EQ(server_.processor().open_snapshot(), 7u);
  EXPECT_EQ(server_.Send(LogRecord{out[0].key, out[0].value}).snapshot, 7u);
  EXPECT_TRUE(server_.processor().at_cut());
  EXPECT_EQ(server_.processor().open_snapshot(), std::nullopt);
  EXPECT_EQ(server_.processor().snapshot_given_up(), 0u);
  // And says it once.
  taker_.Tick(0, server_.processor(), start_ + seconds(62), out);
  EXPECT_THAT(out, SizeIs(2));
}

TEST_F(SnapshotTakerTest, OfOneShardWaitsTwoSecondsForUpdates) {
  training_.set_shards(1);
  std::vector<OutgoingRecord> out;
  server_.Send(Asked(7));
  taker_.Tick(0, server_.processor(), start_, out);
  server_.Send(Update(0, 0, std::vector<float>(6, 1), {0, 6}));
  taker_.Tick(0, server_.processor(), start_ + seconds(1), out);
  taker_.Tick(0, server_.processor(), start_ + seconds(3), out);
  EXPECT_THAT(out, IsEmpty()) << "the last one came two seconds ago";
  taker_.Tick(0, server_.processor(), start_ + seconds(4), out);
  EXPECT_THAT(out, SizeIs(1));
}

TEST_F(SnapshotTakerTest, CancelsASnapshotOfWhichShardZeroTakesNoNotice) {
  std::vector<OutgoingRecord> out;
  server_.Send(Asked(7));
  taker_.Tick(0, server_.processor(), start_, out);
  taker_.Tick(0, server_.processor(), start_ + seconds(6), out);
  taker_.Tick(0, server_.processor(), start_ + seconds(35), out);
  ASSERT_THAT(out, SizeIs(2));
  taker_.Tick(0, server_.processor(), start_ + seconds(37), out);
  ASSERT_THAT(out, SizeIs(4));
  server_.Send(LogRecord{out[2].key, out[2].value});
  EXPECT_EQ(server_.processor().open_snapshot(), std::nullopt);
  EXPECT_EQ(server_.processor().snapshot_given_up(), 7u);
}

TEST_F(SnapshotTakerTest, ARestOfOneThatWasCancelledDoesNotCancelTheNext) {
  server_.Send(Asked(7));
  const OutgoingRecord cancel = SnapshotCancel(config_, 0, 7);
  server_.Send(LogRecord{cancel.key, cancel.value});
  ServerOutput output;
  ASSERT_TRUE(server_.processor().LeaveCut(output).ok());
  server_.Send(Asked(8));
  EXPECT_EQ(server_.processor().snapshot_given_up(), 7u);
  EXPECT_EQ(server_.processor().open_snapshot(), 8u);
}

TEST_F(SnapshotTakerTest, GivesSlowWorkersTimeForTheirUpdates) {
  std::vector<OutgoingRecord> out;
  SnapshotTaker::Time now = start_;
  for (Clock clock = 0; clock < 3; ++clock, now += seconds(100)) {
    taker_.Tick(0, server_.processor(), now, out);
    for (WorkerId worker = 0; worker < 3; ++worker) {
      server_.Send(Update(worker, clock, std::vector<float>(6, 1), {0, 6}));
    }
  }
  taker_.Tick(0, server_.processor(), now, out);
  server_.Send(Asked(7));
  taker_.Tick(0, server_.processor(), now, out);
  taker_.Tick(0, server_.processor(), now + seconds(24), out);
  EXPECT_THAT(out, IsEmpty());
  taker_.Tick(0, server_.processor(), now + seconds(26), out);
  EXPECT_THAT(out, SizeIs(2));
}

TEST_F(SnapshotTakerTest, OnlyTheProcessOfShardZeroGivesUp) {
  std::vector<OutgoingRecord> out;
  server_.Send(Asked(7));
  taker_.Tick(1, server_.processor(), start_, out);
  taker_.Tick(1, server_.processor(), start_ + seconds(3600), out);
  EXPECT_THAT(out, IsEmpty());
}

TEST_F(SnapshotTakerTest, GivesUpASnapshotThatIsRequestedWhileAnotherIsUnderWay) {
  server_.Send(Asked(7));
  server_.Send(Asked(7));
  EXPECT_EQ(server_.processor().snapshot_given_up(), 0u) << "it came twice";
  server_.Send(Asked(8));
  EXPECT_EQ(server_.processor().snapshot_given_up(), 8u);
  EXPECT_EQ(server_.processor().open_snapshot(), 7u);
}

TEST_F(SnapshotTakerTest, KeepsSoManyOfTheNewestAndThatOfTheEnd) {
  training_.set_shards(1);
  config_.mutable_server()->set_snapshots_kept(2);
  DescribeFeatures();
  const auto write = [&](uint64_t id) {
    const Status written = taker_.WritePart(id, server_.options(), server_.processor(), store_);
    ASSERT_TRUE(written.ok()) << written;
    taker_.PartWritten(id, 0, written, start_, start_);
    std::vector<OutgoingRecord> out;
    taker_.Tick(0, server_.processor(), start_ + seconds(id), out);
    ASSERT_TRUE(BecomesFinished(start_ + seconds(id)));
  };
  config_.set_epoch(2);
  write(3);
  config_.set_epoch(1);
  for (const uint64_t id : {5, 10, 15, 20}) write(id);
  write(0);
  EXPECT_FALSE(std::filesystem::exists(SnapshotFolder(config_, 5)));
  EXPECT_FALSE(std::filesystem::exists(PartialSnapshotFolder(config_, 5)));
  EXPECT_FALSE(std::filesystem::exists(SnapshotFolder(config_, 10)));
  EXPECT_TRUE(std::filesystem::exists(Manifest(15)));
  EXPECT_TRUE(std::filesystem::exists(Manifest(20)));
  EXPECT_TRUE(std::filesystem::exists(Manifest(0))) << "that of the end is not counted";
  EXPECT_TRUE(std::filesystem::exists(Manifest(3))) << "another epoch's is not the job's";
  EXPECT_TRUE(std::filesystem::exists(SnapshotFolder(config_, 15) + "/model"));
}

TEST_F(SnapshotTakerTest, RemovesAtItsStartWhatAKilledProcessLeft) {
  training_.set_shards(1);
  DescribeFeatures();
  for (const uint64_t id : {5, 10}) {
    const Status written = taker_.WritePart(id, server_.options(), server_.processor(), store_);
    ASSERT_TRUE(written.ok()) << written;
    taker_.PartWritten(id, 0, written, start_, start_);
    std::vector<OutgoingRecord> out;
    taker_.Tick(0, server_.processor(), start_ + seconds(id), out);
    ASSERT_TRUE(BecomesFinished(start_ + seconds(id)));
  }
  config_.mutable_server()->set_snapshots_kept(1);
  SnapshotTaker next(config_, features_, training_);
  next.ExportLeftOut();
  while (!next.Finished(start_)) std::this_thread::yield();
  EXPECT_FALSE(std::filesystem::exists(SnapshotFolder(config_, 5)));
  EXPECT_TRUE(std::filesystem::exists(Manifest(10)));
}

TEST_F(SnapshotTakerTest, GivesEachSnapshotItsOwnTime) {
  std::vector<OutgoingRecord> out;
  server_.Send(Asked(7));
  taker_.Tick(0, server_.processor(), start_, out);
  for (int i = 0; i < 3; ++i) {
    for (WorkerId worker = 0; worker < 3; ++worker) {
      Gradient update = Update(worker, server_.processor().clocks().clock(worker),
                               std::vector<float>(6, 1), {0, 6});
      update.mutable_update()->mutable_mark()->set_snapshot(7);
      update.mutable_update()->mutable_mark()->set_cut(2);
      if (server_.Send(update).snapshot) {
        ServerOutput output;
        ASSERT_TRUE(server_.processor().LeaveCut(output).ok());
      }
    }
  }
  ASSERT_EQ(server_.processor().open_snapshot(), std::nullopt);
  server_.Send(Asked(8));
  ASSERT_EQ(server_.processor().open_snapshot(), 8u);
  taker_.Tick(0, server_.processor(), start_ + seconds(40), out);
  taker_.Tick(0, server_.processor(), start_ + seconds(44), out);
  EXPECT_THAT(out, IsEmpty());
}

// An update was on its way to one of them.
TEST_F(SnapshotTakerTest, CancelsASnapshotWhosePartsAreNotOfOneCut) {
  std::vector<OutgoingRecord> out;
  TestServer first(OneOfTwo(0));
  TestServer second(OneOfTwo(1));
  second.Send(Update(0, 0, std::vector<float>(3, 1), {3, 6}));
  second.Send(Update(1, 0, std::vector<float>(3, 1), {3, 6}));
  second.Send(Update(2, 0, std::vector<float>(3, 1), {3, 6}));
  ASSERT_EQ(second.processor().clocks().clock(0), 1u);
  Write(taker_, first);
  SnapshotTaker other(config_, features_, training_);  // of another process
  Write(other, second);
  taker_.Tick(0, first.processor(), start_, out);
  ASSERT_THAT(out, SizeIs(2));
  first.Send(LogRecord{out[0].key, out[0].value});
  EXPECT_EQ(first.processor().snapshot_given_up(), 7u) << "who has requested it hears of it";
  EXPECT_FALSE(std::filesystem::exists(Manifest(7)));
}

TEST_F(SnapshotTakerTest, EndsASnapshotWhenTheLastPartHasCome) {
  std::vector<OutgoingRecord> out;
  const TestServer first(OneOfTwo(0));
  const TestServer second(OneOfTwo(1));
  Write(taker_, first);
  taker_.Tick(0, first.processor(), start_, out);
  EXPECT_FALSE(std::filesystem::exists(Manifest(7)));
  SnapshotTaker other(config_, features_, training_);  // of another process
  Write(other, second);
  taker_.Tick(0, first.processor(), start_ + seconds(1), out);
  EXPECT_TRUE(std::filesystem::exists(Manifest(7)));
  EXPECT_THAT(out, IsEmpty());
}

TEST_F(SnapshotTakerTest, WaitsForPartsThatDoNotComeNoLongerThanTwoMinutes) {
  std::vector<OutgoingRecord> out;
  const TestServer first(OneOfTwo(0));
  Write(taker_, first);
  taker_.Tick(0, first.processor(), start_ + seconds(121), out);
  EXPECT_TRUE(taker_.Finished(start_ + seconds(121))) << "nothing is left to wait for";
  EXPECT_FALSE(std::filesystem::exists(Manifest(7)));
}

TEST_F(SnapshotTakerTest, AtTheEndWaitsForPartsForHalfAMinuteWithoutBlocking) {
  const TestServer first(OneOfTwo(0));
  const TestServer second(OneOfTwo(1));
  Write(taker_, first);
  EXPECT_FALSE(taker_.Finished(start_));
  EXPECT_FALSE(taker_.Finished(start_ + seconds(29)));
  EXPECT_TRUE(taker_.Finished(start_ + seconds(31)));
  EXPECT_FALSE(std::filesystem::exists(Manifest(7)));
}

TEST_F(SnapshotTakerTest, AtTheEndIsFinishedWhenTheLastPartHasCome) {
  const TestServer first(OneOfTwo(0));
  const TestServer second(OneOfTwo(1));
  Write(taker_, first);
  EXPECT_FALSE(taker_.Finished(start_));
  SnapshotTaker other(config_, features_, training_);  // of another process
  Write(other, second);
  EXPECT_TRUE(BecomesFinished(start_ + seconds(1)));
  EXPECT_TRUE(std::filesystem::exists(Manifest(7)));
}

TEST_F(SnapshotTakerTest, ARerunDoesNotTakePartsOfThePreviousRun) {
  const TestServer first(OneOfTwo(0));
  const TestServer second(OneOfTwo(1));
  Write(taker_, second);  // of an earlier epoch, whose shard 0 was killed
  config_.set_epoch(config_.epoch() + 1);
  Write(taker_, first);
  std::vector<OutgoingRecord> out;
  taker_.Tick(0, first.processor(), start_, out);
  EXPECT_FALSE(std::filesystem::exists(Manifest(7)));
  Write(taker_, second);
  taker_.Tick(0, first.processor(), start_ + seconds(1), out);
  EXPECT_TRUE(std::filesystem::exists(Manifest(7)));
}

TEST_F(SnapshotTakerTest, ASnapshotHasItsNameWhenItIsWhole) {
  const std::string folder = SnapshotFolder(config_, 7);
  const std::string partial = PartialSnapshotFolder(config_, 7);
  const TestServer first(OneOfTwo(0));
  const TestServer second(OneOfTwo(1));
  Write(taker_, first);
  std::vector<OutgoingRecord> out;
  taker_.Tick(0, first.processor(), start_, out);
  EXPECT_FALSE(std::filesystem::exists(folder));
  EXPECT_TRUE(std::filesystem::exists(partial));
  Write(taker_, second);
  taker_.Tick(0, first.processor(), start_ + seconds(1), out);
  EXPECT_TRUE(std::filesystem::exists(folder));
  EXPECT_FALSE(std::filesystem::exists(partial));
}

TEST_F(SnapshotTakerTest, TheEndOfARerunReplacesThatOfTheRunBefore) {
  training_.set_shards(1);
  ServerOptions options = SmallServer();
  const TestServer only(options);
  for (uint64_t epoch = 1; epoch <= 2; ++epoch) {
    config_.set_epoch(epoch);
    const Status written = taker_.WritePart(0, only.options(), only.processor(), store_);
    ASSERT_TRUE(written.ok()) << written;
    taker_.PartWritten(0, 0, written, start_, start_);
    ASSERT_TRUE(BecomesFinished(start_));
    const StatusOr<SnapshotManifest> manifest = ReadManifest(SnapshotFolder(config_, 0));
    ASSERT_TRUE(manifest.ok()) << manifest.status();
    EXPECT_EQ(manifest->epoch(), epoch);
  }
  EXPECT_FALSE(std::filesystem::exists(SnapshotFolder(config_, 0) + ".replaced"));
}

TEST_F(SnapshotTakerTest, AStartNamesCompleteSnapshotsAndKeepsThoseThatOthersMayBeWriting) {
  const TestServer second(OneOfTwo(1));
  Write(taker_, second);  // half of snapshot 7
  training_.set_shards(1);
  const TestServer only(SmallServer());
  ASSERT_TRUE(taker_.WritePart(0, only.options(), only.processor(), store_).ok());
  SnapshotManifest head;
  head.set_job("job");
  head.set_epoch(1);
  ASSERT_TRUE(*WriteManifest(PartialSnapshotFolder(config_, 0), head));  // killed before the name
  NameWholeSnapshots(config_);
  EXPECT_TRUE(std::filesystem::exists(PartialSnapshotFolder(config_, 7)));
  EXPECT_TRUE(ReadManifest(SnapshotFolder(config_, 0)).ok());
}

TEST_F(SnapshotTakerTest, ACompleteSnapshotGetsItsModel) {
  training_.set_shards(1);
  DescribeFeatures();
  const TestServer only(SmallServer());
  ASSERT_TRUE(taker_.WritePart(0, only.options(), only.processor(), store_).ok());
  taker_.PartWritten(0, 0, absl::OkStatus(), start_, start_);
  ASSERT_TRUE(BecomesFinished(start_));
  const StatusOr<ExportedModel> model = ReadModel(SnapshotFolder(config_, 0) + "/model");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->description.job(), "job");
  EXPECT_EQ(model->weights.size(), 6u);
}

TEST_F(SnapshotTakerTest, AStartExportsTheModelThatAKilledProcessHasLeftOutOfTheNewestSnapshot) {
  training_.set_shards(1);
  DescribeFeatures();
  const TestServer only(SmallServer());
  for (const uint64_t id : {6, 7}) {
    ASSERT_TRUE(taker_.WritePart(id, only.options(), only.processor(), store_).ok());
    taker_.PartWritten(id, 0, absl::OkStatus(), start_, start_);
    ASSERT_TRUE(BecomesFinished(start_));
    const std::string model = SnapshotFolder(config_, id) + "/model";
    ASSERT_TRUE(ReadModel(model).ok());
    std::filesystem::rename(model, model + ".partial");
  }
  SnapshotTaker restarted(config_, features_, training_);
  restarted.ExportLeftOut();
  while (!restarted.Finished(start_)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(ReadModel(SnapshotFolder(config_, 7) + "/model").ok());
  EXPECT_FALSE(std::filesystem::exists(SnapshotFolder(config_, 7) + "/model.partial"));
  EXPECT_FALSE(std::filesystem::exists(SnapshotFolder(config_, 6) + "/model"));
}

TEST_F(SnapshotTakerTest, ASnapshotOfWhichNoModelCanBeMadeIsCompleteNevertheless) {
  training_.set_shards(1);
  const TestServer only(SmallServer());
  ASSERT_TRUE(taker_.WritePart(0, only.options(), only.processor(), store_).ok());
  taker_.PartWritten(0, 0, absl::OkStatus(), start_, start_);
  ASSERT_TRUE(BecomesFinished(start_));
  EXPECT_TRUE(ReadManifest(SnapshotFolder(config_, 0)).ok());
  EXPECT_FALSE(std::filesystem::exists(SnapshotFolder(config_, 0) + "/model"));
}

TEST_F(SnapshotTakerTest, ACompleteSnapshotRemovesOlderPartialOnesOfAKilledServer) {
  const auto folder = [this](std::string_view name) {
    return folder_.path() + "/" + std::string(name) + ".partial";
  };
  for (const char* name : {"job-6", "job-8", "job-end", "job-b-6", "job-6x"}) {
    std::filesystem::create_directory(folder(name));
  }
  const TestServer first(OneOfTwo(0));
  const TestServer second(OneOfTwo(1));
  Write(taker_, first);
  Write(taker_, second);
  ASSERT_TRUE(BecomesFinished(start_));
  ASSERT_TRUE(ReadManifest(SnapshotFolder(config_, 7)).ok());
  EXPECT_FALSE(std::filesystem::exists(folder("job-6")));
  for (const char* name : {"job-8", "job-end", "job-b-6", "job-6x"}) {
    EXPECT_TRUE(std::filesystem::exists(folder(name))) << name;
  }
}

}  // namespace
}  // namespace millrace
