#include "topics/process_name.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace millrace {
namespace {

TEST(ProcessName, IsGroupAndRankAndBack) {
  for (const char* text : {"worker-0", "worker-999", "a-1", "shard-2-server-3"}) {
    const StatusOr<ProcessName> name = ParseProcessName(text);
    ASSERT_TRUE(name.ok()) << text;
    EXPECT_TRUE(CheckProcessName(*name).ok()) << text;
    EXPECT_EQ(ToText(*name), text);
  }
  EXPECT_EQ(ParseProcessName("shard-2-server-3")->group(), "shard-2-server");
  EXPECT_EQ(ParseProcessName("shard-2-server-3")->rank(), 3u);
}

TEST(ProcessName, IsNoOtherText) {
  for (const char* text :
       {"", "-", "worker", "worker-", "-1", "worker-01", "worker-+1", "worker--1x", "worker-1 ",
        "Worker-1", "1worker-1", "wor/ker-1", "worker-1000", "worker-4294967296", "../x-1",
        "abcdefghijklmnopqrstuvwxyzabcdefg-1", "lost+found", ".hidden-1"}) {
    const StatusOr<ProcessName> name = ParseProcessName(text);
    EXPECT_TRUE(absl::IsInvalidArgument(name.status())) << text;
  }
  EXPECT_THAT(std::string(TextOf(ParseProcessName("\x1b[2J-1").status())),
              testing::HasSubstr("\"\\x1b[2J-1\" is not the name of a process"));
}

// It is that of a folder, too.
TEST(ProcessName, LeadsNowhereElse) {
  for (const char* group : {"", "..", "../up", "a/b", "A", "2", "-a", "a b", "a\nb"}) {
    ProcessName name;
    name.set_group(group);
    EXPECT_TRUE(absl::IsInvalidArgument(CheckProcessName(name))) << group;
  }
}

TEST(ProcessEnd, IsSaidInTheFieldsTerms) {
  const auto text = [](ProcessEnd::Cause cause, int code, const std::string& detail) {
    ProcessEnd end;
    end.set_cause(cause);
    end.set_code(code);
    end.set_detail(detail);
    return ToText(end);
  };
  EXPECT_EQ(text(ProcessEnd::EXITED, 3, ""), "exit code 3");
  EXPECT_EQ(text(ProcessEnd::SIGNALED, 9, ""), "signal 9 (SIGKILL)");
  EXPECT_EQ(text(ProcessEnd::SIGNALED, 4000, ""), "signal 4000");
  EXPECT_EQ(text(ProcessEnd::OUT_OF_MEMORY, 9, ""), "killed by the kernel, out of memory");
  EXPECT_EQ(text(ProcessEnd::NOT_STARTED, 0, "/no: \x1b"),
            "its program cannot be executed: /no: \\x1b");
  EXPECT_EQ(text(ProcessEnd::UNKNOWN, 0, ""), "exit status unknown");
  EXPECT_EQ(text(static_cast<ProcessEnd::Cause>(77), 0, ""), "exit status unknown");
}

}  // namespace
}  // namespace millrace
