#include "formats/csv_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace millrace {
namespace {

using testing::HasSubstr;

class CsvFileTest : public testing::Test {
 protected:
  CsvFileTest() {
    std::string pattern = testing::TempDir() + "millrace_csv_XXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  ~CsvFileTest() override { std::filesystem::remove_all(folder_); }

  std::string Write(std::string_view text) const {
    std::string path = folder_ + "/data.csv";
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }

  // The message of the error that opening a file with this text gives.
  std::string ErrorOf(std::string_view text) const {
    return std::string(CsvFile::Open(Write(text)).status().message());
  }

  std::string folder_;
};

TEST_F(CsvFileTest, ReadsTheHeaderThenEachRow) {
  const StatusOr<std::unique_ptr<CsvFile>> file =
      CsvFile::Open(Write("\xEF\xBB\xBF id ,\"the, text\"\n1,a\n\"2\"x,b\n3\n"));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->columns(), (std::vector<std::string>{"id", "the, text"}));
  CsvRecord record;
  ASSERT_TRUE((*file)->Next(&record).value());
  EXPECT_EQ(record.fields, (std::vector<std::string_view>{"1", "a"}));
  EXPECT_EQ(record.line, 2u);
  ASSERT_TRUE((*file)->Next(&record).value());
  EXPECT_FALSE(record.ok());
  ASSERT_TRUE((*file)->Next(&record).value());
  EXPECT_EQ(record.fields.size(), 1u);
  EXPECT_FALSE((*file)->Next(&record).value());
  EXPECT_FALSE((*file)->Next(&record).value());
}

TEST_F(CsvFileTest, CountsBytesUpToTheSizeOfTheFile) {
  const std::string text = "a,b\n1,2\n\n3,4";
  CsvFile::Options options;
  options.block_bytes = 1;
  const std::unique_ptr<CsvFile> file = CsvFile::Open(Write(text), options).value();
  EXPECT_EQ(file->total_bytes(), text.size());
  EXPECT_EQ(file->bytes_read(), 4u);
  CsvRecord record;
  while (file->Next(&record).value()) {
  }
  EXPECT_EQ(file->bytes_read(), text.size());
}

// Its rows would pass for a whole stream.
TEST_F(CsvFileTest, AFileThatBecomesShorterIsNoWholeFile) {
  std::string text = "a\n";
  for (int i = 0; i < 1000; ++i) text += std::to_string(i) + "\n";
  const std::string path = Write(text);
  CsvFile::Options options;
  options.block_bytes = 64;
  const auto file = CsvFile::Open(path, options);
  ASSERT_TRUE(file.ok()) << file.status();
  CsvRecord record;
  ASSERT_TRUE(*(*file)->Next(&record));
  std::filesystem::resize_file(path, 500);
  StatusOr<bool> more = true;
  while (more.ok() && *more) more = (*file)->Next(&record);
  EXPECT_TRUE(absl::IsDataLoss(more.status())) << more.status();
  EXPECT_THAT(std::string(more.status().message()), HasSubstr("became shorter"));
}

TEST_F(CsvFileTest, AMissingFileIsOneClearLine) {
  const Status status = CsvFile::Open(folder_ + "/none.csv").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(status.message(), "cannot open " + folder_ + "/none.csv: No such file or directory");
}

TEST_F(CsvFileTest, AFolderIsOneClearLine) {
  EXPECT_EQ(CsvFile::Open(folder_).status().message(),
            "cannot read " + folder_ + ": Is a directory");
}

TEST_F(CsvFileTest, AnEmptyFileIsOneClearLine) {
  for (const char* text : {"", "\n\n", "\xEF\xBB\xBF"}) {
    EXPECT_THAT(ErrorOf(text), HasSubstr("data.csv is empty: a header line"));
  }
}

TEST_F(CsvFileTest, RefusesAHeaderThatCannotBeUsed) {
  EXPECT_THAT(ErrorOf("a,b,a\n"), HasSubstr("data.csv:1: two columns are called \"a\""));
  EXPECT_THAT(ErrorOf("a, ,b\n"), HasSubstr("data.csv:1: column 2 has no name"));
  EXPECT_THAT(ErrorOf("\n\"a\"b\n"), HasSubstr("data.csv:2: the header: text after"));
  EXPECT_THAT(ErrorOf("a,\xFFz\n"),
              testing::AllOf(HasSubstr("data.csv:1: the header is not valid UTF-8"),
                             HasSubstr("\"\\377z\""), HasSubstr("--encoding latin1")));
  EXPECT_THAT(ErrorOf("a,b\r1,2\r"), HasSubstr("tr '\\r' '\\n'"));
  EXPECT_THAT(ErrorOf(std::string_view("\xFF\xFE"
                                       "a\0,\0",
                                       6)),
              HasSubstr("UTF-16"));
  // Without a byte order mark.
  EXPECT_THAT(ErrorOf(std::string_view("a\0,\0b\0\n\0", 8)),
              HasSubstr("holds a zero byte, so this is no CSV, or one in UTF-16"));
  EXPECT_THAT(ErrorOf(std::string_view("\x7F"
                                       "ELF\0\xD0\n",
                                       7)),
              HasSubstr("this is no CSV"));
}

TEST_F(CsvFileTest, AMissingColumnNamesThoseThereAre) {
  const std::vector<std::string> columns = {"id", "text"};
  EXPECT_EQ(FindColumn(columns, "text", "x.csv").value(), 1u);
  EXPECT_EQ(FindColumn(columns, "label", "x.csv").status().message(),
            "x.csv has no column \"label\"; its columns are: id, text");
  EXPECT_EQ(FindColumn(columns, "Text", "x.csv").status().message(),
            "x.csv has no column \"Text\"; did you mean \"text\"? Its columns are: id, text");
  const std::string long_name(1 << 20, 'a');  // no letter by letter comparison of such
  EXPECT_FALSE(FindColumn({long_name}, long_name + "b", "x.csv").ok());
  EXPECT_THAT(
      std::string(FindColumn(std::vector<std::string>(60, "c"), "d", "x").status().message()),
      HasSubstr("c, c and 10 more"));
}

TEST_F(CsvFileTest, GivesTheRowsOfAPipeAsTheyCome) {
  const std::string path = folder_ + "/pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  std::atomic<int> seen = 0;
  std::thread writer([&] {
    std::ofstream out(path);
    out << "a\n" << std::flush;
    for (int i = 0; i < 3; ++i) {
      out << i << "\n" << std::flush;
      // The next row is written only when this one has been seen.
      while (seen <= i) std::this_thread::yield();
    }
  });
  const std::unique_ptr<CsvFile> file = CsvFile::Open(path).value();
  EXPECT_EQ(file->total_bytes(), std::nullopt);
  CsvRecord record;
  while (file->Next(&record).value()) {
    EXPECT_EQ(record.fields[0], std::to_string(seen));
    ++seen;
  }
  EXPECT_EQ(seen, 3);
  writer.join();
}

TEST_F(CsvFileTest, WhoeverReadsASilentPipeCanTendToOtherThings) {
  const std::string path = folder_ + "/pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  std::atomic<int> called = 0;
  std::thread writer([&] {
    std::ofstream out(path);
    out << "a\n1\n" << std::flush;
    // Silent until the reader has been told so twice.
    while (called < 2) std::this_thread::yield();
    out << "2\n";
  });
  const std::unique_ptr<CsvFile> file = CsvFile::Open(path).value();
  file->set_while_waiting([&] {
    ++called;
    return absl::OkStatus();
  });
  CsvRecord record;
  int rows = 0;
  while (file->Next(&record).value()) ++rows;
  EXPECT_EQ(rows, 2);
  EXPECT_GE(called, 2);
  writer.join();
}

TEST_F(CsvFileTest, AnErrorOfWhoeverTendsToOtherThingsEndsTheReading) {
  const std::string path = folder_ + "/pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  std::atomic<bool> ended = false;
  std::thread writer([&] {
    std::ofstream out(path);
    out << "a\n" << std::flush;
    while (!ended) std::this_thread::yield();
  });
  const std::unique_ptr<CsvFile> file = CsvFile::Open(path).value();
  file->set_while_waiting([] { return absl::UnavailableError("away"); });
  CsvRecord record;
  EXPECT_TRUE(absl::IsUnavailable(file->Next(&record).status()));
  ended = true;
  writer.join();
}

TEST_F(CsvFileTest, AStopEndsTheWaitForAPipe) {
  const std::string path = folder_ + "/pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  std::atomic<bool> stop = false;
  std::thread stopper([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    stop = true;
  });
  CsvFile::Options options;
  options.stop = &stop;
  EXPECT_EQ(CsvFile::Open(path, options).status().code(), absl::StatusCode::kCancelled);
  stopper.join();
}

}  // namespace
}  // namespace millrace
