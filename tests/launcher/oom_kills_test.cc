#include "launcher/oom_kills.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/stores/temporary_folder.h"

namespace millrace {
namespace {

void Write(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path) << text;
}

TEST(CountOomKills, TakesTheMostExactFile) {
  const TemporaryFolder root;
  EXPECT_EQ(CountOomKills(root.path()), std::nullopt);
  Write(root / "proc/vmstat", "nr_free_pages 100\noom_kill 1\npgfault 7\n");
  EXPECT_EQ(CountOomKills(root.path()), 1U);
  // In a container: the group's files are where all groups are outside.
  Write(root / "proc/self/cgroup", "4:cpu,memory:/outside\n0::/outside/too\n");
  Write(root / "sys/fs/cgroup/memory/memory.oom_control",
        "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n");
  EXPECT_EQ(CountOomKills(root.path()), 2U);
  Write(root / "sys/fs/cgroup/memory/outside/memory.oom_control",
        "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n");
  EXPECT_EQ(CountOomKills(root.path()), 3U);
  Write(root / "proc/self/cgroup", "0::/own\n4:memory:/outside\n");
  Write(root / "sys/fs/cgroup/own/memory.events.local", "low 0\nhigh 9\noom 5\noom_kill 4\n");
  EXPECT_EQ(CountOomKills(root.path()), 4U);
}

TEST(CountOomKills, KnowsTheFilesOfThisMachine) { EXPECT_TRUE(CountOomKills().has_value()); }

}  // namespace
}  // namespace millrace
