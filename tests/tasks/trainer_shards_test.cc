// A trainer of one's own whose job goes over to other shards in the middle of its steps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/big_endian.h"
#include "models/external_model.h"
#include "tasks/trainer_task.h"
#include "tests/processors/parameters_fixture.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint32_t kNumberOfTable = 2;

std::vector<PlainParameters::Parameter> NumbersAndATable() {
  return {{.size = 3, .handler = "add"},
          {.size = 4, .handler = "add"},
          {.size = 2, .handler = "add", .is_table = true}};
}

// Of one trainer.
class ShardsOfATrainer : public ParameterJob {
 public:
  explicit ShardsOfATrainer(uint32_t shards)
      : ParameterJob(NumbersAndATable(), shards, 1, kSequential) {}
};

class GoingTrainerTest : public testing::Test {
 protected:
  GoingTrainerTest()
      : task_(OptionsFor(before_), model_, std::vector<KeyRange>{{0, 3}, {3, 7}, {7, 7}}, 1) {
    Start(before_);
  }

  static WorkerOptions OptionsFor(const ShardsOfATrainer& shards) {
    WorkerOptions options;
    options.shards = shards.shards();
    options.classes = 0;
    options.tables = {{.parameter = kNumberOfTable, .width = 2}};
    return options;
  }

  // Asks where the trainer stands.
  void Start(ShardsOfATrainer& shards) {
    std::vector<OutgoingRecord> out;
    task_.Start(out);
    Deliver(std::move(out), shards);
    Advance(shards);
  }
  void Advance(ShardsOfATrainer& shards) {
    std::vector<OutgoingRecord> out;
    ASSERT_TRUE(task_.Advance(out).ok());
    if (out.empty()) return;
    Deliver(std::move(out), shards);
    Advance(shards);
  }
  // Says what there is to say to shards that take nothing any more.
  void AdvanceInVain() {
    std::vector<OutgoingRecord> out;
    ASSERT_TRUE(task_.Advance(out).ok());
  }

  EmbeddingId Row(uint64_t id) const { return after_.RowOf(kNumberOfTable, id); }
  // Puts the parameters and changes rows.
  TrainerStep FirstStep() const {
    return {.put = {{0, {1, 2, 3}}, {1, {4, 5, 6, 7}}},
            .table_rows = {.ids = {Row(1), Row(2), Row(3)}, .values = {1, 2, 3, 4, 5, 6}},
            .weight = 1};
  }
  static PlainUpdate FirstUpdate() {
    return {.put = {{0, {1, 2, 3}}, {1, {4, 5, 6, 7}}},
            .rows = {{kNumberOfTable, {{1, {1, 2}}, {2, {3, 4}}, {3, {5, 6}}}}}};
  }
  void ExpectFirstStep(const ShardsOfATrainer& shards) {
    EXPECT_THAT(shards.values(), ElementsAre(1, 2, 3, 4, 5, 6, 7));
    for (uint64_t id = 1; id <= 3; ++id) {
      const auto first = static_cast<float>(2 * id - 1);
      EXPECT_THAT(shards.row(kNumberOfTable, id), ElementsAre(first, first + 1));
    }
  }

  ShardsOfATrainer before_{4};
  ShardsOfATrainer after_{3};
  ExternalModel model_{7, 2};
  TrainerTask task_;

 private:
  void Deliver(std::vector<OutgoingRecord> records, ShardsOfATrainer& shards) {
    for (OutgoingRecord& record : records) {
      const auto shard = static_cast<uint32_t>(record.partition);
      ASSERT_LT(shard, shards.shards());
      TestServer& server = shards.server(shard);
      const ServerOutput output = server.Send(LogRecord{record.key, record.value});
      ASSERT_TRUE(output.dead_letters.empty()) << output.dead_letters[0].reason();
      for (const WorkerId worker : output.answers) {
        const uint64_t replies_to = output.reply ? output.reply->number : 0;
        const auto body = server.processor().Answer(worker, {.answers_to = replies_to});
        ASSERT_TRUE(body.ok()) << body.status();
        const std::string key = EncodeBigEndian32(shard) + EncodeBigEndian32(0);
        ASSERT_TRUE(task_.ProcessWeights(key, MakeFrames(body->Joined(), 0).front()).ok());
      }
    }
  }
};

TEST_F(GoingTrainerTest, SaysAStepThatNobodyHasTakenToTheNextShards) {
  task_.steps().Add(0, FirstStep());
  AdvanceInVain();
  task_.GoOver(OptionsFor(after_), 2);
  EXPECT_FALSE(task_.answered());
  EXPECT_EQ(task_.steps().values_at(), std::nullopt);
  Start(after_);
  EXPECT_EQ(task_.clock(), Clock(1));
  EXPECT_EQ(task_.steps().pending(), 0u);
  ExpectFirstStep(after_);
  EXPECT_EQ(task_.steps().values_at(), Clock(1));
  EXPECT_THAT(task_.steps().values(), ElementsAre(1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(task_.steps().has_values(), ElementsAre(0, 1, kNumberOfTable))
      << "of parts on other shards";
}

TEST_F(GoingTrainerTest, SaysNoStepAgainThatTheShardsHaveTaken) {
  task_.steps().Add(0, FirstStep());
  AdvanceInVain();
  after_.Send(WorkerId(0), 0, FirstUpdate());  // as the sealed shards had it
  task_.GoOver(OptionsFor(after_), 2);
  Start(after_);
  EXPECT_EQ(task_.clock(), Clock(1));
  EXPECT_EQ(task_.steps().pending(), 0u);
  ExpectFirstStep(after_);
  for (uint32_t shard = 0; shard < after_.shards(); ++shard) {
    EXPECT_EQ(after_.server(shard).processor().counters().duplicates_ignored(), 0u);
  }
}

TEST_F(GoingTrainerTest, ReadsItsRowsFromTheNextShards) {
  const std::vector<EmbeddingId> rows = {Row(1), Row(2), Row(3)};
  task_.steps().ReadRows(rows);
  Advance(before_);
  EXPECT_TRUE(task_.steps().HasRows(rows));
  after_.Send(WorkerId(0), 0, FirstUpdate());
  task_.GoOver(OptionsFor(after_), 2);
  EXPECT_FALSE(task_.steps().HasRows(rows));
  EXPECT_THAT(task_.steps().MissingRows(), IsEmpty());
  Start(after_);
  task_.steps().ReadRows(rows);
  Advance(after_);
  ASSERT_TRUE(task_.steps().HasRows(rows));
  EXPECT_THAT(task_.steps().ValuesOf(Row(2)), ElementsAre(3, 4));
}

TEST_F(GoingTrainerTest, LeavesTheNextShardsIfItWasLeaving) {
  task_.steps().Leave();
  AdvanceInVain();
  task_.GoOver(OptionsFor(after_), 2);
  EXPECT_FALSE(task_.left());
  Start(after_);
  EXPECT_TRUE(task_.left());
}

}  // namespace
}  // namespace millrace
