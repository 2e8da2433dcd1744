// Updates and records that a shard must not use.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "processors/server_processor.h"
#include "tests/processors/server_fixture.h"

namespace millrace {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// ---- poison ----

struct Poison {
  std::string name;
  std::function<void(Gradient&)> put;
};

std::vector<Poison> Poisons() {
  const double nan = std::nan("");
  const double infinity = HUGE_VAL;
  return {
      {"NaN in the slice",
       [](Gradient& m) { m.mutable_update()->mutable_slice()->set_dense(3, std::nanf("")); }},
      {"a value whose square overflows",
       [](Gradient& m) { m.mutable_update()->mutable_slice()->set_dense(0, 2e18f); }},
      {"infinity in the slice",
       [](Gradient& m) { m.mutable_update()->mutable_slice()->set_dense(0, -HUGE_VALF); }},
      {"NaN in a sparse slice",
       [](Gradient& m) {
         m.mutable_update()->mutable_slice()->clear_dense();
         m.mutable_update()->mutable_slice()->add_sparse_index(5);
         m.mutable_update()->mutable_slice()->add_sparse_value(std::nanf(""));
       }},
      {"NaN weight", [=](Gradient& m) { m.mutable_update()->set_weight_sum(nan); }},
      {"infinite weight", [=](Gradient& m) { m.mutable_update()->set_weight_sum(infinity); }},
      {"negative weight", [](Gradient& m) { m.mutable_update()->set_weight_sum(-1); }},
      {"infinite training loss",
       [=](Gradient& m) { m.mutable_update()->set_train_loss(infinity); }},
      {"NaN loss",
       [=](Gradient& m) { m.mutable_update()->mutable_progressive()->set_log_loss(nan); }},
      {"NaN absolute error",
       [=](Gradient& m) { m.mutable_update()->mutable_progressive()->set_absolute_error(nan); }},
      {"infinite target of the tail",
       [=](Gradient& m) { m.mutable_update()->mutable_tail()->set_target(infinity); }},
      {"infinite tail loss",
       [=](Gradient& m) { m.mutable_update()->mutable_tail()->set_log_loss(infinity); }},
      {"NaN mean", [=](Gradient& m) { m.mutable_update()->mutable_moments()->set_mean(0, nan); }},
      {"infinite square",
       [=](Gradient& m) { m.mutable_update()->mutable_moments()->set_m2(0, infinity); }},
      // Finite, but merged they would divide by zero.
      {"negative count",
       [](Gradient& m) { m.mutable_update()->mutable_moments()->set_count(0, -3); }},
      {"negative square",
       [](Gradient& m) { m.mutable_update()->mutable_moments()->set_m2(0, -1); }},
      {"rows of a class beyond the limit",
       [](Gradient& m) {
         m.mutable_update()->mutable_moments()->add_class_rows(Moments::kMostClassRows + 1);
       }},
      {"mean beyond the limit",
       [](Gradient& m) { m.mutable_update()->mutable_moments()->set_mean(0, 1e300); }},
  };
}

TEST(ServerProcessorTest, KeepsNothingOfAnUnusableRecordWhenOnlyReasonsAreWanted) {
  ServerOptions options = SmallServer();
  options.dead_letter_reasons_only = true;
  TestServer server(options);
  const ServerOutput output = server.Send(LogRecord{EncodeBigEndian32(1), "no frame"});
  ASSERT_EQ(output.dead_letters.size(), 1u);
  EXPECT_NE(output.dead_letters[0].reason(), "");
  EXPECT_EQ(output.dead_letters[0].key() + output.dead_letters[0].value(), "");
}

TEST(ServerProcessorTest, APoisonedUpdateCountsAsAnEmptyOneOfItsClock) {
  for (const Poison& poison : Poisons()) {
    for (const ConsistencyPolicy& policy : AllPolicies()) {
      TestServer server(SmallServer(policy));
      Gradient update = WithMoments(WithProgressive(Update(1, 0, Same(1), kRange), 2), {1, 2, 3});
      update.mutable_update()->set_rows_end(2);
      poison.put(update);
      const ServerOutput output = server.Send(update);
      ASSERT_EQ(output.dead_letters.size(), 1u) << poison.name;
      EXPECT_THAT(output.dead_letters[0].reason(),
                  HasSubstr("a NaN, an infinity or a value beyond"));
      EXPECT_EQ(output.dead_letters[0].value(), RecordOf(update).value);
      EXPECT_EQ(server.processor().counters().non_finite_updates(), 1u);
      EXPECT_EQ(server.processor().counters().gradients_accepted(), 1u);
      // Nobody hangs: the round is complete when the others have come.
      server.SendNext(0, 0);
      server.SendNext(2, 0);
      EXPECT_EQ(server.processor().clocks().Min(), 1u) << poison.name;
      EXPECT_EQ(server.weights(), Same(0)) << poison.name;
      EXPECT_EQ(server.processor().progressive().rows, 0u);
      EXPECT_EQ(server.processor().moments(), Moments(1)) << poison.name;
      EXPECT_EQ(server.Answer(1).rows().end(), 2u) << "its rows have been used up";
    }
  }
}

TEST(ServerProcessorTest, ValuesIn16BitsAreTakenAsWhatTheyMeanAndPoisonInThemIsFound) {
  for (const FloatFormat format : {Training::Compression::FP16, Training::Compression::BF16}) {
    ServerOptions options = SmallServer(kEventual);
    options.values = format;
    const auto packed = [&](Clock clock, float value) {
      Gradient update = Update(0, clock, Same(value), kRange);
      PackUpdate(format, PackingExponent(format, LargestFinite(std::vector{value})),
                 *update.mutable_update());
      return update;
    };
    TestServer server(options);
    EXPECT_THAT(server.Send(packed(0, 1024)).dead_letters, IsEmpty());
    EXPECT_EQ(server.weights(), Same(-512));
    for (const float poison : {std::nanf(""), std::numeric_limits<float>::infinity(), 1e30f}) {
      EXPECT_EQ(server.Send(packed(server.processor().clocks().clock(0), poison)).answers.size(),
                1u);
    }
    EXPECT_EQ(server.processor().counters().non_finite_updates(), 3u);
    EXPECT_EQ(server.weights(), Same(-512));
    // An update in 32 bits comes from nobody of this job.
    const ServerOutput output = server.Send(Update(0, 4, Same(1), kRange));
    ASSERT_EQ(output.dead_letters.size(), 1u);
    EXPECT_THAT(output.dead_letters[0].reason(), HasSubstr("but this job sends 16"));
    EXPECT_EQ(server.processor().counters().refused(), 1u);
    // One whose values are not as many as the keys.
    Gradient few = packed(4, 1);
    few.mutable_update()->mutable_packed_slice()->resize(4);
    EXPECT_THAT(server.Send(few).dead_letters[0].reason(), HasSubstr("2 values for 6 keys"));
  }
}

TEST(ServerProcessorTest, TheOthersUpdatesOfAPoisonedRoundCount) {
  TestServer server(SmallServer(kSequential));
  server.SendNext(0, 2);
  server.SendNext(1, std::nanf(""));
  server.SendNext(2, 4);
  EXPECT_EQ(server.weights(), Same(-1.5f));
}

TEST(ServerProcessorTest, UndecodableRowsReportedByAPoisonedUpdateAreReportedAllTheSame) {
  TestServer server(SmallServer(kEventual));
  const ServerOutput output =
      server.Send(WithDeadLetter(Update(1, 0, Same(std::nanf("")), kRange), "a damaged row"));
  ASSERT_EQ(output.dead_letters.size(), 2u);
  EXPECT_EQ(output.dead_letters[1].reason(), "a damaged row");
  EXPECT_EQ(server.processor().counters().undecodable_rows(), 1u);
}

TEST(ServerProcessorTest, UpdatesWhoseMeanOverflowsMakeNoStepAndAreCounted) {
  TestServer eventual(SmallServer(kEventual));
  Gradient update = Update(0, 0, Same(1), kRange);
  update.mutable_update()->set_weight_sum(1e-300);
  eventual.Send(update);
  EXPECT_EQ(eventual.weights(), Same(0));
  EXPECT_EQ(eventual.processor().counters().non_finite_updates(), 1u);
  EXPECT_EQ(eventual.processor().clocks().clock(0), 1u);
}

TEST(ServerProcessorTest, TheLargestUpdatesThatAreTakenLeaveTheWeightsFinite) {
  TestServer server(SmallServer(kSequential));
  for (int round = 0; round < 100; ++round) {
    for (WorkerId worker = 0; worker < 3; ++worker) server.SendNext(worker, 1e18f);
  }
  EXPECT_EQ(server.processor().counters().non_finite_updates(), 0u);
  for (float weight : server.weights()) EXPECT_TRUE(std::isfinite(weight)) << weight;
}

// ---- refused records ----

TEST(ServerProcessorTest, WhatCannotBeUsedIsADeadLetterThatSaysWhyAndChangesNothing) {
  const Gradient good = WithMoments(WithProgressive(Update(1, 0, Same(1), kRange), 1), {1});
  struct Case {
    std::string reason;
    std::function<void(LogRecord&)> damage;
  };
  const auto message = [&](std::function<void(Gradient&)> change) {
    return [=](LogRecord& record) {
      Gradient damaged = good;
      change(damaged);
      record.value = MakeFrames(damaged.SerializeAsString(), 0).front();
    };
  };
  const std::vector<Case> cases = {
      {"not a worker", [](LogRecord& r) { r.key = EncodeBigEndian32(3); }},
      {"not a worker", [](LogRecord& r) { r.key = ""; }},
      {"not a worker", [](LogRecord& r) { r.key += '\0'; }},
      {"different workers", [](LogRecord& r) { r.key = EncodeBigEndian32(2); }},
      {"shorter than its header", [](LogRecord& r) { r.value = "\x01"; }},
      {"format version 1", [](LogRecord& r) { r.value[0] = 1; }},
      {"not a millrace.Gradient", [](LogRecord& r) { r.value.resize(r.value.size() - 1); }},
      {"another job", message([](Gradient& m) { m.set_job(9); })},
      {"epoch 9", message([](Gradient& m) { m.set_epoch(9); })},
      {"unknown kind", message([](Gradient& m) { m.clear_kind(); })},
      {"keys [0, 7)",
       message([](Gradient& m) { m.mutable_update()->mutable_slice()->set_end(7); })},
      {"5 values for 6 keys", message([](Gradient& m) {
         m.mutable_update()->mutable_slice()->mutable_dense()->RemoveLast();
       })},
      {"confusion cell 4",
       message([](Gradient& m) { m.mutable_update()->mutable_progressive()->set_cell(0, 4); })},
      {"calibration bin 15", message([](Gradient& m) {
         m.mutable_update()->mutable_progressive()->set_calibration_bin(0, 15);
       })},
      {"rows tested", message([](Gradient& m) {
         m.mutable_update()->mutable_progressive()->set_rows(UINT64_MAX);
       })},
      {"unequal length",
       message([](Gradient& m) { m.mutable_update()->mutable_tail()->add_cell(0); })},
      {"rows of 3 classes", message([](Gradient& m) {
         for (int k = 0; k < 3; ++k) m.mutable_update()->mutable_moments()->add_class_rows(1);
       })},
      {"moments of 2 columns",
       message([](Gradient& m) { ToProto(Moments(2), *m.mutable_update()->mutable_moments()); })},
  };
  for (const Case& test : cases) {
    TestServer server(SmallServer(kEventual));
    server.SendNext(0);
    const std::vector<float> weights = server.weights();
    server.set_next_offset(41);
    LogRecord record = RecordOf(good);
    test.damage(record);
    const ServerOutput output = server.Send(record);
    EXPECT_THAT(output.answers, IsEmpty()) << test.reason;
    ASSERT_EQ(output.dead_letters.size(), 1u) << test.reason;
    const DeadLetter& letter = output.dead_letters[0];
    EXPECT_THAT(letter.reason(), HasSubstr(test.reason));
    EXPECT_EQ(letter.topic(), "gradients");
    EXPECT_EQ(letter.partition(), 0);
    EXPECT_EQ(letter.offset(), 41);
    EXPECT_EQ(letter.key(), record.key);
    EXPECT_EQ(letter.value(), record.value);
    EXPECT_EQ(server.processor().counters().refused(), 1u);
    EXPECT_EQ(server.processor().counters().gradients_accepted(), 1u);
    EXPECT_EQ(server.weights(), weights);
    EXPECT_EQ(server.processor().clocks().clock(1), 0u);
    EXPECT_EQ(server.processor().progressive().rows, 0u);
    // The good record is still taken afterwards.
    EXPECT_THAT(server.Send(good).answers, ElementsAreArray<WorkerId>({1})) << test.reason;
  }
}

TEST(ServerProcessorTest, NoDamageCrashesItOrReachesTheWeights) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 200; ++trial) {
    TestServer server(SmallServer(AllPolicies()[static_cast<size_t>(trial) % 3]));
    for (int step = 0; step < 100; ++step) {
      const auto worker = static_cast<WorkerId>(random() % 3);
      LogRecord record = RecordOf(WithDeadLetter(
          WithMoments(
              WithProgressive(
                  Update(worker, server.processor().clocks().clock(worker), Same(1), kRange), 2),
              {1, 2}),
          "row"));
      for (uint64_t change = random() % 5; change > 0; --change) {
        if (random() % 30 == 0) record.key += 'x';
        record.value[random() % record.value.size()] = static_cast<char>(random());
      }
      server.Send(record);
      for (float weight : server.weights()) ASSERT_TRUE(std::isfinite(weight));
      ASSERT_TRUE(server.processor().moments().IsValid());
    }
  }
}

}  // namespace
}  // namespace millrace
