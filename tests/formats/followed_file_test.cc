// A CSV file that grows while it is read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "formats/csv_file.h"

namespace millrace {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class FollowedFile : public testing::Test {
 protected:
  FollowedFile() {
    std::string pattern = testing::TempDir() + "millrace_follow_XXXXXX";
    folder_ = mkdtemp(pattern.data());
    path_ = folder_ + "/data.csv";
    options_.follow = true;
    options_.stop = &stop_;
  }
  ~FollowedFile() override { std::filesystem::remove_all(folder_); }

  void Append(std::string_view text) const {
    std::ofstream(path_, std::ios::binary | std::ios::app) << text;
  }

  // Follows the file; each time that there is nothing to be read, `waiting` is called with the
  // number of the time. Returns the first fields of the rows; end_ is what ended them.
  std::vector<std::string> Follow(const std::function<void(int)>& waiting) {
    std::vector<std::string> rows;
    auto file = CsvFile::Open(path_, options_);
    end_ = file.status();
    if (!file.ok()) return rows;
    int times = 0;
    (*file)->set_while_waiting([&] {
      waiting(times++);
      return times < 20 ? absl::OkStatus() : absl::DeadlineExceededError("it waits for ever");
    });
    CsvRecord record;
    while (true) {
      const StatusOr<bool> found = (*file)->Next(&record);
      if (!found.ok() || !*found) {
        end_ = found.status();
        return rows;
      }
      rows.emplace_back(record.fields[0]);
    }
  }

  std::string folder_;
  std::string path_;
  std::atomic<bool> stop_ = false;
  CsvFile::Options options_;
  Status end_;
};

TEST_F(FollowedFile, GivesTheLinesThatAreAppendedUntilItIsStopped) {
  Append("a\n1\n");
  EXPECT_THAT(Follow([&](int time) {
                if (time == 0) Append("2\n3\n");
                if (time == 1) Append("4\n");
                if (time == 2) stop_ = true;
              }),
              ElementsAre("1", "2", "3", "4"));
  EXPECT_TRUE(absl::IsCancelled(end_)) << end_;
}

// Its writer is still writing it.
TEST_F(FollowedFile, ALineIsARowWhenItHasItsEnd) {
  Append("a\n1\n2");
  EXPECT_THAT(Follow([&](int time) {
                if (time == 0) Append("7\n3");
                if (time == 1) stop_ = true;
              }),
              ElementsAre("1", "27"));
}

TEST_F(FollowedFile, AFileThatBecomesShorterIsAnError) {
  Append("a\n1\n2\n");
  Follow([&](int) { std::filesystem::resize_file(path_, 2); });
  EXPECT_TRUE(absl::IsDataLoss(end_)) << end_;
  EXPECT_THAT(std::string(end_.message()),
              AllOf(HasSubstr("data.csv became shorter while it was followed"),
                    HasSubstr("6 bytes of it were read, and now it has 2")));
}

// As long as before, or longer, when it is looked at again.
TEST_F(FollowedFile, AFileThatIsOverwrittenIsAnError) {
  options_.block_bytes = 3;
  Append("a\n1\n2\n");
  EXPECT_THAT(Follow([&](int time) {
                if (time == 0) Append("3\n");
                if (time == 1) std::ofstream(path_) << "a\n1\n2\n4\n5\n";
              }),
              ElementsAre("1", "2", "3"));
  EXPECT_TRUE(absl::IsDataLoss(end_)) << end_;
  EXPECT_THAT(std::string(end_.message()),
              AllOf(HasSubstr("data.csv was overwritten while it was followed"),
                    HasSubstr("the last of 8 bytes")));
}

TEST_F(FollowedFile, AFileThatIsReplacedIsAnErrorOnceItsLastLinesAreRead) {
  Append("a\n1\n");
  EXPECT_THAT(Follow([&](int) {
                Append("2\n");
                std::filesystem::rename(path_, path_ + ".1");
                Append("a\n3\n");
              }),
              ElementsAre("1", "2"));
  EXPECT_TRUE(absl::IsDataLoss(end_)) << end_;
  EXPECT_THAT(std::string(end_.message()), HasSubstr("data.csv was replaced by another file"));
}

TEST_F(FollowedFile, AFileThatIsRemovedIsAnError) {
  Append("a\n1\n");
  EXPECT_THAT(Follow([&](int) { std::filesystem::remove(path_); }), ElementsAre("1"));
  EXPECT_THAT(std::string(end_.message()), HasSubstr("data.csv was moved or removed"));
}

TEST_F(FollowedFile, AnErrorOfWhoeverTendsToOtherThingsEndsIt) {
  Append("a\n");
  const auto file = CsvFile::Open(path_, options_);
  ASSERT_TRUE(file.ok()) << file.status();
  (*file)->set_while_waiting([] { return absl::UnavailableError("away"); });
  CsvRecord record;
  EXPECT_TRUE(absl::IsUnavailable((*file)->Next(&record).status()));
}

TEST_F(FollowedFile, WhatCannotGrowCannotBeFollowed) {
  Append("\x1F\x8B\x08 and so on");
  EXPECT_THAT(std::string(CsvFile::Open(path_, options_).status().message()),
              HasSubstr("is compressed, and cannot be followed"));
  std::filesystem::remove(path_);
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_THAT(std::string(CsvFile::Open(path_, options_).status().message()),
              HasSubstr("leave out --follow"));
}

// A first scan of it must not take half a value for a class.
TEST_F(FollowedFile, ALastLineWithoutEndCanBeLeftOut) {
  Append("a\n1\n2");
  CsvFile::Options options;
  options.whole_lines = true;
  const auto file = CsvFile::Open(path_, options);
  CsvRecord record;
  EXPECT_TRUE(*(*file)->Next(&record));
  EXPECT_FALSE(*(*file)->Next(&record));
  EXPECT_FALSE(*(*file)->Next(&record));
}

}  // namespace
}  // namespace millrace
