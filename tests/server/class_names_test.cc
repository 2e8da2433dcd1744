#include "server/class_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(ClassNames, AreAsTheyAreOrAsErrorsQuoteThem) {
  FeatureSpec spec;
  for (const char* name : {"late", "größer", "a\nb", "\xff"}) spec.add_classes(name);
  EXPECT_THAT(ClassNamesToShow(spec), ElementsAre("late", "größer", "a\\nb", "\\377"));
}

TEST(ClassNames, AreCutAndStayText) {
  FeatureSpec spec;
  std::string name = "x";
  while (name.size() < 100) name += "ö";
  spec.add_classes(name);
  const std::string shown = ClassNamesToShow(spec)[0];
  EXPECT_EQ(shown, name.substr(0, 59) + "...") << "not in the middle of a character";
}

TEST(ClassNames, AreNotThereWhenFiguresTellOfNoClass) {
  FeatureSpec spec;
  for (int i = 0; i < 1001; ++i) spec.add_classes(std::to_string(i));
  EXPECT_THAT(ClassNamesToShow(spec), IsEmpty());
  FeatureSpec regression;
  regression.set_regression(true);
  EXPECT_THAT(ClassNamesToShow(regression), IsEmpty());
}

}  // namespace
}  // namespace millrace
