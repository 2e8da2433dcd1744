#include "producer/level_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <optional>
#include <string>

#include "tests/producer/scratch_folder.h"

namespace millrace {
namespace {

using testing::HasSubstr;

class SearchMovingLevelTest : public testing::Test {
 protected:
  SearchMovingLevelTest() {
    spec_.set_label("y");
    spec_.add_numeric("x");
    spec_.add_classes("a");
    spec_.add_classes("b");
  }

  StatusOr<std::optional<double>> Search(int rows, const std::function<std::string(int)>& label) {
    std::string text = "x,y\n";
    for (int i = 0; i < rows; ++i) text += std::to_string(i % 7) + "," + label(i) + "\n";
    return SearchMovingLevel(folder_.Write("rows.csv", text), options_, spec_);
  }

  ScratchFolder folder_;
  CsvFile::Options options_;
  FeatureSpec spec_;
};

TEST_F(SearchMovingLevelTest, LooksAtTheFirstRowsOfTheFile) {
  const auto blocks = [](int i) { return i / 750 % 2 == 0 ? "a" : "b"; };
  const auto turns = [](int i) { return i % 3 == 0 ? "a" : "b"; };
  EXPECT_GT(Search(20'000, blocks).value(), .5);
  EXPECT_GT(Search(2000, blocks).value(), .5) << "all rows, if there are fewer";
  EXPECT_EQ(Search(200, blocks).value(), std::nullopt) << "too few to say";
  EXPECT_EQ(Search(2000, turns).value(), std::nullopt);
  const auto late = [&](int i) { return i < 20'000 ? turns(i) : blocks(i); };
  EXPECT_EQ(Search(40'000, late).value(), std::nullopt);
}

TEST_F(SearchMovingLevelTest, PassesOverRowsThatCannotBeUsed) {
  const auto label = [](int i) { return i % 2 == 0 ? "what?" : i / 1500 % 2 == 0 ? "a" : "b"; };
  EXPECT_GT(Search(6000, label).value(), .3);
}

TEST_F(SearchMovingLevelTest, LooksAtNumbersToo) {
  spec_.clear_classes();
  spec_.set_regression(true);
  EXPECT_GT(Search(1000, [](int i) { return std::to_string(i); }).value(), .9);
  EXPECT_EQ(Search(1000, [](int i) { return std::to_string(i % 9); }).value(), std::nullopt);
}

TEST_F(SearchMovingLevelTest, EndsWhenItIsStopped) {
  const std::atomic<bool> stop = true;
  options_.stop = &stop;
  EXPECT_TRUE(absl::IsCancelled(Search(1000, [](int) { return "a"; }).status()));
}

TEST(MovingLevel, IsToldWithWhatFollowsFromIt) {
  EXPECT_THAT(OneWorkerText(.914), HasSubstr("(91 % of what two labels differ by that are 512 rows "
                                             "apart): worker 0 gets all rows"));
  EXPECT_THAT(LeasedRowsText(.914), HasSubstr("without --sharding"));
  EXPECT_THAT(LongTurnsText(.914, 3, 256), HasSubstr("3 workers, dealt turns of 256 rows"));
}

}  // namespace
}  // namespace millrace
