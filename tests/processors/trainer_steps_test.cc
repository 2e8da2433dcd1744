// The rows that a trainer's steps read, want and change.
#include "processors/trainer_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "topics/partitioning.h"
#include "topics/slice_codec.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A parameter of one number between two tables, of rows of one and of two numbers.
TrainerSteps StepsOn(uint32_t shards) {
  std::vector<KeyRange> ranges(shards);
  ranges[0] = {0, 1};
  for (uint32_t shard = 1; shard < shards; ++shard) ranges[shard] = {1, 1};
  return TrainerSteps({{0, 0}, {0, 1}, {1, 1}},
                      {{.parameter = 0, .width = 1}, {.parameter = 2, .width = 2}}, ranges);
}

std::shared_ptr<const Slice> SliceOf(uint64_t begin, const std::vector<float>& values) {
  auto slice = std::make_shared<Slice>();
  EncodeDenseSlice(values, {begin, begin + values.size()}, *slice);
  return slice;
}

// The value of the parameter.
void TakeValue(Clock clock, float value, TrainerSteps& steps) {
  steps.TakeValues(clock, {SliceOf(0, {value})}, {});
}

std::vector<float> Copied(const TrainerSteps& steps, const std::vector<EmbeddingId>& ids) {
  std::vector<float> scratch;
  const std::span<const float> values = steps.Rows(ids, scratch);
  return {values.begin(), values.end()};
}

void TakeRows(TrainerSteps& steps, std::vector<float> values) { steps.TakeRows(values); }

TEST(TrainerSteps, ReadTheRowsOfAStepInSeveralPartsInAnyOrder) {
  TrainerSteps steps = StepsOn(1);
  TakeValue(Clock(1), 5, steps);
  const EmbeddingId wide = RowIn(1, 4);
  steps.ReadRows(std::vector<EmbeddingId>{3, wide});
  steps.ReadRows(std::vector<EmbeddingId>{2, 3});
  EXPECT_THAT(steps.MissingRows(), ElementsAre(2, 3, wide));
  EXPECT_FALSE(steps.HasRows(std::vector<EmbeddingId>{3}));
  TakeRows(steps, {20, 0, 30, 0, 40, 41});
  EXPECT_THAT(steps.MissingRows(), IsEmpty());
  steps.ReadRows(std::vector<EmbeddingId>{1, 3, 7, RowIn(1, 9)});
  EXPECT_THAT(steps.MissingRows(), ElementsAre(1, 7, RowIn(1, 9)));
  EXPECT_FALSE(steps.HasRows(std::vector<EmbeddingId>{1, 3}));
  TakeRows(steps, {10, 0, 70, 0, 90, 91});
  const std::vector<EmbeddingId> all = {1, 2, 3, 7, wide, RowIn(1, 9)};
  EXPECT_TRUE(steps.HasRows(all));
  EXPECT_THAT(steps.ValuesOf(2), ElementsAre(20));
  EXPECT_THAT(steps.ValuesOf(wide), ElementsAre(40, 41));
  EXPECT_THAT(Copied(steps, all), ElementsAre(10, 0, 20, 0, 30, 0, 70, 0, 40, 41, 90, 91));
  EXPECT_THAT(Copied(steps, {2, wide}), ElementsAre(20, 0, 40, 41));
}

TEST(TrainerSteps, HaveTheValuesOfAParameterWhicheverShardsHaveThem) {
  TrainerSteps steps({{0, 3}, {3, 4}}, {}, {{0, 2}, {2, 4}});
  steps.TakeValues(Clock(1), {SliceOf(0, {1, 2}), SliceOf(2, {3, 4})}, {});
  EXPECT_THAT(steps.values(), ElementsAre(1, 2, 3, 4));
  std::vector<float> first(3);
  steps.CopyValues({0, 3}, first);
  EXPECT_THAT(first, ElementsAre(1, 2, 3));
  std::vector<float> second(1);
  steps.CopyValues({3, 4}, second);
  EXPECT_THAT(second, ElementsAre(4));
  steps.WantValues();
  EXPECT_EQ(steps.values_at(), std::nullopt);
  steps.TakeValues(Clock(2), {SliceOf(0, {5, 6}), SliceOf(2, {7, 8})}, {});
  EXPECT_THAT(steps.values(), ElementsAre(5, 6, 7, 8));
}

TEST(TrainerSteps, RowsAreOfOneClock) {
  TrainerSteps steps = StepsOn(1);
  TakeValue(Clock(1), 5, steps);
  steps.ReadRows(std::vector<EmbeddingId>{3, 4});
  TakeRows(steps, {30, 0, 40, 0});
  steps.ReadRows(std::vector<EmbeddingId>{5});
  TakeValue(Clock(2), 6, steps);
  EXPECT_FALSE(steps.HasRows(std::vector<EmbeddingId>{3}));
  EXPECT_THAT(steps.MissingRows(), IsEmpty());
  steps.ReadRows(std::vector<EmbeddingId>{3});
  TakeRows(steps, {31, 0});
  EXPECT_THAT(steps.ValuesOf(3), ElementsAre(31));
  steps.WantValues();
  EXPECT_FALSE(steps.HasRows(std::vector<EmbeddingId>{3}));
}

TEST(TrainerSteps, AStepIsCutIntoTheRowsOfEachShardAndNamesItsTablesToAll) {
  for (const uint32_t shards : {1, 2, 3}) {
    const TrainerSteps steps = StepsOn(shards);
    TrainerStep step{.weight = 1};
    for (uint64_t id = 0; id < 20; ++id) {
      step.table_rows.ids.push_back(id);
      step.table_rows.values.push_back(static_cast<float>(id));
      step.wanted.push_back(id);
    }
    step.table_rows.ids.push_back(RowIn(1, 1));
    step.table_rows.values.insert(step.table_rows.values.end(), {100, 101});
    size_t rows = 0;
    size_t wanted = 0;
    Gradient::Update update;
    StepRows scratch;
    for (ShardId shard = 0; shard < shards; ++shard) {
      steps.NameRows(step, shard, update);
      EXPECT_THAT(update.table(), ElementsAre(0, 2));
      const TableRowsView cut = steps.CutRows(step, shard, scratch);
      const float* value = cut.values.data();
      for (const EmbeddingId id : cut.ids) {
        EXPECT_EQ(ShardOfEmbedding(id, shards), shard);
        EXPECT_EQ(*value++, TableOf(id) == 0 ? static_cast<float>(id) : 100);
        if (TableOf(id) == 0) continue;
        EXPECT_EQ(*value++, 101);
      }
      EXPECT_EQ(value, cut.values.data() + cut.values.size());
      rows += cut.ids.size();
      wanted += static_cast<size_t>(update.wanted_size());
    }
    EXPECT_EQ(rows, 21u);
    EXPECT_EQ(wanted, 20u);
  }
}

TEST(TrainerSteps, AShardIsSentItsNumbersOfEachParameterAndTheStepStaysAsLongAsItIsSent) {
  TrainerSteps steps({{0, 3}, {3, 4}}, {}, {{0, 2}, {2, 4}});
  steps.Add(Clock(1), {.part = {{0, {1, 2, 3}}, {1, {4}}}, .weight = 1});
  const std::shared_ptr<const TrainerStep> step = steps.Of(Clock(1));
  const std::vector<PartView> first = steps.Cut(step->part, ShardId(0));
  const std::vector<PartView> second = steps.Cut(step->part, ShardId(1));
  steps.Forget({.clock = 2});
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first[0].parameter, 0u);
  EXPECT_THAT(first[0].values, ElementsAre(1, 2));
  ASSERT_EQ(second.size(), 2u);
  EXPECT_THAT(second[0].values, ElementsAre(3));
  EXPECT_EQ(second[1].parameter, 1u);
  EXPECT_THAT(second[1].values, ElementsAre(4));
}

TEST(TrainerSteps, AShardWithoutRowsOfTheStepIsSentNone) {
  const TrainerSteps steps = StepsOn(2);
  TrainerStep step{.weight = 1};
  step.table_rows = {.ids = {3}, .values = {1}};
  Gradient::Update update;
  const ShardId other(1 - uint32_t{ShardOfEmbedding(3, 2)});
  StepRows scratch;
  EXPECT_THAT(steps.CutRows(step, other, scratch).ids, IsEmpty());
  steps.NameRows(step, other, update);
  EXPECT_THAT(update.table(), ElementsAre(0));
}

}  // namespace
}  // namespace millrace
