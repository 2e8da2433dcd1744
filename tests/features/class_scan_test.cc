#include "features/class_scan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/features/csv_of_text.h"

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

StatusOr<ClassScan> Scan(const std::string& text, const std::function<bool()>& stopped = {}) {
  const std::unique_ptr<CsvFile> file = CsvOfText(text);
  FeatureSpec spec;
  spec.set_label("y");
  spec.add_numeric("n");
  spec.add_text("t");
  return ScanClasses(*file, spec, stopped);
}

std::string ErrorOf(const std::string& text) { return std::string(Scan(text).status().message()); }

TEST(ClassScan, SortsClassesByTheirBytes) {
  const ClassScan scan = Scan("y,n,t\nb,1,x\nB,2,x\n a ,3,x\nb,4,x\n10,5,x\n9,6,x\n").value();
  EXPECT_THAT(scan.classes, ElementsAre("10", "9", "B", "a", "b"));
  EXPECT_THAT(scan.counts, ElementsAre(1, 1, 1, 1, 2));
  EXPECT_EQ(scan.rows, 6u);
  EXPECT_EQ(scan.malformed, 0u);
}

TEST(ClassScan, SortsNumbersAsNumbersAndJoinsEqualOnes) {
  EXPECT_THAT(Scan("y,n,t\n10,1,x\n9,1,x\n-1.5,1,x\n9.0,1,x\n+10,1,x\n").value().classes,
              ElementsAre("-1.5", "9", "10"));
  EXPECT_THAT(Scan("y,n,t\n10,1,x\n9,1,x\n-1.5,1,x\n9.0,1,x\n+10,1,x\n").value().counts,
              ElementsAre(1, 2, 2));
}

TEST(ClassScan, EndsSoonAfterItIsStopped) {
  std::string text = "y,n,t\n";
  for (int i = 0; i < 5000; ++i) text += i % 2 == 0 ? "a,1,x\n" : "b,2,x\n";
  int questions = 0;
  const Status stopped = Scan(text, [&] { return ++questions == 2; }).status();
  EXPECT_TRUE(absl::IsCancelled(stopped)) << stopped;
  EXPECT_EQ(questions, 2);
}

TEST(ClassScan, TakesNoClassFromAMalformedRow) {
  const ClassScan scan = Scan(
                             "y,n,t\na,1,x\nb,1,x\n"
                             "few,1\nmany,1,x,y\nnumber,x,x\n,1,x\nutf\xFF,1,x\ntext,1,\xFF\n"
                             "missing,1,\xFF\n\"quote\"s,1,x\n\"open,1,x\n")
                             .value();
  EXPECT_THAT(scan.classes, ElementsAre("a", "b"));
  EXPECT_EQ(scan.rows, 11u);
  EXPECT_EQ(scan.malformed, 9u);
}

TEST(ClassScan, RefusesAFileThatGivesNoClasses) {
  EXPECT_THAT(ErrorOf("y,n,t\n"), HasSubstr("has a header but no rows"));
  EXPECT_THAT(ErrorOf("y,n,t\na,x,x\nb\n"),
              HasSubstr("all 2 rows are malformed; the first: line 2: "));
  EXPECT_THAT(ErrorOf("y,n,t\na,1,x\na,2,x\n"),
              HasSubstr("column \"y\" has only the value \"a\": at least 2 classes"));
  EXPECT_THAT(ErrorOf("x,n,t\na,1,x\n"), HasSubstr("has no column \"y\""));
}

TEST(ClassScan, RefusesAColumnWithMoreValuesThanClassesHave) {
  std::string text = "y,n,t\n";
  for (size_t i = 0; i < kMaxClasses; ++i) text += std::to_string(i) + ",1,x\n";
  EXPECT_EQ(Scan(text).value().classes.size(), kMaxClasses);
  EXPECT_THAT(ErrorOf(text + "more,1,x\n"), HasSubstr("more than 10000 distinct values"));
}

}  // namespace
}  // namespace millrace
