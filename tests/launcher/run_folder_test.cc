#include "launcher/run_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/stores/temporary_folder.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

TEST(RunFolder, IsForItsOwnerOnlyWhateverTheUmask) {
  const TemporaryFolder folder;
  const mode_t before = umask(0);
  const Status opened = RunFolder::Open(folder / "a/run", "job", 1).status();
  umask(before);
  ASSERT_TRUE(opened.ok()) << opened;
  for (const char* path : {"a", "a/run", "a/run/logs", "a/run/processes"}) {
    EXPECT_EQ(std::filesystem::status(folder / path).permissions(),
              std::filesystem::perms::owner_all)
        << path;
  }
}

TEST(RunFolder, BelongsToOneJob) {
  const TemporaryFolder folder;
  ASSERT_TRUE(RunFolder::Open(folder.path(), "job", 1).ok());
  EXPECT_TRUE(RunFolder::Open(folder.path(), "job", 1).ok());
  for (const Status& status : {RunFolder::Open(folder.path(), "job2", 1).status(),
                               RunFolder::Open(folder.path(), "job", 12).status()}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(folder.path() + " belongs to the job and epoch \"job 1\""));
    EXPECT_THAT(std::string(status.message()), HasSubstr("choose another --run-dir"));
  }
}

TEST(RunFolder, ThatCannotBeMadeIsAnErrorThatNamesIt) {
  const Status status = RunFolder::Open("/dev/null/run", "job", 1).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("/dev/null/run"));
}

TEST(RunFolder, ListsIncarnationsAndPassesOverWhatIsNone) {
  const TemporaryFolder folder;
  const auto run = RunFolder::Open(folder.path(), "job", 1);
  ASSERT_TRUE(run.ok()) << run.status();
  ASSERT_TRUE(run->Incarnation("worker-2", 5).Make().ok());
  ASSERT_TRUE(run->KeepFrom("worker-2", 4).ok());
  std::filesystem::create_directories(folder / "processes/worker-2/x");
  std::filesystem::create_directories(folder / "processes/lost+found/1");
  std::ofstream(folder / "processes/worker-3") << "a file\n";
  const auto known = run->List();
  ASSERT_TRUE(known.ok()) << known.status();
  ASSERT_EQ(known->size(), 1U);
  EXPECT_EQ(known->front().name, "worker-2");
  EXPECT_EQ(known->front().process.rank(), 2U);
  EXPECT_EQ(known->front().incarnation, 5U);
}

TEST(RunFolder, KeepsTheHighestOfWhatIsForgotten) {
  const TemporaryFolder folder;
  const auto run = RunFolder::Open(folder.path(), "job", 1);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->FirstKept("worker-2").value(), 0U);
  ASSERT_TRUE(run->KeepFrom("worker-2", 4).ok());
  ASSERT_TRUE(run->KeepFrom("worker-2", 3).ok());
  EXPECT_EQ(run->FirstKept("worker-2").value(), 4U);
  EXPECT_TRUE(IsForgotten(run->Incarnation("worker-2", 3).path()).value());
  EXPECT_FALSE(IsForgotten(run->Incarnation("worker-2", 4).path()).value());
  EXPECT_FALSE(IsForgotten(run->Incarnation("worker-3", 1).path()).value());
}

}  // namespace
}  // namespace millrace
