#include "topics/names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace millrace {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

void ExpectRefused(const Status& status, const std::string& words) {
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(words));
  EXPECT_THAT(std::string(status.message()), StartsWith("here '"));
}

TEST(Names, OfJobsArePrefixesOfTopicsAndNamesOfFolders) {
  for (const char* good : {"a", "flights-2013.v2", "_x", "7"}) {
    EXPECT_TRUE(CheckJobName("here", good).ok()) << good;
  }
  for (const std::string_view bad :
       {"", "..", ".", ".hidden", "-rf", "a/b", "with space", "\xC3\xA4"}) {
    ExpectRefused(CheckJobName("here", bad), "the first of them a letter, digit or '_'");
  }
  EXPECT_TRUE(CheckJobName("here", std::string(200, 'a')).ok());
  ExpectRefused(CheckJobName("here", std::string(201, 'a')), "200 at most");
  ExpectRefused(CheckJobName("here", std::string_view("a\0b", 3)), "'a\\x00b': use letters");
}

TEST(Names, OfTopicsAreThoseOfBrokers) {
  for (const std::string& good : {std::string("-a"), std::string(".b"), std::string(249, 'a')}) {
    EXPECT_TRUE(CheckTopicName("here", good).ok()) << good;
  }
  for (const std::string_view bad : {"", ".", "..", "a/b", "with space", "\xC3\xA4"}) {
    ExpectRefused(CheckTopicName("here", bad), "use letters, digits");
  }
  ExpectRefused(CheckTopicName("here", std::string(250, 'a')), "249 at most");
  ExpectRefused(CheckTopicName("here", std::string_view("a\0b", 3)), "'a\\x00b': use letters");
}

}  // namespace
}  // namespace millrace
