#include "topics/figures_codec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <utility>
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
    moments.target = {.count = RandomDouble(random),
                      .mean = RandomDouble(random),
                      .m2 = RandomDouble(random),
                      .errors = RandomDouble(random),
                      .mean_error = RandomDouble(random),
                      .least = RandomDouble(random),
                      .most = RandomDouble(random),
                      .range_votes = RandomDouble(random)};
    moments.drifts = random() % 5;
    MomentsMessage message;
    message.add_count(99);  // of an older use
    ToProto(moments, message);
    ASSERT_TRUE(CheckMoments(message, moments.columns(), 2, 4).ok());
    ASSERT_EQ(FromProto(message), moments);
  }
}

TEST(CodecMomentsTest, ChecksTheNumberOfColumnsOfEachPart) {
  MomentsMessage message;
  EXPECT_TRUE(CheckMoments(message, 2, 2, 4).ok()) << "no moments at all are fine";
  EXPECT_FALSE(HasMoments(message));
  message.set_target_count(1);
  EXPECT_TRUE(HasMoments(message));
  EXPECT_TRUE(CheckMoments(message, 2, 0, 4).ok()) << "of a target alone";
  ToProto(Moments(2), message);
  EXPECT_TRUE(CheckMoments(message, 2, 2, 4).ok());
  EXPECT_FALSE(CheckMoments(message, 1, 2, 4).ok());
  EXPECT_FALSE(CheckMoments(message, 3, 2, 4).ok());
  EXPECT_FALSE(CheckMoments(message, 0, 2, 4).ok());
  MomentsMessage damaged = message;
  damaged.add_mean(1);
  EXPECT_FALSE(CheckMoments(damaged, 2, 2, 4).ok());
  damaged = message;
  damaged.mutable_m2()->RemoveLast();
  EXPECT_FALSE(CheckMoments(damaged, 2, 2, 4).ok());
  damaged.Clear();
  damaged.add_mean(1);
  EXPECT_FALSE(CheckMoments(damaged, 1, 2, 4).ok());
}

TEST(CodecMomentsTest, RefusesAChangeOfTheWorkersThatNoUpdateMayRepeat) {
  const auto is_taken = [](uint64_t resize, uint32_t workers) {
    MomentsMessage message;
    message.set_resize(resize);
    message.set_workers(workers);
    return CheckMoments(message, 2, 2, 4).ok();
  };
  EXPECT_TRUE(is_taken(0, 0)) << "as at the job's beginning";
  EXPECT_TRUE(is_taken(kMostResize, 4));
  EXPECT_FALSE(is_taken(kMostResize + 1, 4));
  EXPECT_FALSE(is_taken(1, 0)) << "to no workers";
  EXPECT_FALSE(is_taken(1, 5)) << "to more than the job may have";
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

TEST(CodecSumsTest, RefusesCalibrationThatNoRowsHave) {
  EvaluationSums sums;
  sums.Add(0, std::vector<float>{0.75f, 0.25f});
  sums.Add(1, std::vector<float>{0.75f, 0.25f});
  sums.Add(1, std::vector<float>{0.0f, 1.0f});
  EvaluationSumsMessage message;
  ToProto(sums, message);
  ASSERT_TRUE(CheckSums(message, 2).ok());
  using Damage = std::function<void(EvaluationSumsMessage&)>;
  const std::vector<std::pair<std::string, Damage>> damages = {
      {"a bin without rows", [](auto& m) { m.set_calibration_rows(0, 0); }},
      {"a bin of more rows than there are", [](auto& m) { m.set_calibration_rows(0, 3); }},
      {"more right than rows", [](auto& m) { m.set_calibration_correct(0, 3); }},
      {"probabilities above 1", [](auto& m) { m.set_calibration_confidence(1, (1 << 20) + 1); }},
      {"the largest number", [](auto& m) { m.set_calibration_confidence(1, UINT64_MAX); }},
      {"a bin beyond the last", [](auto& m) { m.set_calibration_bin(1, 15); }},
      {"a bin twice", [](auto& m) { m.set_calibration_bin(1, 11); }},
      {"bins that descend", [](auto& m) { m.set_calibration_bin(0, 14); }},
      {"rows without a bin", [](auto& m) { m.add_calibration_rows(1); }},
      {"right ones without a bin", [](auto& m) { m.add_calibration_correct(1); }},
      {"a bin alone", [](auto& m) { m.add_calibration_bin(14); }},
      {"probabilities without a bin", [](auto& m) { m.add_calibration_confidence(1); }},
      {"an absolute error of more rows", [](auto& m) { m.set_absolute_rows(4); }},
      {"more rows without a prediction", [](auto& m) { m.set_unpredicted(4); }},
      {"an absolute error of rows without a prediction",
       [](auto& m) {
         m.set_absolute_rows(1);
         m.set_unpredicted(3);
       }},
      {"a cell twice", [](auto& m) { m.set_cell(1, m.cell(0)); }},
      {"score bins that descend", [](auto& m) { m.set_score_bin(0, 8191); }},
  };
  for (const auto& [name, damage] : damages) {
    EvaluationSumsMessage damaged = message;
    damage(damaged);
    EXPECT_TRUE(absl::IsInvalidArgument(CheckSums(damaged, 2))) << name;
  }
}

TEST(CodecSumsTest, KnowsSumsThatAreNoNumbers) {
  EvaluationSumsMessage message;
  EXPECT_TRUE(AreFinite(message));
  for (const auto set :
       {&EvaluationSumsMessage::set_log_loss, &EvaluationSumsMessage::set_target,
        &EvaluationSumsMessage::set_squared_error, &EvaluationSumsMessage::set_squared_target,
        &EvaluationSumsMessage::set_absolute_error}) {
    EvaluationSumsMessage other;
    (other.*set)(std::nan(""));
    EXPECT_FALSE(AreFinite(other));
  }
}

// As a version without MAE and calibration has saved them.
TEST(CodecSumsTest, SumsOfAnEarlierVersionAreTakenAndKnownToBeOfNoRows) {
  EvaluationSums sums;
  sums.Add(1, std::vector<float>{0.25f, 0.75f});
  EvaluationSumsMessage message;
  ToProto(sums, message);
  message.clear_calibration_bin();
  message.clear_calibration_rows();
  message.clear_calibration_correct();
  message.clear_calibration_confidence();
  ASSERT_TRUE(CheckSums(message, 2).ok());
  EXPECT_FALSE(ComputeFigures(FromProto(message), 2).calibration_error);
}

TEST(CodecSumsTest, SumsOfARegressionComeBackAsTheyWere) {
  EvaluationSums sums;
  sums.AddTarget(3, 2.5f);
  sums.AddTarget(-1, 4);
  sums.AddUnpredicted();
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

TEST(CodecFiguresTest, FiguresTellOfEachClassAndBin) {
  EvaluationSums sums;
  sums.Add(0, std::vector<float>{0.75f, 0.25f});
  sums.Add(1, std::vector<float>{0.75f, 0.25f});
  Figures message;
  ToProto(ComputeFigures(sums, 2), message);
  ASSERT_TRUE(CheckFigures(message).ok());
  ASSERT_EQ(message.class_rows_size(), 2);
  EXPECT_EQ(message.class_rows(1), 1u);
  EXPECT_EQ(message.class_predicted(0), 2u);
  EXPECT_EQ(message.class_correct(0), 1u);
  ASSERT_EQ(message.cell_size(), 2);
  EXPECT_EQ(message.cell(1), 2u) << "class 1, taken for class 0";
  EXPECT_EQ(message.reliability_bin(0), 11u);
  EXPECT_EQ(message.reliability_accuracy(0), 0.5);
  EXPECT_EQ(message.calibration_error(), 0.25);
  EXPECT_TRUE(message.has_pr_auc());
}

TEST(CodecFiguresTest, OfMoreClassesThanFitNoneIsTold) {
  EvaluationFigures figures;
  figures.rows = 1;
  figures.classes.resize(kMostClassesTold);
  for (uint32_t cell = 0; cell <= kMostCellsTold; ++cell) figures.confusion[cell] = 1;
  Figures message;
  ToProto(figures, message);
  EXPECT_EQ(static_cast<size_t>(message.class_rows_size()), kMostClassesTold);
  EXPECT_EQ(message.cell_size(), 0) << "one cell too many";
  EXPECT_LT(message.ByteSizeLong(), 100'000u) << "a point is never split";
  figures.classes.emplace_back();
  ToProto(figures, message);
  EXPECT_EQ(message.class_rows_size(), 0);
}

TEST(CodecFiguresTest, RefusesFiguresThatADisplayCannotIndex) {
  EvaluationSums sums;
  sums.Add(0, std::vector<float>{0.75f, 0.25f});
  sums.Add(1, std::vector<float>{0.75f, 0.25f});
  Figures message;
  ToProto(ComputeFigures(sums, 2), message);
  using Damage = std::function<void(Figures&)>;
  const std::vector<std::pair<std::string, Damage>> damages = {
      {"a cell of a class that is not there", [](auto& m) { m.set_cell(1, 4); }},
      {"a cell twice", [](auto& m) { m.set_cell(1, 0); }},
      {"a cell without a count", [](auto& m) { m.mutable_cell_count()->RemoveLast(); }},
      {"cells without classes",
       [](auto& m) {
         m.clear_class_rows();
         m.clear_class_predicted();
         m.clear_class_correct();
       }},
      {"a class more", [](auto& m) { m.add_class_rows(1); }},
      {"a class less", [](auto& m) { m.mutable_class_correct()->RemoveLast(); }},
      {"a class that is not predicted", [](auto& m) { m.mutable_class_predicted()->RemoveLast(); }},
      {"more right than predicted", [](auto& m) { m.set_class_correct(1, 1); }},
      {"a bin beyond the last", [](auto& m) { m.set_reliability_bin(0, 15); }},
      {"a bin without rows", [](auto& m) { m.clear_reliability_rows(); }},
      {"a bin without an accuracy", [](auto& m) { m.clear_reliability_accuracy(); }},
      {"a bin without a probability", [](auto& m) { m.clear_reliability_confidence(); }},
  };
  for (const auto& [name, damage] : damages) {
    Figures damaged = message;
    damage(damaged);
    EXPECT_TRUE(absl::IsInvalidArgument(CheckFigures(damaged))) << name;
  }
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
