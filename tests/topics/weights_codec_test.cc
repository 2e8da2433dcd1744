#include "topics/weights_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "topics/gradient_codec.h"
#include "topics/slice_codec.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

constexpr WeightsShape kWeights = {
    .job = 77, .epoch = 3, .shards = 2, .workers = 5, .parameters = 8, .numeric_columns = 0};

Weights GoodAnswer() {
  Weights message;
  message.set_job(77);
  message.set_epoch(3);
  message.set_shard(1);
  message.set_clock(5);
  message.set_released(true);
  message.mutable_rows()->set_end(50);
  return message;
}

TEST(WeightsCodec, AnAnswerComesBackWithItsValues) {
  const std::vector<float> values = {1, 2, 3, 4};
  const StatusOr<MessageBytes> bytes = SerializeWeights(GoodAnswer(), values, {4, 8});
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  Weights right = GoodAnswer();
  EncodeDenseSlice(values, {4, 8}, *right.mutable_slice());
  const StatusOr<Weights> read = DecodeWeights(bytes->Joined(), kWeights);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->SerializeAsString(), right.SerializeAsString());
}

TEST(WeightsCodec, ParametersWithValuesAscend) {
  const auto complaint = [](const std::vector<uint32_t>& has_values) {
    Weights message = GoodAnswer();
    EncodeDenseSlice(std::vector<float>{1, 2, 3, 4}, {4, 8}, *message.mutable_slice());
    message.mutable_has_values()->Assign(has_values.begin(), has_values.end());
    SharedWeights shared;
    shared.set_job(77);
    shared.set_epoch(3);
    shared.set_shard(1);
    *shared.mutable_slice() = message.slice();
    *shared.mutable_has_values() = message.has_values();
    const Status of_all = DecodeSharedWeights(shared.SerializeAsString(), kWeights).status();
    const Status of_one = DecodeWeights(message.SerializeAsString(), kWeights).status();
    EXPECT_EQ(of_one.message(), of_all.message());
    return std::string(of_one.message());
  };
  EXPECT_EQ(complaint({0, 3, 4}), "");
  EXPECT_THAT(complaint({0, 3, 3}), HasSubstr("out of order"));
  EXPECT_THAT(complaint({3, 0}), HasSubstr("out of order"));
}

TEST(WeightsCodec, AnAnswerWithoutValuesNamesNoParameters) {
  Weights message = GoodAnswer();
  message.set_released(false);
  EXPECT_TRUE(DecodeWeights(message.SerializeAsString(), kWeights).ok());
  message.add_has_values(0);
  EXPECT_FALSE(DecodeWeights(message.SerializeAsString(), kWeights).ok());
}

void SetMark(Weights& message, Clock cut) {
  message.mutable_mark()->set_snapshot(1);
  message.mutable_mark()->set_cut(cut);
}

TEST(WeightsCodec, TakesACutTwoUpdatesOn) {
  Weights message = GoodAnswer();
  EncodeDenseSlice(std::vector<float>{1, 2, 3, 4}, {4, 8}, *message.mutable_slice());
  SetMark(message, 7);
  EXPECT_TRUE(DecodeWeights(message.SerializeAsString(), kWeights).ok());
  // That of the clock before is made when its worker is one further.
  SetMark(message, 8);
  message.set_previous_round(true);
  EXPECT_TRUE(DecodeWeights(message.SerializeAsString(), kWeights).ok());
}

// A worker keeps an answer as it is, to give back what a shard has lost.
TEST(WeightsCodec, RefusesValuesInAnAnswerThatHasNoneToGive) {
  const std::vector<std::function<void(Weights&)>> values = {
      [](Weights& m) {
        EncodeDenseSlice(std::vector<float>{1, 2}, {0, 2}, *m.mutable_slice());
      },
      [](Weights& m) { m.mutable_moments()->add_mean(1); },
      [](Weights& m) { m.mutable_embeddings()->add_id(1); }};
  for (const auto& add : values) {
    for (const bool left : {true, false}) {
      Weights message = GoodAnswer();
      message.set_left(left);
      message.set_released(left);
      ASSERT_TRUE(DecodeWeights(message.SerializeAsString(), kWeights).ok());
      add(message);
      const Status status = DecodeWeights(message.SerializeAsString(), kWeights).status();
      EXPECT_TRUE(absl::IsInvalidArgument(status)) << message.ShortDebugString();
    }
  }
}

const std::vector<float> kValues = {1, 2, 3, 4};

void AddAnswer(SharedWeights& message, uint32_t worker, uint64_t clock) {
  SharedWeights::Answer& answer = *message.add_answers();
  answer.set_worker(worker);
  answer.set_clock(clock);
  answer.set_released(true);
  answer.mutable_rows()->set_end(10 * clock);
}

SharedWeights GoodShared() {
  SharedWeights message;
  message.set_job(77);
  message.set_epoch(3);
  message.set_shard(1);
  message.set_version(41);
  AddAnswer(message, 1, 5);
  AddAnswer(message, 4, 6);
  return message;
}

TEST(WeightsCodec, ASharedRecordComesBackWithItsValuesAndItsAnswers) {
  const StatusOr<MessageBytes> bytes = SerializeWeights(GoodShared(), kValues, {4, 8});
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  const StatusOr<SharedWeights> read = DecodeSharedWeights(bytes->Joined(), kWeights);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_THAT(read->slice().dense(), ::testing::ElementsAreArray(kValues));
  EXPECT_FALSE(AnswerFrom(*read, 0));
  EXPECT_FALSE(AnswerFrom(*read, 3));
  const std::optional<Weights> answer = AnswerFrom(*read, 4);
  ASSERT_TRUE(answer);
  Weights right = GoodAnswer();
  right.set_shared(41);
  right.set_clock(6);
  right.mutable_rows()->set_end(60);
  right.mutable_mark();
  EXPECT_EQ(answer->SerializeAsString(), right.SerializeAsString());
  EXPECT_TRUE(DecodeWeights(answer->SerializeAsString(), kWeights).ok());
}

TEST(WeightsCodec, RefusesASharedRecordThatIsNotOfThisJob) {
  struct Case {
    std::string reason;
    std::function<void(SharedWeights&)> change;
  };
  const std::vector<Case> cases = {
      {"another job", [](SharedWeights& m) { m.set_job(1); }},
      {"epoch 9", [](SharedWeights& m) { m.set_epoch(9); }},
      {"shard 2", [](SharedWeights& m) { m.set_shard(2); }},
      {"without values", [](SharedWeights& m) { m.mutable_slice()->clear_dense(); }},
      {"keys [0, 8)", [](SharedWeights& m) { m.mutable_slice()->set_begin(0); }},
      {"moments of shard 1", [](SharedWeights& m) { m.mutable_moments()->add_mean(1); }},
      {"ascending", [](SharedWeights& m) { AddAnswer(m, 4, 6); }},
      {"ascending", [](SharedWeights& m) { AddAnswer(m, 2, 6); }},
      {"ascending", [](SharedWeights& m) { m.mutable_answers(1)->set_worker(5); }},
      {"out of range", [](SharedWeights& m) { m.mutable_answers(1)->set_clock(UINT64_MAX); }},
      {"rows are never uncounted",
       [](SharedWeights& m) { m.mutable_answers(0)->add_rows_before()->set_end(51); }},
  };
  for (const Case& bad : cases) {
    SharedWeights message = GoodShared();
    EncodeDenseSlice(kValues, {4, 8}, *message.mutable_slice());
    ASSERT_TRUE(DecodeSharedWeights(message.SerializeAsString(), kWeights).ok());
    bad.change(message);
    const Status status = DecodeSharedWeights(message.SerializeAsString(), kWeights).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << bad.reason;
    EXPECT_THAT(std::string(status.message()), HasSubstr(bad.reason));
  }
}

// Both would be used, and which of them is right?
TEST(WeightsCodec, RefusesValuesBesideTheNameOfASharedRecord) {
  Weights message = GoodAnswer();
  message.set_shared(41);
  ASSERT_TRUE(DecodeWeights(message.SerializeAsString(), kWeights).ok());
  EncodeDenseSlice(kValues, {4, 8}, *message.mutable_slice());
  EXPECT_FALSE(DecodeWeights(message.SerializeAsString(), kWeights).ok());
}

TEST(WeightsCodec, RefusesWhatIsNoAnswerForThisWorker) {
  struct Case {
    std::string reason;
    std::function<void(Weights&)> change;
  };
  const std::vector<Case> cases = {
      {"another job", [](Weights& m) { m.set_job(1); }},
      {"epoch 9", [](Weights& m) { m.set_epoch(9); }},
      {"shard 2", [](Weights& m) { m.set_shard(2); }},
      {"without values", [](Weights& m) { m.mutable_slice()->clear_dense(); }},
      {"keys [0, 4)", [](Weights& m) { m.set_shard(0); }},
      {"embedding", [](Weights& m) { m.mutable_embeddings()->add_value(1); }},
      {"out of range", [](Weights& m) { m.set_clock(UINT64_MAX); }},
      {"out of range", [](Weights& m) { m.set_clock(kMostClock / 2 + 1); }},
      {"out of range", [](Weights& m) { m.mutable_rows()->set_end(UINT64_MAX); }},
      {"out of range", [](Weights& m) { m.add_rows_before()->set_end(UINT64_MAX); }},
      {"out of range", [](Weights& m) { m.mutable_mark()->set_snapshot(UINT64_MAX); }},
      {"out of range", [](Weights& m) { m.mutable_rows()->set_updates_without_rows(UINT64_MAX); }},
      {"rows repeated up to 51, of which those up to 50 have been counted",
       [](Weights& m) { m.mutable_rows()->set_repeated_end(51); }},
      {"rows repeated up to 1, of which those up to 0 have been counted",
       [](Weights& m) { m.add_rows_before()->set_repeated_end(1); }},
      {"moments of shard 1", [](Weights& m) { m.mutable_moments()->add_mean(1); }},
      {"rows are never uncounted", [](Weights& m) { m.add_rows_before()->set_end(51); }},
      {"a cut at clock 8", [](Weights& m) { SetMark(m, 8); }},
      {"a cut at clock 1 of no snapshot", [](Weights& m) { m.mutable_mark()->set_cut(1); }},
  };
  for (const Case& bad : cases) {
    Weights message = GoodAnswer();
    EncodeDenseSlice(std::vector<float>{1, 2, 3, 4}, {4, 8}, *message.mutable_slice());
    ASSERT_TRUE(DecodeWeights(message.SerializeAsString(), kWeights).ok());
    bad.change(message);
    if (bad.reason == "keys [0, 4)") message.mutable_slice()->set_begin(0);
    const Status status = DecodeWeights(message.SerializeAsString(), kWeights).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << bad.reason;
    if (bad.reason != "keys [0, 4)" && bad.reason != "embedding") {
      EXPECT_THAT(std::string(status.message()), HasSubstr(bad.reason));
    }
  }
}

}  // namespace
}  // namespace millrace
