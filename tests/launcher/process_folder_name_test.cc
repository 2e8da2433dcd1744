#include "launcher/process_folder_name.h"

#include <gtest/gtest.h>

#include <string>

namespace millrace {
namespace {

ProcessName Named(const std::string& group, uint32_t rank) {
  ProcessName name;
  name.set_group(group);
  name.set_rank(rank);
  return name;
}

TEST(ProcessFolderName, IsReadAsItIsWritten) {
  for (const ProcessName& process : {Named("worker", 0), Named("a-2", 4'294'967'295),
                                     Named("a-", 1), Named(std::string(32, 'z'), 10)}) {
    const StatusOr<std::string> name = FolderNameOf(process);
    ASSERT_TRUE(name.ok()) << name.status();
    const auto read = ProcessOfFolder(*name);
    ASSERT_TRUE(read) << *name;
    EXPECT_EQ(read->group(), process.group());
    EXPECT_EQ(read->rank(), process.rank());
  }
  EXPECT_EQ(FolderNameOf(Named("worker", 12)).value(), "worker-12");
}

TEST(ProcessFolderName, LeadsNowhereElse) {
  for (const char* group : {"", "..", "../up", "a/b", "A", "2", "-a", "a b", "a\nb"}) {
    const Status status = FolderNameOf(Named(group, 0)).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << group;
  }
  EXPECT_FALSE(FolderNameOf(Named(std::string(33, 'z'), 0)).ok());
}

TEST(ProcessFolderName, IsNoOtherName) {
  for (const char* name : {"", "worker", "worker-", "-1", "worker-01", "worker-+1", "worker--1x",
                           "worker-4294967296", "Worker-1", "lost+found", ".hidden-1"}) {
    EXPECT_FALSE(ProcessOfFolder(name)) << name;
  }
}

}  // namespace
}  // namespace millrace
