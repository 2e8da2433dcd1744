#include "tasks/class_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

FeatureSpec SpecOf(const std::vector<std::string>& classes) {
  FeatureSpec spec;
  for (const std::string& name : classes) spec.add_classes(name);
  return spec;
}

Training Weighing(const std::vector<std::string>& entries) {
  Training training;
  for (const std::string& entry : entries) training.add_class_weight(entry);
  return training;
}

StatusOr<std::vector<float>> WeightsOf(const std::vector<std::string>& classes,
                                       const std::vector<std::string>& entries) {
  return ClassWeightsOf(SpecOf(classes), Weighing(entries));
}

std::string ErrorOf(const std::vector<std::string>& classes,
                    const std::vector<std::string>& entries) {
  return std::string(WeightsOf(classes, entries).status().message());
}

TEST(ClassWeightsOf, FindsClassesByTheirNamesWhateverTheirOrder) {
  EXPECT_THAT(*WeightsOf({"low", "middle", "high"}, {"high=2.5", "low=0"}),
              ElementsAre(0, 1, 2.5f));
}

TEST(ClassWeightsOf, IsEmptyWhereNoClassIsWeighedBeforehand) {
  EXPECT_THAT(*WeightsOf({"no", "yes"}, {}), IsEmpty());
  EXPECT_THAT(*WeightsOf({"no", "yes"}, {"balanced"}), IsEmpty());
}

TEST(ClassWeightsOf, TakesNamesWithAnEqualsSign) {
  EXPECT_THAT(*WeightsOf({"a", "a=b"}, {"a=b=3"}), ElementsAre(1, 3));
  EXPECT_THAT(*WeightsOf({"a", "a="}, {"a==3"}), ElementsAre(1, 3));
  EXPECT_THAT(*WeightsOf({"", "x"}, {"=3"}), ElementsAre(3, 1));
  EXPECT_THAT(*WeightsOf({"balanced", "x"}, {"balanced=3"}), ElementsAre(3, 1));
}

TEST(ClassWeightsOf, NamesTheClassesAndTheNearestOneToAnUnknownName) {
  const std::string error = ErrorOf({"delayed", "punctual"}, {"delayd=2"});
  EXPECT_THAT(error, HasSubstr("--class-weight: the job has no class 'delayd'"));
  EXPECT_THAT(error, HasSubstr("'delayed', 'punctual'"));
  EXPECT_THAT(error, HasSubstr("did you mean 'delayed'?"));
}

TEST(ClassWeightsOf, ShowsNamesFromTheTopicThatNoTerminalObeys) {
  const std::string error = ErrorOf({"\x1b[2J", "late\n"}, {"late\r=2"});
  EXPECT_THAT(error,
              HasSubstr("no class 'late\\x0d'; its classes are '\\x1b[2J', 'late\\x0a'; did"));
  EXPECT_THAT(error, HasSubstr("did you mean 'late\\x0a'?"));
  EXPECT_THAT(ErrorOf({"a", "b"}, {"\n=x"}), HasSubstr("'\\x0a=x' is not NAME=W"));
}

TEST(ClassWeightsOf, ListsTwentyOfManyClasses) {
  std::vector<std::string> classes;
  for (int i = 0; i < 123; ++i) classes.push_back("class-" + std::to_string(i));
  const std::string error = ErrorOf(classes, {"x=2"});
  EXPECT_THAT(error, HasSubstr("'class-19' and 103 more"));
}

TEST(ClassWeightsOf, RefusesWhatIsNoWeight) {
  EXPECT_THAT(ErrorOf({"a", "b"}, {"a"}), HasSubstr("'a' is not NAME=W"));
  EXPECT_THAT(ErrorOf({"a", "b"}, {"a=1x"}), HasSubstr("is not NAME=W"));
  EXPECT_THAT(ErrorOf({"a", "b"}, {"a=1", "balanced"}), HasSubstr("'balanced' is not NAME=W"));
  EXPECT_THAT(ErrorOf({"a", "b"}, {"a=1", "a=1"}), HasSubstr("named twice"));
  EXPECT_THAT(ErrorOf({"a", "b"}, {"a=0", "b=0"}), HasSubstr("no class is left"));
}

TEST(BalancesClasses, IsAskedForByOneWord) {
  EXPECT_TRUE(BalancesClasses(Weighing({"balanced"})));
  EXPECT_FALSE(BalancesClasses(Weighing({})));
  EXPECT_FALSE(BalancesClasses(Weighing({"balanced=1"})));
}

}  // namespace
}  // namespace millrace
