#include "producer/column_survey.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace millrace {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Cell = std::function<std::string(int)>;

ColumnSurvey Survey(const std::string& name, const Cell& cell, int rows = 1000) {
  ColumnSurvey column(name);
  for (int i = 0; i < rows; ++i) column.Add(cell(i));
  return column;
}

ColumnSurvey Cycle(const std::string& name, const std::vector<std::string>& cells,
                   int rows = 1000) {
  return Survey(
      name, [&](int i) { return cells[static_cast<size_t>(i) % cells.size()]; }, rows);
}

ColumnType TypeOf(const ColumnSurvey& column) { return column.TypeOf(false); }

std::string Shuffled(int i) { return std::to_string(i * 7919 % 10007); }

TEST(ColumnSurvey, NumbersAreNumbersHoweverFewThereAre) {
  EXPECT_EQ(TypeOf(Survey("age", Shuffled)), ColumnType::kNumber);
  EXPECT_EQ(TypeOf(Cycle("rooms", {"1", "2", "3"})), ColumnType::kNumber);
  EXPECT_EQ(TypeOf(Cycle("x", {"1.5", "-2e3", "NA", ""})), ColumnType::kNumber);
}

TEST(ColumnSurvey, NumbersWithCommasAreNumbersIfTheSignIsAComma) {
  const ColumnSurvey column = Cycle("price", {"1.234,5", "0,5", "7"});
  EXPECT_TRUE(column.prefers_commas());
  EXPECT_EQ(column.TypeOf(true), ColumnType::kNumber);
  EXPECT_EQ(column.TypeOf(false), ColumnType::kCategory);
  EXPECT_TRUE(Cycle("price", {"0.5", "12.75"}).prefers_points());
  EXPECT_FALSE(Cycle("price", {"5", "7"}).prefers_points());
}

TEST(ColumnSurvey, AFewWordsAmongNumbersMayMeanNoValue) {
  const ColumnSurvey column =
      Survey("age", [](int i) { return i % 50 == 0 ? "unknown" : Shuffled(i); });
  EXPECT_EQ(TypeOf(column), ColumnType::kNumber);
  EXPECT_THAT(column.OtherWords(ColumnType::kNumber, false), ElementsAre("unknown"));
  EXPECT_THAT(column.ReasonOf(ColumnType::kNumber, false),
              AllOf(HasSubstr("such as \""), Not(HasSubstr("unknown"))));
  const ColumnSurvey many = Survey(
      "code", [](int i) { return i % 25 == 0 ? "x" + std::to_string(i) : std::to_string(i % 9); });
  EXPECT_EQ(TypeOf(many), ColumnType::kCategory) << "too many words";
}

TEST(ColumnSurvey, WordsOfYesAndNoAreBooleans) {
  for (const auto& cells : std::vector<std::vector<std::string>>{
           {"true", "False"}, {"yes", "no", ""}, {"T", "F"}, {"y", "n"}}) {
    EXPECT_EQ(TypeOf(Cycle("paid", cells)), ColumnType::kBoolean) << cells[0];
  }
  EXPECT_EQ(TypeOf(Cycle("paid", {"0", "1"})), ColumnType::kNumber);
  EXPECT_EQ(TypeOf(Cycle("paid", {"yes", "no", "later"})), ColumnType::kCategory);
}

TEST(ColumnSurvey, TimesAreKnownByTheirFormOrByNameAndRange) {
  EXPECT_EQ(TypeOf(Cycle("x", {"2013-01-31", "2013-02-01 10:00", "NA"})), ColumnType::kTime);
  const auto epoch = [](int i) { return std::to_string(1357034400 + i * 3600); };
  EXPECT_EQ(TypeOf(Survey("created_at", epoch)), ColumnType::kTime);
  EXPECT_EQ(TypeOf(Survey("Timestamp", epoch)), ColumnType::kTime);
  const auto of_the_nineties = [](int i) { return std::to_string(828'124'615 + i * 86'400); };
  EXPECT_EQ(TypeOf(Survey("timestamp", of_the_nineties)), ColumnType::kTime);
  EXPECT_EQ(TypeOf(Survey("revenue", epoch)), ColumnType::kNumber);
  EXPECT_THAT(Survey("revenue", epoch).ReasonOf(ColumnType::kNumber, false),
              HasSubstr("from 1357034400 to 1360630800"));
  EXPECT_EQ(TypeOf(Survey("time", Shuffled)), ColumnType::kNumber);
}

TEST(ColumnSurvey, WhatHasTheSameOrAnotherValueInEachRowTellsNothing) {
  EXPECT_EQ(TypeOf(Cycle("x", {"same"})), ColumnType::kConstant);
  EXPECT_EQ(TypeOf(Cycle("x", {"", "NA"})), ColumnType::kConstant);
  EXPECT_EQ(TypeOf(Cycle("x", {"one", ""})), ColumnType::kCategory) << "there or not";
  EXPECT_EQ(TypeOf(Survey("n", [](int i) { return std::to_string(i + 1); })), ColumnType::kKey);
  EXPECT_EQ(TypeOf(Survey("order_id", Shuffled)), ColumnType::kKey);
  EXPECT_EQ(TypeOf(Survey("x", [](int i) { return "k" + Shuffled(i); })), ColumnType::kKey);
}

TEST(ColumnSurvey, WordsAreCategoriesOrIdsByHowManyThereAre) {
  const auto user = [](int i) { return "u" + std::to_string(i * 7919 % 2003); };
  EXPECT_EQ(TypeOf(Survey("user", user, 10'000)), ColumnType::kId);
  EXPECT_EQ(TypeOf(Cycle("city", {"Ulm", "Bonn", "Trier"})), ColumnType::kCategory);
  const auto zip = [](int i) { return std::to_string(10'000 + i * 7919 % 500); };
  EXPECT_EQ(TypeOf(Survey("zipCode", zip, 10'000)), ColumnType::kCategory) << "by its name";
}

TEST(ColumnSurvey, TextsHaveSeveralWordsAndSeldomRepeat) {
  const auto text = [](int i) { return "the flight " + Shuffled(i) + " was late"; };
  EXPECT_EQ(TypeOf(Survey("note", text)), ColumnType::kText);
  EXPECT_EQ(TypeOf(Cycle("city", {"Frankfurt an der Oder", "Rothenburg ob der Tauber"})),
            ColumnType::kCategory);
}

TEST(ColumnSurvey, ALabelHasFewValuesOrIsANumber) {
  EXPECT_TRUE(Cycle("y", {"no", "yes"}).MayBeClass());
  EXPECT_FALSE(Cycle("y", {"no", "yes"}).MayBeTarget(false));
  EXPECT_FALSE(Survey("y", Shuffled).MayBeClass());
  EXPECT_TRUE(Survey("y", Shuffled).MayBeTarget(false));
  EXPECT_FALSE(Cycle("y", {"same"}).MayBeClass());
}

TEST(ColumnSurvey, AReasonIsOneLineWithValues) {
  const ColumnSurvey column = Cycle("y", {"no", "no", "no", "ye\ns", ""});
  const std::string reason = column.ReasonOf(TypeOf(column), false);
  EXPECT_THAT(reason, HasSubstr("2 values: \"no\" 75 %, \"ye\\ns\" 25 %; 20 % missing"));
}

}  // namespace
}  // namespace millrace
