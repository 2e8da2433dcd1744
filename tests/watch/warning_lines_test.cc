#include "watch/warning_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<JobWarning> Some() {
  return {{"a", "3 of 9 rows rejected", "look into the reject file"},
          {"b", "2 things", ""},
          {"c", "4 others", ""},
          {"d", "a last one", "mend it"}};
}

TEST(WarningLines, KeepTheOrderAndPutThoseWithoutARemedyTogether) {
  EXPECT_THAT(WarningLines(Some(), 80),
              ElementsAre("3 of 9 rows rejected: look into the reject file", "2 things, 4 others",
                          "a last one: mend it"));
  EXPECT_THAT(WarningLines({}, 80), IsEmpty());
}

TEST(WarningLines, AreWrappedAtTheWidth) {
  EXPECT_THAT(WarningLines({Some()[0]}, 21),
              ElementsAre("3 of 9 rows rejected:", "  look into the", "  reject file"));
  for (const std::string& line : WarningLines({Some()[0]}, 5)) {
    EXPECT_LE(line.size(), 21u) << "narrower ones are cut by the display";
  }
}

TEST(WarningLines, HaveAShortFormWithoutRemedies) {
  EXPECT_EQ(WarningTexts(Some()), "3 of 9 rows rejected, 2 things, 4 others, a last one");
  EXPECT_EQ(WarningTexts({}), "");
}

}  // namespace
}  // namespace millrace
