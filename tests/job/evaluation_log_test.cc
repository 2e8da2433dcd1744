#include "job/evaluation_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace millrace {
namespace {

class EvaluationLogTest : public testing::Test {
 protected:
  EvaluationLogTest() {
    std::string pattern = testing::TempDir() + "millrace_log_XXXXXX";
    folder_ = mkdtemp(pattern.data());
    path_ = folder_ / "log.csv";
  }
  ~EvaluationLogTest() override { std::filesystem::remove_all(folder_); }

  std::string Text() const {
    std::ifstream file(path_);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

  std::filesystem::path folder_;
  std::filesystem::path path_;
};

TEST_F(EvaluationLogTest, WhoStartsAgainGoesOnBelowOneHeader) {
  EvaluationFigures figures;
  figures.log_loss = 0.5;
  figures.f1_weighted = 0.75;
  figures.accuracy = 0.8;
  figures.auc = 0.625;
  figures.calibration_error = 0.02;
  EvaluationLog::Open(path_, true).value()->Write(17, 2, 3, figures, 99);
  EvaluationLog::Open(path_, true).value()->Write(18, 2, 4, figures, 100);
  EXPECT_EQ(Text(),
            "timestamp;partition;vectorClock;loss;fMeasure;accuracy;numTuplesSeen;rmse;prior_rmse;"
            "mae;r2;auc;pr_auc;calibration_error\n"
            "17;2;3;0.500000;0.750000;0.800000;99;;;;;0.625000;;0.020000\n"
            "18;2;4;0.500000;0.750000;0.800000;100;;;;;0.625000;;0.020000\n");
  EXPECT_EQ(std::filesystem::status(path_).permissions(), std::filesystem::perms(0600));
}

TEST_F(EvaluationLogTest, AnOldFileLosesThePermissionsOfOthers) {
  ASSERT_TRUE(EvaluationLog::Open(path_, true).ok());
  std::filesystem::permissions(path_, std::filesystem::perms(0644));
  ASSERT_TRUE(EvaluationLog::Open(path_, true).ok());
  EXPECT_EQ(std::filesystem::status(path_).permissions(), std::filesystem::perms(0600));
}

TEST_F(EvaluationLogTest, ARegressionHasItsOwnFiguresAndNoZerosOfOthers) {
  EvaluationFigures figures;
  figures.rmse = 0.875;
  figures.prior_rmse = 1.25;
  figures.mae = 0.5;
  figures.r2 = 0.51;
  EvaluationLog::Open(path_, false).value()->Write(17, 2, 3, figures);
  EXPECT_EQ(
      Text(),
      "timestamp;partition;vectorClock;loss;fMeasure;accuracy;rmse;prior_rmse;mae;r2;auc;pr_auc;"
      "calibration_error\n"
      "17;2;3;;;;0.875000;1.250000;0.500000;0.510000;;;\n");
}

TEST_F(EvaluationLogTest, AFileWithOtherColumnsIsNotGoneOnWith) {
  std::ofstream(path_) << "timestamp;partition;vectorClock;loss;fMeasure;accuracy\n";
  const Status status = EvaluationLog::Open(path_, false).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("has other columns"));
}

}  // namespace
}  // namespace millrace
