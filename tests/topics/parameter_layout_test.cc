#include "topics/parameter_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

NamedParameter& Add(JobFeatures& features, const std::string& name,
                    const std::vector<uint64_t>& shape) {
  NamedParameter& parameter = *features.add_parameters();
  parameter.set_name(name);
  parameter.mutable_shape()->Assign(shape.begin(), shape.end());
  parameter.set_learning_rate_multiplier(1);
  parameter.set_decay_multiplier(1);
  return parameter;
}

TEST(ParameterLayoutTest, OneStandsBehindTheOther) {
  JobFeatures features;
  EXPECT_THAT(*LayOutParameters(features), IsEmpty());
  Add(features, "w", {3, 4});
  Add(features, "scale", {});
  Add(features, "b", {4});
  EXPECT_THAT(*LayOutParameters(features),
              ElementsAre(KeyRange{0, 12}, KeyRange{12, 13}, KeyRange{13, 17}));
}

TEST(ParameterLayoutTest, ATableHasNoKeys) {
  JobFeatures features;
  Add(features, "w", {3, 4});
  Add(features, "table", {5}).mutable_table();
  Add(features, "b", {4});
  EXPECT_THAT(*LayOutParameters(features),
              ElementsAre(KeyRange{0, 12}, KeyRange{12, 12}, KeyRange{12, 16}));
  features.mutable_parameters(1)->add_shape(2);
  EXPECT_THAT(LayOutParameters(features).status().message(), HasSubstr("the table table: give"));
  features.mutable_parameters(1)->set_name("ids\xff");
  EXPECT_THAT(LayOutParameters(features).status().message(),
              HasSubstr("the table ids\\xff: give it a name"));
}

TEST(ParameterLayoutTest, SaysWhichIsWrongAndWhy) {
  const auto complaint = [](auto change) {
    JobFeatures features;
    Add(features, "w", {3, 4});
    change(Add(features, "b", {4}));
    return std::string(LayOutParameters(features).status().message());
  };
  EXPECT_THAT(complaint([](NamedParameter& b) { b.set_name(""); }), HasSubstr("without a name"));
  EXPECT_THAT(complaint([](NamedParameter& b) { b.set_name("b\xff"); }),
              HasSubstr("the parameter b\\xff: give it a name in UTF-8"));
  EXPECT_THAT(complaint([](NamedParameter& b) { b.set_name("b\nc"); }),
              HasSubstr("without control characters"));
  EXPECT_THAT(complaint([](NamedParameter& b) { b.set_name("größe"); }), IsEmpty());
  EXPECT_THAT(complaint([](NamedParameter& b) { b.set_name("w"); }), HasSubstr("w is there twice"));
  EXPECT_THAT(complaint([](NamedParameter& b) { b.add_shape(0); }), HasSubstr("b: give each"));
  EXPECT_THAT(complaint([](NamedParameter& b) { b.add_shape(uint64_t{1} << 63); }),
              HasSubstr("values at most"));
  EXPECT_THAT(complaint([](NamedParameter& b) { b.set_shape(0, uint64_t{1} << 36); }),
              HasSubstr("together"));
  EXPECT_THAT(complaint([](NamedParameter& b) {
                for (int i = 0; i < 32; ++i) b.add_shape(1);
              }),
              HasSubstr("32 extents"));
  EXPECT_THAT(complaint([](NamedParameter& b) { b.set_handler("rmsprop"); }),
              HasSubstr("no handler rmsprop; give one of sgd, "));
  EXPECT_THAT(complaint([](NamedParameter& b) { b.set_learning_rate_multiplier(-1); }),
              HasSubstr("multipliers"));
  EXPECT_THAT(complaint([](NamedParameter& b) { b.set_decay_multiplier(std::nan("")); }),
              HasSubstr("multipliers"));
}

TEST(ParameterLayoutTest, AShardHasThePartOfAParameterThatIsInItsRange) {
  EXPECT_EQ(PartOf({2, 9}, {0, 5}), (KeyRange{2, 5}));
  EXPECT_EQ(PartOf({2, 9}, {5, 20}), (KeyRange{5, 9}));
  EXPECT_EQ(PartOf({2, 9}, {4, 6}), (KeyRange{4, 6}));
  EXPECT_EQ(PartOf({2, 9}, {9, 12}).size(), 0u);
  EXPECT_EQ(PartOf({2, 9}, {0, 2}).size(), 0u);
}

}  // namespace
}  // namespace millrace
