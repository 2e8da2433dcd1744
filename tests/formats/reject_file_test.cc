#include "formats/reject_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "formats/csv_file.h"
#include "tests/producer/scratch_folder.h"

namespace millrace {
namespace {

using testing::HasSubstr;

class RejectFileTest : public testing::Test {
 protected:
  RejectFileTest() : input_(folder_.Write("input.csv", "a,b\n1,2\n")) {}

  StatusOr<std::unique_ptr<RejectFile>> CreateUnaccepted() const {
    return RejectFile::Create(folder_.Path("rejects.csv"), input_);
  }
  StatusOr<std::unique_ptr<RejectFile>> Create() const {
    auto file = CreateUnaccepted();
    if (file.ok()) {
      EXPECT_TRUE((*file)->Accept().ok());
    }
    return file;
  }
  std::string Content() const { return folder_.Read("rejects.csv"); }

  ScratchFolder folder_;
  std::string input_;
};

TEST_F(RejectFileTest, MakesNoFileWithoutARejectedRow) {
  auto file = Create();
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE((*file)->Flush().ok());
  EXPECT_TRUE((*file)->Finish().ok());
  EXPECT_FALSE(folder_.Exists("rejects.csv"));
}

TEST_F(RejectFileTest, WritesLineReasonAndRow) {
  auto file = Create().value();
  ASSERT_TRUE(file->Add({7, "2 fields, but the header has 3", "x,y"}).ok());
  ASSERT_TRUE(file->Add({9, "column \"a\": \"z\" is no number", "\"z\",2"}).ok());
  ASSERT_TRUE(file->Flush().ok());
  EXPECT_EQ(Content(),
            "line,reason,row\n"
            "7,\"2 fields, but the header has 3\",\"x,y\"\n"
            "9,\"column \"\"a\"\": \"\"z\"\" is no number\",\"\"\"z\"\",2\"\n");
}

TEST_F(RejectFileTest, IsReadByItsOwnerOnlyAlsoInPlaceOfAnOldFile) {
  using std::filesystem::perms;
  folder_.Write("rejects.csv", "line,reason,row\n1,\"old\",\"row\"\n");
  std::filesystem::permissions(folder_.Path("rejects.csv"), perms(0644));
  auto file = Create().value();
  ASSERT_TRUE(file->Add({7, "because", "x,y"}).ok());
  ASSERT_TRUE(file->Flush().ok());
  EXPECT_EQ(std::filesystem::status(folder_.Path("rejects.csv")).permissions(), perms(0600));
  EXPECT_EQ(Content(), "line,reason,row\n7,\"because\",\"x,y\"\n");
}

TEST_F(RejectFileTest, IsACsvWhateverTheRowsHold) {
  const std::vector<std::string> rows = {"", "\"", "a\r\nb", "\"x\ny\",\"\"", "\xFF\xFE,\x01"};
  {
    auto file = Create().value();
    for (size_t i = 0; i < rows.size(); ++i) {
      ASSERT_TRUE(file->Add({i, "because\nof", rows[i]}).ok());
    }
  }
  auto csv = CsvFile::Open(folder_.Path("rejects.csv")).value();
  EXPECT_EQ(csv->columns(), (std::vector<std::string>{"line", "reason", "row"}));
  CsvRecord record;
  for (size_t i = 0; i < rows.size(); ++i) {
    ASSERT_TRUE(csv->Next(&record).value());
    ASSERT_TRUE(record.ok()) << record.error;
    EXPECT_EQ(record.fields,
              (std::vector<std::string_view>{std::to_string(i), "because\nof", rows[i]}));
  }
  EXPECT_FALSE(csv->Next(&record).value());
}

TEST_F(RejectFileTest, ReplacesWhatAnEarlierRunLeft) {
  ASSERT_TRUE(Create().value()->Add({1, "old", "row"}).ok());
  auto file = Create().value();
  EXPECT_THAT(Content(), HasSubstr("old"));  // until there is something new
  ASSERT_TRUE(file->Add({2, "new", "row"}).ok());
  ASSERT_TRUE(file->Finish().ok());
  EXPECT_EQ(Content(), "line,reason,row\n2,\"new\",\"row\"\n");
}

TEST_F(RejectFileTest, RemovesAnOldFileWhenARunEndsWithoutRejects) {
  ASSERT_TRUE(Create().value()->Add({1, "old", "row"}).ok());
  ASSERT_TRUE(Create().value()->Finish().ok());
  EXPECT_FALSE(folder_.Exists("rejects.csv"));
}

TEST_F(RejectFileTest, LeavesNoTraceOfAnInputThatIsNotAccepted) {
  const std::string old = "line,reason,row\n1,\"old\",\"row\"\n";
  folder_.Write("rejects.csv", old);
  {
    auto file = CreateUnaccepted().value();
    ASSERT_TRUE(file->Add({2, "new", "row"}).ok());
    ASSERT_TRUE(file->Finish().ok());
    EXPECT_FALSE(file->is_kept());
    EXPECT_EQ(Content(), old);
  }
  EXPECT_EQ(Content(), old);
  EXPECT_FALSE(folder_.Exists("rejects.csv.tmp"));
  ASSERT_TRUE(CreateUnaccepted().value()->Finish().ok());  // nor of one without rejects
  EXPECT_EQ(Content(), old);
}

TEST_F(RejectFileTest, HasTheRowsFromBeforeItsInputWasAcceptedAndThoseFromAfter) {
  using std::filesystem::perms;
  folder_.Write("rejects.csv", "line,reason,row\n1,\"old\",\"row\"\n");
  folder_.Write("rejects.csv.tmp", "");  // what a killed run leaves
  auto file = CreateUnaccepted().value();
  ASSERT_TRUE(file->Add({2, "before", "x"}).ok());
  ASSERT_TRUE(file->Flush().ok());
  EXPECT_EQ(std::filesystem::status(folder_.Path("rejects.csv.tmp")).permissions(), perms(0600));
  ASSERT_TRUE(file->Accept().ok());
  EXPECT_TRUE(file->is_kept());
  ASSERT_TRUE(file->Add({3, "after", "y"}).ok());
  ASSERT_TRUE(file->Finish().ok());
  EXPECT_EQ(Content(), "line,reason,row\n2,\"before\",\"x\"\n3,\"after\",\"y\"\n");
  EXPECT_EQ(std::filesystem::status(folder_.Path("rejects.csv")).permissions(), perms(0600));
  file.reset();
  EXPECT_TRUE(folder_.Exists("rejects.csv"));
  EXPECT_FALSE(folder_.Exists("rejects.csv.tmp"));
}

TEST_F(RejectFileTest, RemovesAnOldFileWhenAnInputWithoutRejectsIsAcceptedAtItsEnd) {
  folder_.Write("rejects.csv", "line,reason,row\n1,\"old\",\"row\"\n");
  auto file = CreateUnaccepted().value();
  ASSERT_TRUE(file->Finish().ok());
  EXPECT_TRUE(folder_.Exists("rejects.csv"));
  ASSERT_TRUE(file->Accept().ok());
  EXPECT_FALSE(folder_.Exists("rejects.csv"));
}

TEST_F(RejectFileTest, NeverOverwritesTheInputOrSomebodysData) {
  EXPECT_THAT(RejectFile::Create(input_, input_).status().message(),
              HasSubstr("would overwrite the input"));
  folder_.Write("rejects.csv", "id,name\n1,x\n");
  EXPECT_THAT(Create().status().message(), HasSubstr("is not a file of rejected rows"));
  EXPECT_EQ(Content(), "id,name\n1,x\n");
}

TEST_F(RejectFileTest, SaysWhenItCannotBeWritten) {
  auto file = RejectFile::Create(folder_.Path("none/rejects.csv"), input_).value();
  EXPECT_THAT(file->Add({1, "r", "x"}).message(), HasSubstr("none/rejects.csv"));
}

TEST(RejectPath, IsTheInputsNameInTheCurrentFolder) {
  EXPECT_EQ(DefaultRejectPath("/data/flights.csv"), "flights.csv.rejects.csv");
  EXPECT_EQ(DefaultRejectPath("-"), "stdin.rejects.csv");
}

}  // namespace
}  // namespace millrace
