#include "producer/resume_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "topics/row_codec.h"

namespace millrace {
namespace {

using testing::HasSubstr;
using Action = ResumePlan::Action;

constexpr RowShape kShape = {.numeric = 1, .features = 1, .classes = 2};

std::string Value(double number) { return EncodeRow({1, {number}, {}, {}}); }

PartitionTail RowsUpTo(RowNumber rows, std::string last) { return {rows, false, std::move(last)}; }
PartitionTail EndedAt(RowNumber rows, uint64_t fingerprint = 0) {
  return {rows, true, "", fingerprint};
}

ResumePlan PlanOfTails(std::vector<PartitionTail> tails, uint32_t rows_per_turn = 1) {
  const Dealing dealing = {.workers = static_cast<uint32_t>(tails.size()),
                           .rows_per_turn = rows_per_turn};
  return {std::move(tails), dealing};
}

TEST(PartitionTail, FollowsFromTheLastRecord) {
  const PartitionTail row = TailOfRecord(EncodeInputKey({41, 1}), Value(3), kShape).value();
  EXPECT_EQ(row.rows, 42u);
  EXPECT_FALSE(row.ended);
  EXPECT_EQ(row.last_value, Value(3));
  const PartitionTail end = TailOfRecord(EncodeInputKey({42, 0}), EncodeEnd(42), kShape).value();
  EXPECT_EQ(end.rows, 42u);
  EXPECT_TRUE(end.ended);
  EXPECT_EQ(end.fingerprint, 0u);
  EXPECT_EQ(TailOfRecord(EncodeInputKey({42, 0}), EncodeEnd(42, 7), kShape).value().fingerprint,
            7u);
}

TEST(PartitionTail, OfARecordOfManyRowsItIsTheLast) {
  RowBatchEncoder batch;
  for (const double number : {3, 4, 5}) batch.Add({1, {number}, {}, {}});
  const PartitionTail tail =
      TailOfRecord(EncodeInputKey({41, 3}), EncodeRows(batch), kShape).value();
  EXPECT_EQ(tail.rows, 44u);
  EXPECT_FALSE(tail.ended);
  EXPECT_EQ(tail.last_value, Value(5));
}

TEST(PartitionTail, IsToldByNoFlush) {
  EXPECT_TRUE(
      absl::IsNotFound(TailOfRecord(EncodeInputKey({42, 0}), EncodeFlush(42), kShape).status()));
}

TEST(PartitionTail, RefusesRecordsThatAreNotOfTheJob) {
  EXPECT_FALSE(TailOfRecord("41", Value(3), kShape).ok());
  EXPECT_FALSE(TailOfRecord(EncodeInputKey({1, 1}), "junk", kShape).ok());
  EXPECT_FALSE(TailOfRecord(EncodeInputKey({41, 0}), EncodeEnd(42), kShape).ok());
  const RowShape other = {.numeric = 2, .features = 2, .classes = 2};
  EXPECT_FALSE(TailOfRecord(EncodeInputKey({1, 1}), Value(3), other).ok());
}

TEST(ResumePlan, AFreshTopicGetsEverything) {
  const ResumePlan plan = PlanOfTails(std::vector<PartitionTail>(3));
  EXPECT_TRUE(plan.fresh());
  EXPECT_FALSE(plan.all_ended());
  EXPECT_EQ(plan.ActionFor({2, 0}), Action::kSend);
  EXPECT_TRUE(plan.CheckEnd(0, "t").ok());
}

TEST(ResumePlan, GoesOnAfterEachPartitionsLastRow) {
  const ResumePlan plan = PlanOfTails({RowsUpTo(3, Value(2)), EndedAt(5), PartitionTail()});
  EXPECT_FALSE(plan.fresh());
  EXPECT_FALSE(plan.all_ended());
  EXPECT_EQ(plan.rows_present(), 8u);
  EXPECT_EQ(plan.ActionFor({0, 1}), Action::kSkip);
  EXPECT_EQ(plan.ActionFor({0, 2}), Action::kCheck);
  EXPECT_EQ(plan.ActionFor({0, 3}), Action::kSend);
  EXPECT_EQ(plan.ActionFor({1, 4}), Action::kSkip);
  EXPECT_EQ(plan.ActionFor({1, 5}), Action::kAfterEnd);
  EXPECT_EQ(plan.ActionFor({2, 0}), Action::kSend);
}

TEST(ResumePlan, NoticesRowsOfAnotherInput) {
  const ResumePlan plan = PlanOfTails({RowsUpTo(3, Value(2)), RowsUpTo(3, Value(9))});
  EXPECT_TRUE(plan.Check({0, 2}, Value(2), "job.input-data").ok());
  const Status other = plan.Check({1, 2}, Value(2), "job.input-data");
  EXPECT_TRUE(absl::IsFailedPrecondition(other));
  EXPECT_THAT(other.message(), HasSubstr("job.input-data [1] holds rows of another input"));
}

TEST(ResumePlan, NoticesAnInputThatIsTooShortOrEndedElsewhere) {
  EXPECT_TRUE(PlanOfTails({RowsUpTo(3, ""), RowsUpTo(2, "")}).CheckEnd(5, "t").ok());
  EXPECT_FALSE(PlanOfTails({RowsUpTo(3, ""), RowsUpTo(3, "")}).CheckEnd(5, "t").ok());
  EXPECT_TRUE(PlanOfTails({EndedAt(3), RowsUpTo(2, "")}).CheckEnd(5, "t").ok());
  EXPECT_FALSE(PlanOfTails({EndedAt(2), RowsUpTo(2, "")}).CheckEnd(5, "t").ok());
  EXPECT_FALSE(PlanOfTails({EndedAt(3), RowsUpTo(2, "")}).CheckEnd(7, "t").ok());
}

TEST(ResumePlan, CountsRowsByTurns) {
  EXPECT_TRUE(PlanOfTails({RowsUpTo(3, ""), RowsUpTo(2, "")}, 3).CheckEnd(5, "t").ok());
  EXPECT_TRUE(PlanOfTails({EndedAt(4), RowsUpTo(3, "")}, 3).CheckEnd(7, "t").ok());
  EXPECT_FALSE(PlanOfTails({EndedAt(3), RowsUpTo(3, "")}, 3).CheckEnd(7, "t").ok());
}

TEST(ResumePlan, NoticesAsManyOtherRowsBeforeAnEnd) {
  const ResumePlan plan = PlanOfTails({EndedAt(3, 7), EndedAt(3), RowsUpTo(3, "")});
  EXPECT_TRUE(plan.CheckFingerprint(0, 7, "t").ok());
  const Status other = plan.CheckFingerprint(0, 8, "t");
  EXPECT_TRUE(absl::IsFailedPrecondition(other));
  EXPECT_THAT(other.message(), HasSubstr("t [0] holds rows of another input: as many as this"));
  EXPECT_TRUE(plan.CheckFingerprint(1, 8, "t").ok()) << "an older version wrote the end";
  EXPECT_TRUE(plan.CheckFingerprint(2, 8, "t").ok()) << "it has not ended";
}

TEST(ResumePlan, KnowsWhenEverythingHasEnded) {
  EXPECT_TRUE(PlanOfTails({EndedAt(3), EndedAt(0)}).all_ended());
  EXPECT_FALSE(PlanOfTails({EndedAt(0), EndedAt(0)}).fresh());
}

}  // namespace
}  // namespace millrace
