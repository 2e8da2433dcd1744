// Tables of embedding rows of trainers of one's own, on shards.
#include "processors/shard_tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "tests/processors/parameters_fixture.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Two tables, of rows of two and of three numbers, and a parameter of one between them.
ParameterJob SmallJob(uint32_t shards = 2, uint32_t workers = 1,
                      const std::string& handler = "sgd") {
  return ParameterJob({{.size = 2, .handler = handler, .is_table = true},
                       {.size = 1, .handler = "add"},
                       {.size = 3, .handler = "add", .is_table = true}},
                      shards, workers, kSequential);
}

TEST(ShardTablesTest, RowsOfTheSameIdInTwoTablesAreTwoRows) {
  ParameterJob job = SmallJob();
  job.Send(0, 0, {.rows = {{0, {{7, {2, 4}}}}, {2, {{7, {1, 2, 3}}}}}});
  EXPECT_THAT(job.row(0, 7), ElementsAre(-1, -2));
  EXPECT_THAT(job.row(2, 7), ElementsAre(1, 2, 3));
  EXPECT_THAT(job.row(0, 8), ElementsAre(0, 0)) << "reading creates nothing";
}

TEST(ShardTablesTest, AWeightCountsForAllRowsOfTheTablesThatItsUpdateNamesAndForNoOthers) {
  ParameterJob job = SmallJob(2, 3);
  job.Send(0, 0, {.weight = 1, .rows = {{0, {{1, {4, 4}}}}}});
  job.Send(1, 0, {.weight = 3, .rows = {{0, {{2, {4, 8}}}}}});
  job.Send(2, 0, {.weight = 100, .rows = {{2, {{1, {1, 1, 1}}}}}});
  EXPECT_THAT(job.row(0, 1), ElementsAre(-0.5, -0.5));
  EXPECT_THAT(job.row(0, 2), ElementsAre(-0.5, -1));
}

TEST(ShardTablesTest, TheLastWorkersAssignmentOfARowCounts) {
  ParameterJob job = SmallJob(2, 3, "assign");
  job.Send(2, 0, {.rows = {{0, {{1, {3, 3}}}}}});
  job.Send(1, 0, {.rows = {{0, {{1, {2, 2}}, {5, {2, 2}}}}}});
  job.Send(0, 0, {.rows = {{0, {{5, {1, 1}}}}}});
  EXPECT_THAT(job.row(0, 1), ElementsAre(3, 3));
  EXPECT_THAT(job.row(0, 5), ElementsAre(2, 2));
}

// Adam's first steps are larger than its later ones.
TEST(ShardTablesTest, AllShardsCountTheStepsOfATableWhicheverRowsTheyHave) {
  std::vector<std::vector<float>> rows;
  for (const uint32_t shards : {1, 2, 3, 5}) {
    ParameterJob job = SmallJob(shards, 1, "adam");
    for (uint64_t i = 0; i < 6; ++i) job.Send(0, Clock(i), {.rows = {{0, {{i, {1, 1}}}}}});
    for (uint64_t i = 0; i < 6; ++i) rows.push_back(job.row(0, i));
    EXPECT_TRUE(std::equal(rows.begin(), rows.begin() + 6, rows.end() - 6)) << shards;
    EXPECT_NE(rows[0], rows[5]);
  }
}

TEST(ShardTablesTest, TheAnswerHasTheRowsThatItsUpdateWantedEachAsWideAsItsTable) {
  ParameterJob job = SmallJob(1);
  job.Send(0, 0, {.rows = {{0, {{1, {2, 2}}}}, {2, {{1, {1, 2, 3}}}}}});
  Gradient update = job.PartOfUpdate(0, 0, 1, {});
  for (const EmbeddingId row : {job.RowOf(0, 1), job.RowOf(0, 2), job.RowOf(2, 1)}) {
    update.mutable_update()->add_wanted(row);
  }
  job.server(0).Send(update);
  const EmbeddingBlock rows = job.server(0).Answer(0).embeddings();
  EXPECT_THAT(rows.id(), ElementsAre(job.RowOf(0, 1), job.RowOf(0, 2), job.RowOf(2, 1)));
  EXPECT_THAT(rows.value(), ElementsAre(-1, -1, 0, 0, 1, 2, 3));
}

TEST(ShardTablesTest, TheAnswerOfTheClockBeforeHasTheRowsOfThen) {
  ParameterJob job = SmallJob(2);
  const EmbeddingId row = job.RowOf(2, 1);
  TestServer& server = job.server(ShardOfEmbedding(row, 2));
  job.Send(0, 0, {.rows = {{2, {{1, {1, 2, 3}}}}}});
  job.Send(0, 1, {.rows = {{2, {{1, {1, 1, 1}}}}}});
  Gradient ask = Message(Gradient::kAsk, 0, 1);
  ask.mutable_ask()->add_wanted(row);
  const ServerOutput asked = server.Send(ask);
  ASSERT_EQ(asked.previous_answers.size(), 1u);
  EXPECT_THAT(server.PreviousAnswer(asked.previous_answers[0]).embeddings().value(),
              ElementsAre(1, 2, 3));
  EXPECT_THAT(job.row(2, 1), ElementsAre(2, 3, 4));
}

TEST(ShardTablesTest, AnUpdateWithANanInARowCountsAsAnEmptyOneOfItsClock) {
  ParameterJob job = SmallJob(1);
  const PlainUpdate bad = {
      .rows = {{0, {{1, {1, std::numeric_limits<float>::quiet_NaN()}}, {2, {1, 1}}}}}};
  EXPECT_EQ(job.server(0).Send(job.PartOfUpdate(0, 0, 0, bad)).dead_letters.size(), 1u);
  EXPECT_EQ(job.server(0).Answer(0).clock(), 1u);
  EXPECT_THAT(job.row(0, 2), ElementsAre(0, 0));
}

TEST(ShardTablesTest, AStepOfWhichARowIsNotFiniteChangesNothing) {
  ParameterJob job = SmallJob(1);
  job.Send(0, 0, {.put = {{1, {5}}}});
  job.Send(0, 1, {.part = {{1, {1}}}, .weight = 1e-30, .rows = {{0, {{1, {1e18f, 0}}}}}});
  EXPECT_THAT(job.values(), ElementsAre(5));
  EXPECT_THAT(job.row(0, 1), ElementsAre(0, 0));
  EXPECT_EQ(job.server(0).processor().counters().non_finite_updates(), 1u);
}

std::string RefusalOf(ParameterJob& job, const Gradient& message) {
  const ServerOutput output = job.server(0).Send(message);
  EXPECT_EQ(job.server(0).Answer(0).clock(), 0u);
  return output.dead_letters.empty() ? "" : output.dead_letters[0].reason();
}

TEST(ShardTablesTest, RefusesWhatDoesNotFitTheTables) {
  ParameterJob job = SmallJob(1);
  const Gradient good = job.PartOfUpdate(0, 0, 0, {.rows = {{0, {{1, {1, 2}}}}}});
  Gradient message = good;
  message.mutable_update()->mutable_embeddings()->add_value(3);
  EXPECT_THAT(RefusalOf(job, message), HasSubstr("3 values of 1 rows that have 2"));
  message = good;
  message.mutable_update()->mutable_embeddings()->set_id(0, RowIn(2, 1));
  EXPECT_THAT(RefusalOf(job, message), HasSubstr("a row of table 2 of a job of 2"));
  message = good;
  message.mutable_update()->set_table(0, 1);
  EXPECT_THAT(RefusalOf(job, message), HasSubstr("parameter 1, which is no table"));
  message = good;
  message.mutable_update()->set_table(0, 2);
  EXPECT_THAT(RefusalOf(job, message), HasSubstr("which it does not name"));
  message = good;
  message.mutable_update()->add_table(0);
  EXPECT_THAT(RefusalOf(job, message), HasSubstr("out of order"));
  message = good;
  message.mutable_update()->set_weight_sum(0);
  EXPECT_THAT(RefusalOf(job, message), HasSubstr("without a weight"));
  message = good;
  message.mutable_update()->add_wanted(RowIn(2, 1));
  EXPECT_THAT(RefusalOf(job, message), HasSubstr("a row of table 2"));
  EXPECT_THAT(job.row(0, 1), ElementsAre(0, 0));
}

TEST(ShardTablesTest, LoadsOnlyWhatItCanHaveSaved) {
  ParameterJob job = SmallJob(1);
  job.Send(0, 0, {.rows = {{0, {{1, {1, 2}}}}}});
  ShardState state;
  job.server(0).processor().SaveState(state);
  const auto loads = [&](const ShardState& changed) {
    return TestServer(job.server(0).options()).processor().LoadState(changed).ok();
  };
  EXPECT_TRUE(loads(state));
  ASSERT_EQ(state.parameters_size(), 1);
  ShardState changed = state;
  changed.mutable_parameters(0)->set_values_from(1);
  EXPECT_FALSE(loads(changed)) << "nobody puts a table";
  changed = state;
  changed.mutable_parameters(0)->set_updates(2);
  EXPECT_FALSE(loads(changed)) << "more steps than the shard has made";
  changed = state;
  changed.mutable_members(0)->add_wanted()->add_id(RowIn(2, 1));
  EXPECT_FALSE(loads(changed)) << "a row of no table";
}

}  // namespace
}  // namespace millrace
