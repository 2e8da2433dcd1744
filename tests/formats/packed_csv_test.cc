// CSV files that are compressed, and in other encodings than UTF-8.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "formats/csv_file.h"
#include "tests/formats/compress.h"

namespace millrace {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class PackedCsv : public testing::Test {
 protected:
  PackedCsv() {
    std::string pattern = testing::TempDir() + "millrace_packed_XXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  ~PackedCsv() override { std::filesystem::remove_all(folder_); }

  std::string Write(std::string_view text) const {
    std::string path = folder_ + "/data.csv.gz";
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }

  // The rows' raw text, a line each, and the error that ends them.
  static std::string ReadAll(CsvFile& file, Status* end) {
    std::string rows;
    CsvRecord record;
    while (true) {
      const StatusOr<bool> found = file.Next(&record);
      if (!found.ok()) *end = found.status();
      if (!found.ok() || !*found) return rows;
      rows += std::string(record.raw) + "\n";
    }
  }

  std::string ReadAll(std::string_view bytes, const CsvFile::Options& options = {}) {
    StatusOr<std::unique_ptr<CsvFile>> file = CsvFile::Open(Write(bytes), options);
    end_ = file.status();
    if (!file.ok()) return "";
    std::string rows = ReadAll(**file, &end_);
    EXPECT_EQ((*file)->bytes_read(), end_.ok() ? bytes.size() : (*file)->bytes_read());
    return rows;
  }

  std::string folder_;
  Status end_;
};

std::string ManyRows() {
  std::string rows;
  for (int i = 0; i < 20'000; ++i) rows += std::to_string(i * 7919 % 10007) + ",x\n";
  return rows;
}

TEST_F(PackedCsv, ProgressIsThatOfTheRowsAndNotOfWhatIsReadAhead) {
  const std::string rows = ManyRows();
  for (const std::string& bytes : {Gzip("a,b\n" + rows), Zstd("a,b\n" + rows)}) {
    const StatusOr<std::unique_ptr<CsvFile>> file = CsvFile::Open(Write(bytes), {});
    ASSERT_TRUE(file.ok()) << file.status();
    CsvRecord record;
    for (int i = 0; i < 10'000; ++i) ASSERT_TRUE(*(*file)->Next(&record));
    const double part =
        static_cast<double>((*file)->bytes_read()) / static_cast<double>(bytes.size());
    EXPECT_GT(part, 0.3);
    EXPECT_LT(part, 0.7);
  }
}

TEST_F(PackedCsv, GzipAndZstdAreKnownByTheirFirstBytes) {
  const std::string rows = ManyRows();
  for (const std::string& bytes : {Gzip("a,b\n" + rows), Zstd("a,b\n" + rows)}) {
    for (const size_t block : {size_t{1}, size_t{1000}, size_t{1} << 18}) {
      CsvFile::Options options;
      options.block_bytes = block;
      EXPECT_EQ(ReadAll(bytes, options), rows) << block;
      EXPECT_TRUE(end_.ok()) << end_;
    }
  }
}

// As cat, pigz and log rotation write them.
TEST_F(PackedCsv, MembersThatFollowOneAnotherAreOneFile) {
  EXPECT_EQ(ReadAll(Gzip("a\n1\n") + Gzip("2\n") + Gzip("") + Gzip("3\n")), "1\n2\n3\n");
  EXPECT_TRUE(end_.ok()) << end_;
  EXPECT_EQ(ReadAll(Zstd("a\n1\n") + Zstd("2\n") + Zstd("") + Zstd("3\n")), "1\n2\n3\n");
  EXPECT_TRUE(end_.ok()) << end_;
  EXPECT_EQ(ReadAll(Gzip("a\n1\n") + std::string(1000, '\0')), "1\n");
  EXPECT_TRUE(end_.ok()) << end_;
}

// As pzstd writes it: a frame without data comes first.
TEST_F(PackedCsv, AFrameThatIsToBeSkippedMayComeFirst) {
  const std::string skipped("\x5E\x2A\x4D\x18\x04\0\0\0????", 12);
  for (const size_t block : {size_t{1}, size_t{1} << 18}) {
    CsvFile::Options options;
    options.block_bytes = block;
    EXPECT_EQ(ReadAll(skipped + Zstd("a\n1\n") + skipped + Zstd("2\n"), options), "1\n2\n");
    EXPECT_TRUE(end_.ok()) << end_;
  }
  EXPECT_EQ(ReadAll("P*M,b\n1,2\n"), "1,2\n");
}

// A frame of a window of 256 MiB (zstd --long=28), with one raw block. It is not damaged.
TEST_F(PackedCsv, AWindowThatTakesTooMuchMemoryIsAnErrorWithTheRemedy) {
  ReadAll(
      std::string("\x28\xB5\x2F\xFD\x00\x90\x21\x00\x00"
                  "a\n1\n",
                  13));
  EXPECT_TRUE(absl::IsFailedPrecondition(end_)) << end_;
  EXPECT_THAT(std::string(end_.message()), AllOf(HasSubstr("data.csv.gz needs too much memory"),
                                                 HasSubstr("zstd -dc --long=31")));
}

TEST_F(PackedCsv, ATruncatedFileIsAnErrorThatNamesFileAndOffset) {
  for (const std::string& whole : {Gzip("a,b\n" + ManyRows()), Zstd("a,b\n" + ManyRows())}) {
    for (const size_t size : {whole.size() - 1, whole.size() / 2, size_t{30}}) {
      ReadAll(whole.substr(0, size));
      EXPECT_TRUE(absl::IsDataLoss(end_)) << end_;
      EXPECT_THAT(std::string(end_.message()),
                  AllOf(HasSubstr("data.csv.gz is truncated"),
                        HasSubstr("no end after byte " + std::to_string(size))));
    }
  }
}

TEST_F(PackedCsv, DamagedDataAreAnErrorThatNamesFileAndOffset) {
  for (std::string bytes : {Gzip("a,b\n" + ManyRows()), Zstd("a,b\n" + ManyRows())}) {
    const size_t middle = bytes.size() / 2;
    for (size_t i = middle; i < middle + 50; ++i) bytes[i] = static_cast<char>(bytes[i] ^ 0x5A);
    ReadAll(bytes);
    EXPECT_TRUE(absl::IsDataLoss(end_)) << end_;
    EXPECT_THAT(std::string(end_.message()),
                AllOf(HasSubstr("data.csv.gz: its "), HasSubstr(" data are damaged before byte ")));
  }
  ReadAll(Gzip("a\n1\n") + "what?");
  EXPECT_THAT(std::string(end_.message()), HasSubstr("damaged before byte"));
}

TEST_F(PackedCsv, AnEmptyCompressedFileIsEmpty) {
  ReadAll(Gzip(""));
  EXPECT_THAT(std::string(end_.message()), HasSubstr("is empty"));
}

TEST_F(PackedCsv, OtherFormatsAreNamedWithARemedy) {
  for (const auto& [bytes, expected] : std::vector<std::pair<std::string, std::string>>{
           {"PK\x03\x04zip", "zip archive or a workbook"},
           {std::string("\xFD\x37zXZ\0...", 9), "compressed by xz"},
           {"BZh91AY&SY...", "compressed by bzip2"},
           {"PAR1\x15\x04", "Parquet"}}) {
    ReadAll(bytes);
    EXPECT_THAT(std::string(end_.message()), HasSubstr(expected));
  }
  EXPECT_EQ(ReadAll("PAR1,b\n1,2\n"), "1,2\n");
}

TEST_F(PackedCsv, TheHeaderDecidesTheDelimiterUnlessItIsTold) {
  const auto file = CsvFile::Open(Write("a;\"b,c\";d\n1,5;2;3\n"));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->delimiter(), ';');
  EXPECT_EQ((*file)->columns(), (std::vector<std::string>{"a", "b,c", "d"}));
  CsvRecord record;
  ASSERT_TRUE(*(*file)->Next(&record));
  EXPECT_EQ(record.fields, (std::vector<std::string_view>{"1,5", "2", "3"}));
  CsvFile::Options options;
  options.delimiter = ':';
  const auto told = CsvFile::Open(Write("a;x:b\n1:2\n"), options);
  ASSERT_TRUE(told.ok()) << told.status();
  EXPECT_EQ((*told)->columns(), (std::vector<std::string>{"a;x", "b"}));
}

// As some programs write it for spreadsheets.
TEST_F(PackedCsv, ALineThatNamesTheDelimiterIsNoHeader) {
  const auto file = CsvFile::Open(Write("\xEF\xBB\xBFsep=;\r\na;b\r\n1;2\r\n"));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->columns(), (std::vector<std::string>{"a", "b"}));
  CsvRecord record;
  ASSERT_TRUE(*(*file)->Next(&record));
  EXPECT_EQ(record.line, 3u);
  ReadAll("sep=,\n");
  EXPECT_THAT(std::string(end_.message()), HasSubstr("is empty"));
}

TEST_F(PackedCsv, ByDefaultNothingIsConvertedAndLatin1IsNamedInTheError) {
  ReadAll("caf\xE9,b\n1,2\n");
  EXPECT_THAT(std::string(end_.message()),
              AllOf(HasSubstr("not valid UTF-8"), HasSubstr("caf\\351"),
                    HasSubstr("give --encoding latin1")));
}

TEST_F(PackedCsv, Latin1IsConvertedWhenTold) {
  CsvFile::Options options;
  options.is_latin1 = true;
  for (const size_t block : {size_t{1}, size_t{10}, size_t{1} << 18}) {
    options.block_bytes = block;
    EXPECT_EQ(ReadAll("pr\xE9nom;prix\nZo\xEB;5 \x80\n", options), "Zoë;5 €\n");
    EXPECT_EQ(ReadAll(Gzip("pr\xE9nom;prix\nZo\xEB;5 \x80\n"), options), "Zoë;5 €\n");
  }
  const auto file = CsvFile::Open(Write("pr\xE9nom;prix\nZo\xEB;5 \x80\n"), options);
  EXPECT_EQ((*file)->columns(), (std::vector<std::string>{"prénom", "prix"}));
}

TEST_F(PackedCsv, AFileInUnicodeIsNotReadAsLatin1) {
  CsvFile::Options options;
  options.is_latin1 = true;
  ReadAll(
      "\xEF\xBB\xBF"
      "a,b\n1,2\n",
      options);
  EXPECT_THAT(std::string(end_.message()), HasSubstr("leave out --encoding latin1"));
  ReadAll(std::string("\xFF\xFE"
                      "a\0,\0",
                      6),
          options);
  EXPECT_THAT(std::string(end_.message()), HasSubstr("UTF-16"));
}

}  // namespace
}  // namespace millrace
