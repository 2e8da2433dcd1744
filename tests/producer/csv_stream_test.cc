#include "producer/csv_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/formats/memory_rejects.h"
#include "tests/producer/scratch_folder.h"

namespace millrace {
namespace {

using testing::HasSubstr;
using Event = CsvStream::Event;

class CsvStreamTest : public testing::Test {
 protected:
  CsvStreamTest() {
    options_.spec.set_label("y");
    options_.spec.add_classes("no");
    options_.spec.add_classes("yes");
    options_.spec.add_numeric("x");
  }

  StatusOr<std::unique_ptr<CsvStream>> Open(std::string_view text) {
    const std::string path = folder_.Write("input.csv", text);
    return CsvStream::Create(CsvFile::Open(path, file_options_).value(), file_options_, options_,
                             rejects_);
  }

  // Numeric values of the accepted rows; row numbers are checked.
  std::vector<double> ReadAll(CsvStream& stream) {
    std::vector<double> values;
    StreamRecord record;
    while (true) {
      const StatusOr<Event> event = stream.Next(&record);
      if (!event.ok()) {
        error_ = event.status();
        return values;
      }
      if (*event == Event::kEnd) return values;
      if (*event == Event::kRejected) continue;
      EXPECT_EQ(record.number, values.size());
      values.push_back(record.row.numeric.at(0));
      epochs_.push_back(record.epoch);
      EXPECT_EQ(record.row.replayed, record.epoch > 0);
      times_.push_back(record.time);
    }
  }

  ScratchFolder folder_;
  MemoryRejects rejects_;
  CsvStream::Options options_;
  CsvFile::Options file_options_;
  Status error_;
  std::vector<uint32_t> epochs_;
  std::vector<std::optional<RecordedTime>> times_;
};

TEST_F(CsvStreamTest, RejectedRowsTakeNoNumber) {
  auto stream =
      Open("x,y\n1,yes\ntwo,yes\n3,no\n4,maybe\n\"5,no\n6,no,x\n7,yes\n\xFF,no\n9,no").value();
  EXPECT_EQ(ReadAll(*stream), (std::vector<double>{1, 3, 7, 9}));
  EXPECT_EQ(stream->accepted(), 4u);
  EXPECT_EQ(stream->rows_read(), 9u);
  EXPECT_EQ(stream->rows_rejected(), 5u);
  EXPECT_EQ(rejects_.finished, 1);
}

TEST_F(CsvStreamTest, RejectedRowsKeepTheirLineReasonAndBytes) {
  auto stream =
      Open("x,y\r\n\"1\",\"yes\"\r\n\r\nthree,\"no\"\r\n\"multi\nline\",no\r\n5,no,6\r\n").value();
  ReadAll(*stream);
  ASSERT_EQ(rejects_.rows.size(), 3u);
  EXPECT_EQ(rejects_.rows[0].line, 4u);
  EXPECT_EQ(rejects_.rows[0].raw, "three,\"no\"");
  EXPECT_THAT(rejects_.rows[0].reason, HasSubstr("\"three\""));
  EXPECT_EQ(rejects_.rows[1].line, 5u);
  EXPECT_EQ(rejects_.rows[1].raw, "\"multi\nline\",no");
  EXPECT_EQ(rejects_.rows[2].line, 7u);
  EXPECT_THAT(rejects_.rows[2].reason, HasSubstr("3 fields, but the header has 2"));
  EXPECT_THAT(stream->last_reason(), HasSubstr("line 7: 3 fields"));
}

TEST_F(CsvStreamTest, MoreRejectsThanAllowedEndTheStream) {
  options_.max_rejects = 2;
  auto stream = Open("x,y\n1,no\na,no\nb,no\n4,no\nc,no\n6,no\n").value();
  EXPECT_EQ(ReadAll(*stream), (std::vector<double>{1, 4}));
  EXPECT_THAT(error_.message(), HasSubstr("more than 2 malformed rows"));
  EXPECT_THAT(error_.message(), HasSubstr("line 6: "));
  EXPECT_THAT(error_.message(), HasSubstr("memory.rejects.csv"));
  EXPECT_EQ(rejects_.rows.size(), 3u);

  rejects_.kept = false;  // nobody is sent to a file that is not there
  ReadAll(*Open("x,y\na,no\nb,no\nc,no\n").value());
  EXPECT_THAT(error_.message(), HasSubstr("line 4: "));
  EXPECT_THAT(error_.message(), testing::Not(HasSubstr("memory.rejects.csv")));

  options_.max_rejects = 3;
  EXPECT_EQ(ReadAll(*Open("x,y\n1,no\na,no\nb,no\n4,no\nc,no\n6,no\n").value()).size(), 3u);
}

TEST_F(CsvStreamTest, NobodyKnowsHowLongAFileThatIsFollowedWillBe) {
  EXPECT_EQ(Open("x,y\n1,no\n").value()->total_bytes(), 9u);
  file_options_.follow = true;
  EXPECT_EQ(Open("x,y\n1,no\n").value()->total_bytes(), 0u);
}

TEST_F(CsvStreamTest, NoRejectMayBeAllowed) {
  options_.max_rejects = 0;
  auto stream = Open("x,y\n1,no\na,no\n").value();
  ReadAll(*stream);
  EXPECT_THAT(error_.message(), HasSubstr("more than 0 malformed rows"));
}

TEST_F(CsvStreamTest, RowNumbersGoOnOverEpochsAndRejectsAreThoseOfTheFirst) {
  options_.epochs = 3;
  options_.max_rejects = 1;
  const std::string text = "x,y\n1,no\na,no\n3,yes\n";
  auto stream = Open(text).value();
  EXPECT_EQ(stream->total_bytes(), 3 * text.size());
  EXPECT_EQ(ReadAll(*stream), (std::vector<double>{1, 3, 1, 3, 1, 3}));
  EXPECT_EQ(epochs_, (std::vector<uint32_t>{0, 0, 1, 1, 2, 2}));
  EXPECT_EQ(stream->rows_read(), 3u);
  EXPECT_EQ(stream->rows_rejected(), 1u);
  EXPECT_EQ(rejects_.rows.size(), 1u);
  EXPECT_EQ(rejects_.finished, 1);
  EXPECT_EQ(stream->bytes_read(), 3 * text.size());
}

TEST_F(CsvStreamTest, AFileThatChangesBetweenEpochsIsAnError) {
  options_.epochs = 2;
  auto stream = Open("x,y\n1,no\n2,no\n").value();
  folder_.Write("input.csv", "x,y\n1,no\n2,no\n");  // the same again is fine
  StreamRecord record;
  EXPECT_EQ(stream->Next(&record).value(), Event::kRow);
  EXPECT_EQ(stream->Next(&record).value(), Event::kRow);
  folder_.Write("input.csv", "x,y\n1,no\n");
  EXPECT_EQ(stream->Next(&record).value(), Event::kRow);
  EXPECT_THAT(stream->Next(&record).status().message(), HasSubstr("changed while it was streamed"));
}

TEST_F(CsvStreamTest, ReadsTheTimeColumn) {
  options_.time_column = "t";
  auto stream = Open("x,y,t\n1,no,10\n2,no, 2013-01-01 10:00:00 \n3,no,noon\n4,no,\n").value();
  EXPECT_EQ(ReadAll(*stream), (std::vector<double>{1, 2}));
  EXPECT_EQ(times_[0], std::chrono::seconds(10));
  EXPECT_EQ(times_[1], std::chrono::seconds(1357034400));
  ASSERT_EQ(rejects_.rows.size(), 2u);
  EXPECT_EQ(rejects_.rows[0].reason,
            "column \"t\": \"noon\" is not a time (seconds, milliseconds, ISO 8601 or DD.MM.YYYY)");
}

TEST_F(CsvStreamTest, NamesAMissingColumn) {
  EXPECT_THAT(Open("x,z\n1,2\n").status().message(), HasSubstr("\"y\""));
  options_.time_column = "when";
  EXPECT_THAT(Open("x,y\n1,no\n").status().message(), HasSubstr("\"when\""));
}

TEST_F(CsvStreamTest, ARowTooLargeForARecordIsRejected) {
  options_.spec.clear_numeric();
  options_.spec.add_text("x");
  options_.spec.set_text_buckets(1 << 30);
  std::string words;
  for (int i = 0; i < 130'000; ++i) words += "word" + std::to_string(i) + " ";
  auto stream = Open("x,y\nsmall,no\n" + words + ",no\nsmall,yes\n").value();
  StreamRecord record;
  EXPECT_EQ(stream->Next(&record).value(), Event::kRow);
  EXPECT_EQ(stream->Next(&record).value(), Event::kRejected);
  EXPECT_EQ(stream->Next(&record).value(), Event::kRow);
  EXPECT_EQ(record.number, 1u);
  EXPECT_THAT(rejects_.rows.at(0).reason, HasSubstr("too many for one Kafka record"));
}

TEST_F(CsvStreamTest, AHeaderWithoutRowsIsAnEmptyStream) {
  auto stream = Open("x,y\n").value();
  EXPECT_TRUE(ReadAll(*stream).empty());
  EXPECT_EQ(stream->rows_read(), 0u);
}

}  // namespace
}  // namespace millrace
