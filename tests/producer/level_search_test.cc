#include "producer/level_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>

#include "tests/producer/scratch_folder.h"

namespace millrace {
namespace {

using testing::HasSubstr;

class SearchForMovingLevelTest : public testing::Test {
 protected:
  SearchForMovingLevelTest() {
    spec_.set_label("y");
    spec_.add_numeric("x");
    spec_.add_classes("a");
    spec_.add_classes("b");
  }

  StatusOr<std::optional<double>> Search(int rows, const std::function<std::string(int)>& label) {
    std::string text = "x,y\n";
    for (int i = 0; i < rows; ++i) text += std::to_string(i % 7) + "," + label(i) + "\n";
    return SearchForMovingLevel(folder_.Write("rows.csv", text), {}, spec_);
  }

  ScratchFolder folder_;
  FeatureSpec spec_;
};

TEST_F(SearchForMovingLevelTest, LooksAtTheFirstRowsOfTheFile) {
  const auto blocks = [](int i) { return i / 750 % 2 == 0 ? "a" : "b"; };
  const auto turns = [](int i) { return i % 3 == 0 ? "a" : "b"; };
  EXPECT_GT(Search(20'000, blocks).value(), .5);
  EXPECT_GT(Search(2000, blocks).value(), .5) << "all rows, if there are fewer";
  EXPECT_EQ(Search(200, blocks).value(), std::nullopt) << "too few to say";
  EXPECT_EQ(Search(2000, turns).value(), std::nullopt);
  const auto late = [&](int i) { return i < 20'000 ? turns(i) : blocks(i); };
  EXPECT_EQ(Search(40'000, late).value(), std::nullopt);
}

TEST_F(SearchForMovingLevelTest, PassesOverRowsThatCannotBeUsed) {
  const auto label = [](int i) { return i % 2 == 0 ? "what?" : i / 1500 % 2 == 0 ? "a" : "b"; };
  EXPECT_GT(Search(6000, label).value(), .3);
}

TEST_F(SearchForMovingLevelTest, LooksAtNumbersToo) {
  spec_.clear_classes();
  spec_.set_regression(true);
  EXPECT_GT(Search(1000, [](int i) { return std::to_string(i); }).value(), .9);
  EXPECT_EQ(Search(1000, [](int i) { return std::to_string(i % 9); }).value(), std::nullopt);
}

class LevelVerdictTest : public testing::Test {
 protected:
  LevelVerdictTest() { config_.set_workers(3); }

  LevelVerdict Verdict() const { return VerdictOnLevel(.914, config_); }

  JobConfig config_;
};

TEST_F(LevelVerdictTest, IsThatOneWorkerGetsAllRows) {
  EXPECT_TRUE(Verdict().is_for_one_worker);
  EXPECT_THAT(Verdict().note, HasSubstr("differ by 91 % less"));
  EXPECT_THAT(Verdict().note, HasSubstr("Worker 0 gets all rows"));
  EXPECT_EQ(Verdict().warning, "");
}

TEST_F(LevelVerdictTest, OfTurnsThatAreGivenIsAWarningIfTheyAreLong) {
  config_.mutable_producer()->set_rows_per_turn(256);
  EXPECT_FALSE(Verdict().is_for_one_worker);
  EXPECT_THAT(Verdict().warning, HasSubstr("3 workers, dealt turns of 256 rows"));
  EXPECT_EQ(Verdict().note, "");
  config_.mutable_producer()->set_rows_per_turn(4);
  EXPECT_FALSE(Verdict().is_for_one_worker);
  EXPECT_EQ(Verdict().warning, "");
}

TEST_F(LevelVerdictTest, OfWorkersThatAllNeedRowsIsAWarning) {
  const JobConfig plain = config_;
  config_.mutable_training()->set_sharding(Training::DYNAMIC);
  EXPECT_FALSE(Verdict().is_for_one_worker);
  EXPECT_THAT(Verdict().warning, HasSubstr("without --sharding"));
  config_ = plain;
  config_.mutable_topology()->add_server_group();
  EXPECT_TRUE(Verdict().is_for_one_worker);
  config_.mutable_topology()->add_server_group();
  EXPECT_FALSE(Verdict().is_for_one_worker);
  EXPECT_THAT(Verdict().warning, HasSubstr("without the file"));
  config_ = plain;
  config_.mutable_training()->set_distribution_strategy(Training::ALL_REDUCE);
  EXPECT_FALSE(Verdict().is_for_one_worker);
  EXPECT_THAT(Verdict().warning, HasSubstr("with --workers 1"));
}

TEST_F(LevelVerdictTest, OfAJobOfOneWorkerIsNotLookedFor) {
  ProgressDisplay quiet(true);
  int searches = 0;
  const auto search = [&]() -> StatusOr<std::optional<double>> {
    ++searches;
    return searches == 1 ? std::optional(.9) : std::nullopt;
  };
  EXPECT_TRUE(IsForOneWorker(config_, search, quiet).value());
  EXPECT_FALSE(IsForOneWorker(config_, search, quiet).value()) << "nothing was found";
  config_.set_workers(1);
  EXPECT_FALSE(IsForOneWorker(config_, search, quiet).value());
  EXPECT_EQ(searches, 2);
  config_.set_workers(3);
  const auto fails = []() -> StatusOr<std::optional<double>> {
    return absl::CancelledError("stopped");
  };
  EXPECT_TRUE(absl::IsCancelled(IsForOneWorker(config_, fails, quiet).status()));
}

}  // namespace
}  // namespace millrace
