#include "master/job_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/atomic_file.h"

namespace millrace {
namespace {

using ::testing::EndsWith;

class JobFilesTest : public testing::Test {
 protected:
  JobFilesTest() {
    std::string name = testing::TempDir() + "millrace-XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~JobFilesTest() override { std::filesystem::remove_all(folder_); }

  std::string Keep(const std::string& group, uint32_t workers) {
    JobConfig config;
    config.set_workers(workers);
    const StatusOr<std::string> path = KeepJobFile(folder_, group, config);
    EXPECT_TRUE(path.ok()) << path.status();
    return *path;
  }
  std::string Write(const std::string& text) {
    const std::string path = folder_ + "/log";
    std::ofstream(path) << text;
    return path;
  }

  std::string folder_;
};

TEST_F(JobFilesTest, TheSameSettingsKeepTheirFileAndOthersGetANewOne) {
  const std::string first = Keep("server", 4);
  EXPECT_THAT(first, EndsWith("/config/server-1.textproto"));
  EXPECT_EQ(Keep("server", 4), first);
  EXPECT_THAT(Keep("server", 5), EndsWith("/config/server-2.textproto"));
  // Back to what it was before is another change.
  EXPECT_THAT(Keep("server", 4), EndsWith("/config/server-3.textproto"));
  EXPECT_THAT(Keep("worker", 4), EndsWith("/config/worker-1.textproto"));
}

TEST_F(JobFilesTest, ANumberThatAnotherMasterIsWritingIsLeftToIt) {
  Keep("server", 4);
  const std::string theirs = folder_ + "/config/server-2.textproto";
  StatusOr<AtomicFile> other = AtomicFile::Create(theirs);
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_THAT(Keep("server", 5), EndsWith("/config/server-3.textproto"));
}

TEST_F(JobFilesTest, AreNamedByTheirContentWhereTheyAreNoFiles) {
  JobConfig config;
  config.set_workers(4);
  const std::string text = JobFileText(config).value();
  EXPECT_EQ(text, "workers: 4\n");
  const std::string name = JobFileName("server", text);
  EXPECT_THAT(name, testing::MatchesRegex("server-[0-9a-f]+.textproto"));
  EXPECT_EQ(JobFileName("server", text), name);
  EXPECT_NE(JobFileName("server", "workers: 5\n"), name);
  EXPECT_NE(JobFileName("worker", text), name);
}

TEST_F(JobFilesTest, AFileThatWasEditedIsNotTakenForOurs) {
  const std::string first = Keep("server", 4);
  std::ofstream(first) << "workers: 9\n";
  EXPECT_THAT(Keep("server", 4), EndsWith("/config/server-2.textproto"));
}

TEST_F(JobFilesTest, OnlyTheOwnerReadsThemSinceTheyMayHoldPasswords) {
  struct stat found = {};
  ASSERT_EQ(stat(Keep("server", 4).c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0600u);
}

TEST_F(JobFilesTest, TheLastLinesOfALogAreFitForATerminal) {
  EXPECT_EQ(LastLogLines(Write("1\n2\n3\n4\n"), 1, 2), "3\n4");
  EXPECT_EQ(LastLogLines(Write("only \x1b[31m"), 1, 2), "only \\x1b[31m");
  EXPECT_EQ(LastLogLines(Write(""), 1, 2), "");
  EXPECT_EQ(LastLogLines(folder_ + "/none", 1, 2), "");
}

TEST_F(JobFilesTest, TheLastLinesAreThoseOfOneIncarnation) {
  const std::string log =
      Write("worker-0, incarnation 3: begins: x\nold\nworker-0, incarnation 13: begins: x\nnew\n");
  EXPECT_EQ(LastLogLines(log, 13, 9), "worker-0, incarnation 13: begins: x\nnew");
  EXPECT_EQ(LastLogLines(log, 13, 1), "new");
  EXPECT_EQ(LastWords(Write("old\nw-0, incarnation 3: begins: x\nwhy\n\nw-0, incarnation 3: exit "
                            "code 1\n"),
                      3),
            "why");
  EXPECT_EQ(LastWords(Write("old\nw-0, incarnation 3: begins: x\n"), 3), "");
}

TEST_F(JobFilesTest, ALongLogIsReadAtItsEndOnly) {
  std::string text(300'000, 'x');
  text += "\nlast\n";
  EXPECT_EQ(LastLogLines(Write(text), 1, 1), "last");
}

}  // namespace
}  // namespace millrace
