// What RocksDbByteMap says when the disk is not as it should be, and how much memory it takes.
#include "stores/rocksdb_byte_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>

#include "base/big_endian.h"
#include "tests/stores/child_process.h"
#include "tests/stores/temporary_folder.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

#if !defined(__has_feature)
#define __has_feature(feature) 0  // clang's; GCC has macros
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || \
    __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool kIsSanitized = true;
#else
constexpr bool kIsSanitized = false;
#endif

RocksDbOptions SmallBuffers() {
  RocksDbOptions options;
  options.write_buffer_bytes = 256 << 10;
  return options;
}

// A closed map in `folder` with a few files of entries.
void WriteFiles(const std::string& folder) {
  auto map = OpenRocksDb(folder, SmallBuffers());
  ASSERT_TRUE(map.ok()) << map.status();
  std::mt19937_64 random(3);
  for (uint64_t i = 0; i < 1000; ++i) {
    std::string value(1000, '\0');
    for (char& c : value) c = static_cast<char>(random());
    WriteBatch batch;
    batch.Put(EncodeBigEndian64(i), value);
    ASSERT_TRUE((*map)->Write(batch).ok());
  }
}

Status PutRun(OrderedByteMap& map, const std::string& key, const std::string& value) {
  return map.WriteSortedRun(
      [&](const OrderedByteMap::Take& take) -> Status { return take(key, value); });
}

std::vector<std::filesystem::path> FilesOf(const std::string& folder, const std::string& part) {
  std::vector<std::filesystem::path> files;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    if (file.path().filename().string().find(part) != std::string::npos) {
      files.push_back(file.path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

// Opens the folder and reads all of it.
Status OpenAndRead(const std::string& folder) {
  auto map = OpenRocksDb(folder, SmallBuffers());
  if (!map.ok()) return map.status();
  return (*map)->Scan("", "", [](std::string_view, std::string_view) { return true; });
}

void ExpectDamaged(const Status& status, const std::string& folder) {
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("'" + folder + "'"), HasSubstr("move it away")));
}

TEST(RocksDbByteMapTest, MakesTheFolderAndItsParents) {
  TemporaryFolder folder;
  auto map = OpenRocksDb(folder / "a/b/c");
  ASSERT_TRUE(map.ok()) << map.status();
  EXPECT_TRUE(std::filesystem::exists(folder / "a/b/c/CURRENT"));
}

TEST(RocksDbByteMapTest, AFolderLockedByAnotherProcessIsAnErrorThatNamesTheProcess) {
  TemporaryFolder folder;
  ChildProcess child({STORES_CHILD, "hold", folder.path()});
  ASSERT_EQ(child.ReadLine(), "open");
  const Status status = OpenRocksDb(folder.path()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("'" + folder.path() + "'"),
                    HasSubstr("locked by process " + std::to_string(child.pid())),
                    HasSubstr("stop that process")));
  EXPECT_TRUE(IsLockedByAnother(status));
  child.Kill();
  EXPECT_TRUE(OpenRocksDb(folder.path()).ok()) << "the lock goes with the process";
}

TEST(RocksDbByteMapTest, AFolderOpenTwiceInOneProcessIsAnErrorAndStaysLocked) {
  TemporaryFolder folder;
  const auto map = OpenRocksDb(folder.path());
  ASSERT_TRUE(map.ok()) << map.status();
  const Status status = OpenRocksDb(folder.path()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("this process has it open already"));
  EXPECT_FALSE(IsLockedByAnother(status));
  ChildProcess child({STORES_CHILD, "open", folder.path()});
  EXPECT_THAT(child.ReadLine().value_or(""), HasSubstr("locked by process"));
}

TEST(RocksDbByteMapTest, ACopyHasWhatTheMapHadAndGoesItsOwnWay) {
  TemporaryFolder folder;
  auto map = OpenRocksDb(folder / "map", SmallBuffers());
  ASSERT_TRUE(map.ok()) << map.status();
  WriteBatch batch;
  batch.Put("a", "before");
  ASSERT_TRUE((*map)->Write(batch).ok());
  ASSERT_TRUE((*map)->CopyTo(folder / "copy").ok());
  batch.Put("a", "after");
  ASSERT_TRUE((*map)->Write(batch).ok());
  auto copy = OpenRocksDb(folder / "copy");
  ASSERT_TRUE(copy.ok()) << copy.status();
  EXPECT_EQ(*(*copy)->Get("a"), "before") << "although it was in memory only";
  batch.Put("a", "elsewhere");
  ASSERT_TRUE((*copy)->Write(batch).ok());
  EXPECT_EQ(*(*map)->Get("a"), "after");
  EXPECT_FALSE((*map)->CopyTo(folder / "copy").ok()) << "never into a folder that is there";
}

TEST(RocksDbByteMapTest, ASortedRunIsAFileAndLeavesNothingInTheLog) {
  const TemporaryFolder folder;
  auto map = OpenRocksDb(folder / "map");
  ASSERT_TRUE(map.ok()) << map.status();
  ASSERT_TRUE(PutRun(**map, "key", std::string(1000, 'v')).ok());
  EXPECT_EQ(FilesOf(folder / "map", ".sst").size(), 1u);
  EXPECT_TRUE(FilesOf(folder / "map", "run").empty());
  for (const auto& file : FilesOf(folder / "map", ".log")) {
    EXPECT_EQ(std::filesystem::file_size(file), 0u);
  }
  ASSERT_TRUE((*map)->CopyTo(folder / "copy").ok());
  EXPECT_EQ(*(*OpenRocksDb(folder / "copy"))->Get("key"), std::string(1000, 'v'));
}

// What is on the disk when the process is killed, without its lock.
void CopyAsAKillLeavesIt(const std::string& from, const std::string& to) {
  std::filesystem::create_directory(to);
  for (const auto& file : std::filesystem::directory_iterator(from)) {
    if (file.path().filename() == "LOCK") continue;
    std::filesystem::copy(file.path(), to / file.path().filename());
  }
}

TEST(RocksDbByteMapTest, WithoutALogASortedRunDoesNotOutliveWhatWasWrittenBefore) {
  const TemporaryFolder folder;
  auto map = OpenRocksDb(folder / "map", {.has_log = false});
  ASSERT_TRUE(map.ok()) << map.status();
  WriteBatch batch;
  batch.Put("a", "before");
  ASSERT_TRUE((*map)->Write(batch).ok());
  ASSERT_TRUE(PutRun(**map, "b", "run").ok());
  CopyAsAKillLeavesIt(folder / "map", folder / "killed");
  auto killed = OpenRocksDb(folder / "killed");
  ASSERT_TRUE(killed.ok()) << killed.status();
  EXPECT_EQ(*(*killed)->Get("b"), "run");
  EXPECT_EQ(*(*killed)->Get("a"), "before");
}

TEST(RocksDbByteMapTest, WhatAKillHasLeftOfASortedRunIsRemoved) {
  const TemporaryFolder folder;
  const std::string path = folder / "map";
  ASSERT_TRUE(OpenRocksDb(path).ok());
  std::ofstream(path + "/unfinished-run") << "a part of a file";
  auto map = OpenRocksDb(path);
  ASSERT_TRUE(map.ok()) << map.status();
  EXPECT_FALSE(std::filesystem::exists(path + "/unfinished-run"));
  ASSERT_TRUE(PutRun(**map, "key", "value").ok());
  EXPECT_EQ(*(*map)->Get("key"), "value");
  map->reset();
  // Who cannot remove it does not go on: the next one would be written over a file of the map.
  std::filesystem::create_directories(path + "/unfinished-run/occupied");
  EXPECT_THAT(std::string(OpenRocksDb(path).status().message()),
              AllOf(HasSubstr(path), HasSubstr("unfinished-run cannot be removed")));
}

TEST(RocksDbByteMapTest, WithoutALogItKeepsWhatItHadWhenItWasClosedOrCopied) {
  const TemporaryFolder folder;
  const std::string path = folder / "map";
  const std::string copy = folder / "copy";
  for (int i = 0; i < 3; ++i) {
    auto map = OpenRocksDb(path, {.has_log = false});
    ASSERT_TRUE(map.ok()) << map.status();
    WriteBatch batch;
    batch.Put("key", std::to_string(i));
    ASSERT_TRUE((*map)->Write(batch).ok());
    for (const auto& file : std::filesystem::directory_iterator(path)) {
      if (file.path().extension() == ".log") {
        EXPECT_EQ(file.file_size(), 0u);
      }
    }
    if (i == 1) {
      ASSERT_TRUE((*map)->CopyTo(copy).ok());
    }
  }
  EXPECT_EQ(*(*OpenRocksDb(path))->Get("key"), "2");
  EXPECT_EQ(*(*OpenRocksDb(copy))->Get("key"), "1");
}

TEST(RocksDbByteMapTest, InBulkNothingIsLoggedAndAfterwardsItIsAgain) {
  const TemporaryFolder folder;
  auto map = OpenRocksDb(folder.path());
  ASSERT_TRUE(map.ok()) << map.status();
  const auto logged = [&] {
    uintmax_t bytes = 0;
    for (const auto& file : FilesOf(folder.path(), ".log")) {
      bytes += std::filesystem::file_size(file);
    }
    return bytes;
  };
  const auto write = [&] {
    WriteBatch batch;
    batch.Put("key", std::string(1000, 'v'));
    ASSERT_TRUE((*map)->Write(batch).ok());
    ASSERT_TRUE((*map)->Flush().ok());
  };
  const Status filled = (*map)->FillInBulk([&] {
    write();
    EXPECT_EQ(logged(), 0u);
    EXPECT_TRUE(FilesOf(folder.path(), ".sst").empty());
    return absl::OkStatus();
  });
  ASSERT_TRUE(filled.ok()) << filled;
  EXPECT_EQ(FilesOf(folder.path(), ".sst").size(), 1u) << "when it returns all is in files";
  write();
  EXPECT_GE(logged(), 1000u);
}

TEST(RocksDbByteMapTest, AnErrorOfWhatFillsItInBulkIsReturned) {
  const TemporaryFolder folder;
  auto map = OpenRocksDb(folder.path());
  ASSERT_TRUE(map.ok()) << map.status();
  const Status filled = (*map)->FillInBulk([&]() -> Status {
    WriteBatch batch;
    batch.Put("key", "value");
    MILLRACE_RETURN_IF_ERROR((*map)->Write(batch));
    return absl::UnavailableError("half of it");
  });
  EXPECT_EQ(filled, absl::UnavailableError("half of it"));
}

TEST(RocksDbByteMapTest, AFileInPlaceOfTheFolderIsAnErrorThatNamesIt) {
  TemporaryFolder folder;
  std::ofstream(folder / "file") << "text";
  for (const std::string& path : {folder / "file", folder / "file/below"}) {
    const Status status = OpenRocksDb(path).status();
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("'" + path + "'"), HasSubstr("it cannot be created")));
  }
}

TEST(RocksDbByteMapTest, ADamagedListOfFilesIsDataLoss) {
  for (const char* part : {"CURRENT", "MANIFEST-"}) {
    for (const char* content : {"", "garbage\n", "MANIFEST-000999\n"}) {
      TemporaryFolder folder;
      WriteFiles(folder.path());
      for (const auto& file : FilesOf(folder.path(), part)) std::ofstream(file) << content;
      SCOPED_TRACE(std::string(part) + " holds '" + content + "'");
      ExpectDamaged(OpenAndRead(folder.path()), folder.path());
    }
  }
}

TEST(RocksDbByteMapTest, AMissingFileOfEntriesIsDataLoss) {
  TemporaryFolder folder;
  WriteFiles(folder.path());
  const auto files = FilesOf(folder.path(), ".sst");
  ASSERT_FALSE(files.empty());
  std::filesystem::remove(files.front());
  ExpectDamaged(OpenAndRead(folder.path()), folder.path());
}

TEST(RocksDbByteMapTest, AByteThatChangedInAFileOfEntriesIsDataLossWhenItIsRead) {
  TemporaryFolder folder;
  WriteFiles(folder.path());
  for (const auto& path : FilesOf(folder.path(), ".sst")) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(1000);
    const int byte = file.get();
    file.seekp(1000);
    file.put(static_cast<char>(byte ^ 1));
  }
  ExpectDamaged(OpenAndRead(folder.path()), folder.path());
  auto map = OpenRocksDb(folder.path(), SmallBuffers());
  ASSERT_TRUE(map.ok()) << map.status();
  std::vector<std::string> keys;
  for (uint64_t i = 0; i < 1000; ++i) keys.push_back(EncodeBigEndian64(i));
  ExpectDamaged((*map)->GetMany(keys, [](size_t, std::string_view) {}), folder.path());
}

TEST(RocksDbByteMapTest, AFullDiskIsAnErrorThatSaysSo) {
  for (const char* how : {"full", "bulk", "run"}) {
    TemporaryFolder folder;
    ChildProcess child({STORES_CHILD, "disk", folder.path(), how});
    const std::string said = child.ReadLine().value_or("");
    if (said == "no mount") GTEST_SKIP() << "this user may not mount a disk to fill";
    EXPECT_THAT(said, AllOf(HasSubstr("RESOURCE_EXHAUSTED"), HasSubstr(folder / "map"),
                            HasSubstr("free space")))
        << how;
  }
}

TEST(RocksDbByteMapTest, AfterAFullDiskEveryWriteIsAnErrorAndNothingAborts) {
  for (const char* log : {"log", "none"}) {
    TemporaryFolder folder;
    ChildProcess child({STORES_CHILD, "after", folder.path(), log});
    const std::string said = child.ReadLine().value_or("");
    if (said == "no mount") GTEST_SKIP() << "this user may not mount a disk to fill";
    EXPECT_THAT(said, HasSubstr("RESOURCE_EXHAUSTED")) << log;
    EXPECT_THAT(child.ReadLine().value_or("it died"), HasSubstr("RESOURCE_EXHAUSTED")) << log;
    EXPECT_EQ(child.ReadLine().value_or("it died"), said) << log;
    EXPECT_EQ(child.ReadLine().value_or("it died"), "closed") << log;
  }
}

TEST(RocksDbByteMapTest, AReadOnlyDiskIsAnErrorThatSaysSo) {
  TemporaryFolder folder;
  ChildProcess child({STORES_CHILD, "disk", folder.path(), "readonly"});
  const std::string said = child.ReadLine().value_or("");
  if (said == "no mount") GTEST_SKIP() << "this user may not mount a disk";
  EXPECT_THAT(said, AllOf(HasSubstr("PERMISSION_DENIED"), HasSubstr(folder / "map")));
}

TEST(RocksDbByteMapTest, TwoMapsCanShareTheirMemory) {
  TemporaryFolder folder;
  RocksDbOptions options;
  options.memory = MakeRocksDbMemory(1 << 20, 512 << 10);
  auto first = OpenRocksDb(folder / "first", options);
  auto second = OpenRocksDb(folder / "second", options);
  ASSERT_TRUE(first.ok() && second.ok());
  options.memory.reset();
  WriteBatch batch;
  for (uint64_t i = 0; i < 2000; ++i) batch.Put(EncodeBigEndian64(i), std::string(1000, 'x'));
  ASSERT_TRUE((*first)->Write(batch).ok());
  ASSERT_TRUE((*second)->Write(batch).ok());
  first->reset();
  EXPECT_EQ(*(*second)->Get(EncodeBigEndian64(1999)), std::string(1000, 'x'));
}

// Else it would take the others' buffers.
TEST(RocksDbByteMapTest, AMapThatSharesItsMemoryIsNotFilledInBulk) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // RocksDB has threads
  const TemporaryFolder folder;
  RocksDbOptions options;
  options.memory = MakeRocksDbMemory(1 << 20, 512 << 10);
  auto map = OpenRocksDb(folder / "map", options);
  ASSERT_TRUE(map.ok()) << map.status();
  const auto nothing = [] { return absl::OkStatus(); };
  EXPECT_DEATH((void)(*map)->FillInBulk(nothing), "broken invariant");
}

TEST(RocksDbByteMapTest, TellsWhichProcessHasAFolderOpen) {
  const TemporaryFolder folder;
  const std::string path = folder / "map";
  EXPECT_EQ(WhereIsOpen(path), OpenIn::kNoProcess);
  {
    auto map = OpenRocksDb(path);
    ASSERT_TRUE(map.ok()) << map.status();
    EXPECT_EQ(WhereIsOpen(path), OpenIn::kThisProcess);
    ChildProcess child({STORES_CHILD, "hold", path});
    EXPECT_NE(child.ReadLine(), "open") << "to ask must not give the lock up";
  }
  EXPECT_EQ(WhereIsOpen(path), OpenIn::kNoProcess);
  ChildProcess child({STORES_CHILD, "hold", path});
  ASSERT_EQ(child.ReadLine(), "open");
  EXPECT_EQ(WhereIsOpen(path), OpenIn::kAnotherProcess);
  EXPECT_EQ(WhereIsOpen(path), OpenIn::kAnotherProcess);
  child.Kill();
  EXPECT_TRUE(OpenRocksDb(path).ok());
}

TEST(RocksDbByteMapTest, FoldersAreForTheirOwnerOnlyWhateverTheUmask) {
  const TemporaryFolder folder;
  const mode_t before = umask(0);
  auto map = OpenRocksDb(folder / "data/map");
  const Status copied = map.ok() ? (*map)->CopyTo(folder / "copy") : map.status();
  umask(before);
  ASSERT_TRUE(copied.ok()) << copied;
  for (const char* name : {"data", "data/map", "copy"}) {
    EXPECT_EQ(std::filesystem::status(folder / name).permissions(),
              std::filesystem::perms::owner_all)
        << name;
  }
}

TEST(RocksDbByteMapTest, MemoryStaysBoundedHoweverMuchIsWritten) {
  if (kIsSanitized) GTEST_SKIP() << "sanitizers take memory of their own";
  TemporaryFolder folder;
  ChildProcess child({STORES_CHILD, "memory", folder.path()});
  const std::string said = child.ReadLine().value_or("");
  RecordProperty("grown_kilobytes", said);
  ASSERT_FALSE(said.empty() || said.find_first_not_of("0123456789") != std::string::npos) << said;
  EXPECT_LE(std::stoll(said), 48 * 1024);
}

}  // namespace
}  // namespace millrace
