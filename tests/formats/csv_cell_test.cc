#include "formats/csv_cell.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace millrace {
namespace {

TEST(CsvCell, IsQuotedOnlyIfItMustBe) {
  const auto cell = [](std::string_view text, char delimiter) {
    std::string out;
    AppendCell(text, delimiter, &out);
    return out;
  };
  EXPECT_EQ(cell("a b", ','), "a b");
  EXPECT_EQ(cell("a,b", ','), "\"a,b\"");
  EXPECT_EQ(cell("a,b", ';'), "a,b");
  EXPECT_EQ(cell("say \"a\"", ';'), "\"say \"\"a\"\"\"");
  EXPECT_EQ(cell("a\rb", ';'), "\"a\rb\"");
}

}  // namespace
}  // namespace millrace
