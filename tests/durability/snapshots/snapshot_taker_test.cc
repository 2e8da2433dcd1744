#include "durability/snapshots/snapshot_taker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "durability/snapshots/snapshot_request.h"
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

TEST_F(SnapshotTakerTest, GivesUpWhatAStandingStreamDoesNotBringToItsCut) {
  std::vector<OutgoingRecord> out;
  server_.Send(Asked(7));
  taker_.Tick(0, server_.processor(), start_, out);
  taker_.Tick(0, server_.processor(), start_ + seconds(29), out);
  EXPECT_THAT(out, IsEmpty());
  taker_.Tick(0, server_.processor(), start_ + seconds(31), out);
  ASSERT_THAT(out, SizeIs(1));
  EXPECT_EQ(out[0].topic, Topic::kGradients);
  EXPECT_EQ(out[0].partition, 0);
  EXPECT_EQ(server_.processor().open_snapshot(), 7u);
  server_.Send(LogRecord{out[0].key, out[0].value});
  EXPECT_EQ(server_.processor().open_snapshot(), std::nullopt);
  // And says it once.
  taker_.Tick(0, server_.processor(), start_ + seconds(62), out);
  EXPECT_THAT(out, SizeIs(1));
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
  taker_.Tick(0, server_.processor(), now + seconds(329), out);
  EXPECT_THAT(out, IsEmpty());
  taker_.Tick(0, server_.processor(), now + seconds(331), out);
  EXPECT_THAT(out, SizeIs(1));
}

TEST_F(SnapshotTakerTest, OneThatIsAskedForWhileAnotherIsOnItsWayIsGivenUpAndNotTheOther) {
  server_.Send(Asked(7));
  server_.Send(Asked(7));
  EXPECT_EQ(server_.processor().snapshot_given_up(), 0u) << "it came twice";
  server_.Send(Asked(8));
  EXPECT_EQ(server_.processor().snapshot_given_up(), 8u);
  EXPECT_EQ(server_.processor().open_snapshot(), 7u);
}

TEST_F(SnapshotTakerTest, GivesEachSnapshotItsOwnTime) {
  std::vector<OutgoingRecord> out;
  server_.Send(Asked(7));
  taker_.Tick(0, server_.processor(), start_, out);
  for (int i = 0; i < 3; ++i) {
    for (WorkerId worker = 0; worker < 3; ++worker) {
      Gradient update = Update(worker, server_.processor().clocks().clock(worker),
                               std::vector<float>(6, 1), {0, 6});
      update.set_snapshot(7);
      update.set_cut(2);
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
  taker_.Tick(0, server_.processor(), start_ + seconds(69), out);
  EXPECT_THAT(out, IsEmpty());
}

TEST_F(SnapshotTakerTest, EndsASnapshotWhenTheLastPartHasCome) {
  std::vector<OutgoingRecord> out;
  const TestServer first(OneOfTwo(0));
  const TestServer second(OneOfTwo(1));
  taker_.WritePart(7, first.options(), first.processor(), store_, start_);
  taker_.Tick(0, first.processor(), start_, out);
  EXPECT_FALSE(std::filesystem::exists(Manifest(7)));
  SnapshotTaker(config_, features_, training_)  // of another process
      .WritePart(7, second.options(), second.processor(), store_, start_);
  taker_.Tick(0, first.processor(), start_ + seconds(1), out);
  EXPECT_TRUE(std::filesystem::exists(Manifest(7)));
  EXPECT_THAT(out, IsEmpty());
}

TEST_F(SnapshotTakerTest, WaitsForPartsThatDoNotComeNoLongerThanTwoMinutes) {
  std::vector<OutgoingRecord> out;
  const TestServer first(OneOfTwo(0));
  taker_.WritePart(7, first.options(), first.processor(), store_, start_);
  taker_.Tick(0, first.processor(), start_ + seconds(121), out);
  const auto before = std::chrono::steady_clock::now();
  taker_.Finish();  // nothing is left to wait for
  EXPECT_LT(std::chrono::steady_clock::now() - before, seconds(5));
  EXPECT_FALSE(std::filesystem::exists(Manifest(7)));
}

}  // namespace
}  // namespace millrace
