#include "base/line_sink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace millrace {
namespace {

using ::testing::ElementsAre;

TEST(LineSinkTest, TheFirstStaysUntilAnotherIsSet) {
  std::vector<std::string> lines;
  const auto named = [&lines](const std::string& name) {
    return [&lines, name](std::string_view line) { lines.push_back(name + std::string(line)); };
  };
  EXPECT_FALSE(GiveToLineSink("lost")) << "its caller writes it";
  SetFirstLineSink(named("a: "));
  SetFirstLineSink(named("b: "));
  EXPECT_TRUE(GiveToLineSink("one"));
  SetLineSink(named("c: "));
  EXPECT_TRUE(GiveToLineSink("two"));
  SetLineSink(nullptr);
  EXPECT_FALSE(GiveToLineSink("lost"));
  EXPECT_THAT(lines, ElementsAre("a: one", "c: two"));
}

}  // namespace
}  // namespace millrace
