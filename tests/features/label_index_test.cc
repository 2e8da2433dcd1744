#include "features/label_index.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace millrace {
namespace {

using Names = std::vector<std::string>;

std::string ErrorOf(const Names& classes) {
  return std::string(LabelIndex::Create(classes).status().message());
}

TEST(LabelIndex, FindsNamesByTheirBytes) {
  const LabelIndex index = LabelIndex::Create(Names{"yes", " no "}).value();
  EXPECT_EQ(index.Find("yes"), 0u);
  EXPECT_EQ(index.Find("no"), 1u);
  EXPECT_EQ(index.Find("Yes"), std::nullopt);
  EXPECT_EQ(index.Find(""), std::nullopt);
  EXPECT_EQ(index.Find("1"), std::nullopt);
}

TEST(LabelIndex, FindsNumbersThatAreEqual) {
  const LabelIndex index = LabelIndex::Create(Names{"0", "1.0", "-2", "n/a"}).value();
  for (const char* zero : {"0", "0.0", "-0", "0e5"}) EXPECT_EQ(index.Find(zero), 0u) << zero;
  for (const char* one : {"1", "1.0", "+1", "1e0", "01"}) EXPECT_EQ(index.Find(one), 1u) << one;
  EXPECT_EQ(index.Find("-2.00"), 2u);
  EXPECT_EQ(index.Find("2"), std::nullopt);
  EXPECT_EQ(index.Find("nan"), std::nullopt);
}

TEST(LabelIndex, TellsIntegersApartThatAreTheSameDouble) {
  const LabelIndex index =
      LabelIndex::Create(Names{"9007199254740992", "9007199254740993"}).value();
  EXPECT_EQ(index.Find("9007199254740992"), 0u);
  EXPECT_EQ(index.Find("9007199254740993"), 1u);
  EXPECT_EQ(index.Find("9007199254740992.0"), std::nullopt);
}

TEST(LabelIndex, RefusesClassesThatCannotBeUsed) {
  EXPECT_EQ(ErrorOf({}), "at least 2 classes are needed, there are 0");
  EXPECT_EQ(ErrorOf({"a"}), "at least 2 classes are needed, there is 1");
  EXPECT_EQ(ErrorOf({"a", " "}), "a class has an empty name");
  EXPECT_EQ(ErrorOf({"a", "b", "a "}), "classes \"a\" and \"a\" are the same");
  EXPECT_EQ(ErrorOf({"1", "1.0"}), "classes \"1\" and \"1.0\" are the same");
}

}  // namespace
}  // namespace millrace
