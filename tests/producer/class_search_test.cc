#include "producer/class_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace millrace {
namespace {

using testing::HasSubstr;
using testing::Not;

ClassScan Found(std::initializer_list<std::pair<std::string, uint64_t>> classes) {
  ClassScan scan;
  for (const auto& [name, rows] : classes) {
    scan.classes.push_back(name);
    scan.counts.push_back(rows);
    scan.rows += rows;
  }
  return scan;
}

TEST(FoundClasses, TellsTheRowsOfEachInTheOrderOfTheirIds) {
  EXPECT_EQ(FoundClasses(Found({{"no", 700}, {"yes", 1299}, {"yse", 1}})),
            "found 3 classes in 2,000 rows: \"no\" 700, \"yes\" 1,299, \"yse\" 1");
}

TEST(FoundClasses, TellsTheTenMostFrequentOfMany) {
  ClassScan scan;
  for (int i = 0; i < 12; ++i) {
    scan.classes.push_back("c" + std::to_string(i));
    scan.counts.push_back(i == 3 ? 1 : 20u - static_cast<unsigned>(i));
  }
  const std::string line = FoundClasses(scan);
  EXPECT_THAT(line, HasSubstr(": \"c0\" 20, \"c1\" 19, \"c2\" 18, \"c4\" 16, "));
  EXPECT_THAT(line, HasSubstr("\"c10\" 10 and 2 more"));
  EXPECT_THAT(line, Not(HasSubstr("c11")));
}

TEST(RareClasses, WarnsOfWhatMayBeATypingErrorWithTheRemedy) {
  EXPECT_EQ(RareClasses(Found({{"no", 500}, {"yes", 495}, {"x", 5}})), "");
  const std::string warning = RareClasses(Found({{"no", 500}, {"yes", 494}, {"yse", 4}, {"X", 2}}));
  EXPECT_THAT(warning,
              HasSubstr("2 classes have fewer than 0.5 % of the rows: \"X\" 2, \"yse\" 4;"));
  EXPECT_THAT(warning, HasSubstr("--classes A,B"));
  EXPECT_THAT(RareClasses(Found({{"no", 500}, {"yes", 494}, {"yse", 4}})),
              HasSubstr("1 class has"));
}

TEST(RareClasses, AreNotMerelyManyClasses) {
  ClassScan scan;
  for (int i = 0; i < 1000; ++i) {
    scan.classes.push_back(std::to_string(i));
    scan.counts.push_back(50);
  }
  EXPECT_EQ(RareClasses(scan), "");
}

}  // namespace
}  // namespace millrace
