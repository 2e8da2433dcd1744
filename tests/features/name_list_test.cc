#include "features/name_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "features/category_hasher.h"
#include "features/quantile_bins.h"

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> Split(std::string_view list) { return SplitNames(list).value(); }

TEST(NameList, CommasSeparateAndInQuotesTheyDoNot) {
  EXPECT_THAT(Split("a,b c,d"), ElementsAre("a", "b c", "d"));
  EXPECT_THAT(Split("a,\"b, c\",d"), ElementsAre("a", "\"b, c\"", "d"));
  EXPECT_THAT(Split("a* \"b,c\"*d,e"), ElementsAre("a* \"b,c\"*d", "e"));
  EXPECT_THAT(Split("\"a,\"\"b\""), ElementsAre("\"a,\"\"b\""));
  EXPECT_THAT(Split("a,"), ElementsAre("a", ""));
}

TEST(NameList, AQuoteInsideANameIsPartOfIt) {
  EXPECT_THAT(Split("5\" pipe,6\""), ElementsAre("5\" pipe", "6\""));
}

TEST(NameList, AQuoteThatIsNotClosedIsAnError) {
  const Status status = SplitNames("a,\"b,c").status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("quote that is not closed"));
}

TEST(NameList, QuotesAreTakenOffANameThatStandsInThem) {
  EXPECT_EQ(Unquoted("\"a,\"\"b\"\"\""), "a,\"b\"");
  EXPECT_EQ(Unquoted(" \"a\" "), "a");
  EXPECT_EQ(Unquoted("\"a\"*b"), "\"a\"*b");
  EXPECT_EQ(Unquoted("a"), "a");
  EXPECT_EQ(Unquoted("\""), "\"");
}

TEST(NameList, ATermHasTheColumnThatItWasMadeOf) {
  for (const char* name : {"a", "a*b", "a:16", "a=b", "\"a\"", "a, b", "*", "\\", "a \"b\" c"}) {
    EXPECT_THAT(ColumnsOfTerm(TermOfColumn(name)), ElementsAre(name));
    EXPECT_THAT(ColumnsOfTerm(TermOfColumn(name) + " * x*" + TermOfColumn(name)),
                ElementsAre(name, "x", name));
  }
}

// As it was read before there were quotes in terms.
TEST(NameList, QuotesThatEncloseNoWholeNameArePartOfIt) {
  EXPECT_THAT(ColumnsOfTerm("\"a"), ElementsAre("\"a"));
  EXPECT_THAT(ColumnsOfTerm("\"a\" b*c"), ElementsAre("\"a\" b", "c"));
}

TEST(NameList, ColumnsOfBinsMayStandInQuotes) {
  FeatureSpec spec;
  for (const char* item : {"\"a:16\"", "\"b:4\":8", "\"all\":2", "c:d"}) spec.add_bins(item);
  EXPECT_THAT(BinnedColumns(spec).value(),
              ElementsAre(BinnedColumn{"a:16", 16}, BinnedColumn{"b:4", 8}, BinnedColumn{"all", 2},
                          BinnedColumn{"c:d", 16}));
}

}  // namespace
}  // namespace millrace
