#include "topics/figures_codec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tests/topics/random_double.h"

namespace millrace {
namespace {

TEST(CodecMomentsTest, AnyMomentsComeBackAsTheyWere) {
  std::mt19937_64 random(3);
  for (int trial = 0; trial < 500; ++trial) {
    Moments moments(random() % 6);
    for (size_t i = 0; i < moments.columns(); ++i) {
      moments.count[i] = static_cast<double>(random() % 1000);
      moments.mean[i] = RandomDouble(random);
      moments.m2[i] = RandomDouble(random);
    }
    MomentsMessage message;
    message.add_count(99);  // of an older use
    ToProto(moments, message);
    ASSERT_TRUE(CheckMoments(message, moments.columns()).ok());
    ASSERT_EQ(FromProto(message), moments);
  }
}

TEST(CodecMomentsTest, ChecksTheNumberOfColumnsOfEachPart) {
  MomentsMessage message;
  EXPECT_TRUE(CheckMoments(message, 2).ok()) << "no moments at all are fine";
  ToProto(Moments(2), message);
  EXPECT_TRUE(CheckMoments(message, 2).ok());
  EXPECT_FALSE(CheckMoments(message, 1).ok());
  EXPECT_FALSE(CheckMoments(message, 3).ok());
  EXPECT_FALSE(CheckMoments(message, 0).ok());
  MomentsMessage damaged = message;
  damaged.add_mean(1);
  EXPECT_FALSE(CheckMoments(damaged, 2).ok());
  damaged = message;
  damaged.mutable_m2()->RemoveLast();
  EXPECT_FALSE(CheckMoments(damaged, 2).ok());
  damaged.Clear();
  damaged.add_mean(1);
  EXPECT_FALSE(CheckMoments(damaged, 1).ok());
}

EvaluationSums RandomSums(std::mt19937_64& random, uint32_t classes) {
  EvaluationSums sums;
  for (uint64_t row = random() % 40; row > 0; --row) {
    std::vector<float> probabilities(classes);
    for (float& p : probabilities) p = static_cast<float>(random() % 1000) / 1000.0f;
    sums.Add(static_cast<uint32_t>(random() % classes), probabilities);
  }
  return sums;
}

TEST(CodecSumsTest, AnyEvaluationSumsComeBackAsTheyWere) {
  std::mt19937_64 random(4);
  EvaluationSumsMessage message;
  for (int trial = 0; trial < 1000; ++trial) {
    const auto classes = static_cast<uint32_t>(2 + random() % 9);
    const EvaluationSums sums = RandomSums(random, classes);
    ToProto(sums, message);
    ASSERT_TRUE(CheckSums(message, classes).ok());
    ASSERT_EQ(FromProto(message), sums);
  }
}

TEST(CodecSumsTest, TheSameSumsAreTheSameBytesHoweverTheyWereReached) {
  std::mt19937_64 random(5);
  for (int trial = 0; trial < 100; ++trial) {
    const EvaluationSums a = RandomSums(random, 2);
    const EvaluationSums b = RandomSums(random, 2);
    EvaluationSums ab = a;
    ab.Merge(b);
    EvaluationSums ba = b;
    ba.Merge(a);
    ba.log_loss = ab.log_loss;  // the one figure that is rounded
    EvaluationSumsMessage first;
    EvaluationSumsMessage second;
    ToProto(ab, first);
    ToProto(ba, second);
    ASSERT_EQ(first.SerializeAsString(), second.SerializeAsString());
  }
}

TEST(CodecSumsTest, RefusesCellsAndBinsThatNoModelOfTheJobGives) {
  EvaluationSumsMessage message;
  message.add_cell(8);
  message.add_cell_count(1);
  message.add_score_bin(2 * EvaluationSums::kScoreBins - 1);
  message.add_score_count(1);
  EXPECT_TRUE(CheckSums(message, 3).ok());
  EXPECT_FALSE(CheckSums(message, 2).ok());
  EvaluationSumsMessage damaged = message;
  damaged.set_cell(0, 9);
  EXPECT_FALSE(CheckSums(damaged, 3).ok());
  damaged = message;
  damaged.set_score_bin(0, 2 * EvaluationSums::kScoreBins);
  EXPECT_FALSE(CheckSums(damaged, 3).ok());
  damaged = message;
  damaged.add_cell_count(1);
  EXPECT_FALSE(CheckSums(damaged, 3).ok());
  damaged = message;
  damaged.add_score_bin(1);
  EXPECT_FALSE(CheckSums(damaged, 3).ok());
}

TEST(CodecSumsTest, SumsOfARegressionComeBackAsTheyWere) {
  EvaluationSums sums;
  sums.AddTarget(3, 2.5f);
  sums.AddTarget(-1, 4);
  EvaluationSumsMessage message;
  ToProto(sums, message);
  EXPECT_TRUE(CheckSums(message, 0).ok());
  EXPECT_EQ(FromProto(message), sums);
}

TEST(CodecFiguresTest, FiguresKeepWhetherThereIsAnAuc) {
  EvaluationFigures figures;
  figures.rows = 7;
  figures.accuracy = 0.5;
  figures.log_loss = 0.25;
  Figures message;
  ToProto(figures, message);
  EXPECT_EQ(message.rows(), 7u);
  EXPECT_EQ(message.accuracy(), 0.5);
  EXPECT_EQ(message.log_loss(), 0.25);
  EXPECT_FALSE(message.has_auc());
  figures.auc = 0.75;
  ToProto(figures, message);
  EXPECT_TRUE(message.has_auc());
  EXPECT_EQ(message.auc(), 0.75);
}

TEST(CodecFiguresTest, FiguresKeepWhetherTheyAreOfARegression) {
  EvaluationFigures figures;
  Figures message;
  ToProto(figures, message);
  EXPECT_FALSE(message.has_rmse());
  figures.rmse = 0;  // of targets that were all met
  ToProto(figures, message);
  EXPECT_TRUE(message.has_rmse());
}

}  // namespace
}  // namespace millrace
