// Handlers of somebody else, which may be wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "models/parameter_handler.h"
#include "tests/processors/parameters_fixture.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr float kNone = std::numeric_limits<float>::quiet_NaN();

// Adds up what it is given, in two slots as well. An update of 13 is bad: as the number or as a
// slot; one whose weight is 13 fails, as does a put of 13. Half of a value is read.
class Whimsical final : public ParameterHandler {
 public:
  size_t slot_count() const override { return 2; }
  bool is_foreign() const override { return true; }
  Status HandlePut(const ParameterSlice& slice, std::span<const float> values) const override {
    slice.values[0] = 99;
    if (values[0] == 13) return absl::AbortedError("thirteen");
    return ParameterHandler::HandlePut(slice, values);
  }
  Status HandleUpdate(const ParameterSlice& slice, std::span<const float> sum,
                      double weight) const override {
    for (size_t i = 0; i < sum.size(); ++i) {
      slice.values[i] += sum[i] + 1000 * static_cast<float>(slice.updates);
      slice.slots[0][i] += sum[i] == 14 ? kNone : sum[i];
      slice.slots[1][i] -= sum[i];
      if (sum[i] == 13) slice.values[i] = kNone;
      if (sum[i] == 15) slice.values[i] = 2e18f;
    }
    return weight == 13 ? absl::AbortedError("thirteen") : absl::OkStatus();
  }
  Status HandleGet(std::span<float> values) const override {
    for (float& value : values) value = value == 16 ? kNone : value / 2;
    return values[0] == 1 ? absl::AbortedError("one") : absl::OkStatus();
  }
};

class ForeignHandlersTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    ASSERT_TRUE(AddParameterHandler("test.whimsical", [](const HandlerSettings&) {
                  return std::make_unique<Whimsical>();
                }).ok());
  }
  // One of four numbers beside another parameter, put, on so many shards.
  static ParameterJob JobOf(uint32_t shards, ConsistencyPolicy policy = kSequential) {
    ParameterJob job({{.size = 1, .handler = "add"}, {.size = 4, .handler = "test.whimsical"}},
                     shards, 1, policy);
    job.Send(0, 0, {.put = {{0, {5}}, {1, {10, 20, 30, 40}}}});
    return job;
  }
  static std::vector<float> ValuesIn(const Weights& answer) {
    return {answer.slice().dense().begin(), answer.slice().dense().end()};
  }
  static uint64_t Refused(ParameterJob& job) {
    uint64_t refused = 0;
    for (uint32_t shard = 0; shard < job.shards(); ++shard) {
      refused += job.server(shard).processor().counters().numbers_refused();
    }
    return refused;
  }
};

TEST_F(ForeignHandlersTest, ANumberThatWouldBecomeNoneKeepsWhatItHadInAnyNumberOfShards) {
  for (const uint32_t shards : {1U, 2U, 3U, 5U}) {
    ParameterJob job = JobOf(shards);
    job.Send(0, 1, {.part = {{1, {13, 14, 15, 1}}}});
    EXPECT_THAT(job.values(), ElementsAre(5, 10, 20, 30, 41)) << shards;
    EXPECT_EQ(Refused(job), 3u) << shards;
    job.Send(0, 2, {.part = {{1, {1, 1, 1, 1}}}});
    EXPECT_THAT(job.values(), ElementsAre(5, 1011, 1021, 1031, 1042)) << "the second update";
    EXPECT_EQ(Refused(job), 3u);
    if (shards > 1) continue;
    // The slots of those that were refused, too.
    const std::span<const float> slots = job.server(0).processor().shard().slots();
    EXPECT_THAT(std::vector(slots.begin() + 1, slots.begin() + 5), ElementsAre(1, 1, 1, 2));
    EXPECT_THAT(std::vector(slots.begin() + 6, slots.end()), ElementsAre(-1, -1, -1, -2));
  }
}

TEST_F(ForeignHandlersTest, AnErrorChangesNothingAndIsCounted) {
  ParameterJob job = JobOf(2);
  job.Send(0, 1, {.part = {{0, {1}}, {1, {1, 1, 1, 1}}}, .weight = 13});
  EXPECT_THAT(job.values(), ElementsAre(6, 10, 20, 30, 40)) << "but other parameters";
  for (const uint32_t shard : {0U, 1U}) {
    EXPECT_EQ(job.server(shard).processor().counters().handler_errors(), 1u);
  }
  job.Send(0, 2, {.part = {{1, {1, 1, 1, 1}}}});
  EXPECT_THAT(job.values(), ElementsAre(6, 11, 21, 31, 41)) << "it is the first update";
}

TEST_F(ForeignHandlersTest, APutThatFailsIsNone) {
  ParameterJob job({{.size = 2, .handler = "test.whimsical"}}, 1, 1, kSequential);
  job.Send(0, 0, {.put = {{0, {13, 1}}}, .part = {{0, {1, 1}}}});
  EXPECT_THAT(job.values(), ElementsAre(0, 0));
  EXPECT_THAT(job.server(0).Answer(0).has_values(), IsEmpty());
  EXPECT_EQ(job.server(0).processor().counters().handler_errors(), 1u);
  EXPECT_EQ(job.server(0).processor().counters().parts_before_put(), 1u);
  job.Send(0, 1, {.put = {{0, {12, 1}}}});
  EXPECT_THAT(job.values(), ElementsAre(12, 1));
}

TEST_F(ForeignHandlersTest, ItsSlotsAndCountsAreAPartOfTheState) {
  ParameterJob calm = JobOf(2);
  ParameterJob restarted = JobOf(2);
  for (uint64_t clock = 1; clock < 20; ++clock) {
    for (const uint32_t shard : {0U, 1U}) restarted.Restart(shard);
    const auto grad = static_cast<float>(clock);  // 13 to 15 are among them
    const PlainUpdate update = {.part = {{1, {grad, 1, grad, 2}}},
                                .weight = clock == 7 ? 13.0 : 1.0};
    calm.Send(0, Clock(clock), update);
    restarted.Send(0, Clock(clock), update);
  }
  for (const uint32_t shard : {0U, 1U}) {
    EXPECT_EQ(restarted.server(shard).StateBytes(), calm.server(shard).StateBytes());
  }
  EXPECT_EQ(restarted.values(), calm.values());
}

TEST_F(ForeignHandlersTest, TrainersReadWhatItMakesOfTheValues) {
  for (const ConsistencyPolicy& policy : AllPolicies()) {
    ParameterJob job = JobOf(1, policy);
    EXPECT_THAT(ValuesIn(job.server(0).Answer(0)), ElementsAre(5, 5, 10, 15, 20));
    EXPECT_THAT(job.values(), ElementsAre(5, 10, 20, 30, 40)) << "as they are stored";
    job.Send(0, 1, {.part = {{1, {6, 0, 0, 0}}}});
    EXPECT_THAT(ValuesIn(job.server(0).Answer(0)), ElementsAre(5, 16, 10, 15, 20))
        << "a number that would become none is read as it is stored";
    job.Send(0, 2, {.part = {{1, {-1014, 0, 0, 0}}}});
    EXPECT_THAT(ValuesIn(job.server(0).Answer(0)), ElementsAre(5, 2, 1020, 1030, 1040))
        << "so are all if it fails";
  }
}

TEST_F(ForeignHandlersTest, AnswersOfTheRoundBeforeAreMadeOfItsValues) {
  ParameterJob job = JobOf(2);
  job.Send(0, 1, {.part = {{1, {2, 2, 2, 2}}}});
  const Weights answer = job.server(1).PreviousAnswer({.worker = 0});
  EXPECT_EQ(answer.clock(), 1u);
  EXPECT_THAT(ValuesIn(answer), ElementsAre(15, 20));
}

TEST(AddParameterHandlerTest, NamesAreOnesOwnAndTakenOnce) {
  const auto factory = [](const HandlerSettings&) { return std::make_unique<Whimsical>(); };
  for (const char* bad : {"sgd", "", "mine", ".mine", "mine.", "a..b", "a b.c", "a.b\n"}) {
    EXPECT_FALSE(AddParameterHandler(bad, factory).ok()) << bad;
  }
  EXPECT_FALSE(AddParameterHandler("long." + std::string(60, 'x'), factory).ok());
  EXPECT_THAT(AddParameterHandler("clipped", factory).message(), HasSubstr("mine.clipped"));
  EXPECT_FALSE(IsParameterHandler("mine.Clipped_2-x"));
  ASSERT_TRUE(AddParameterHandler("mine.Clipped_2-x", factory).ok());
  EXPECT_TRUE(IsParameterHandler("mine.Clipped_2-x"));
  EXPECT_THAT(ParameterHandlerNames(), HasSubstr("assign, add"));
  EXPECT_THAT(ParameterHandlerNames(), HasSubstr(", mine.Clipped_2-x"));
  EXPECT_THAT(AddParameterHandler("mine.Clipped_2-x", factory).message(),
              HasSubstr("there is one"));
  EXPECT_THAT(AddParameterHandler("add", factory).message(), HasSubstr("there is one"));
}

}  // namespace
}  // namespace millrace
