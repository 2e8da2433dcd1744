#include "features/bin_scan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/features/csv_of_text.h"

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

StatusOr<BinScan> Scan(const std::string& text, const std::function<bool()>& stopped = {},
                       FeatureSpec::Missing missing = FeatureSpec::MEAN_AND_INDICATOR) {
  const std::unique_ptr<CsvFile> file = CsvOfText(text);
  FeatureSpec spec;
  spec.set_label("y");
  spec.add_numeric("n");
  spec.add_bins("m:4");
  spec.add_bins("n");
  spec.set_missing(missing);
  return ScanBins(*file, spec, stopped);
}

std::vector<double> EdgesOf(const BinScan& scan, int i) {
  return {scan.edges[i].edge().begin(), scan.edges[i].edge().end()};
}

TEST(BinScan, TakesTheEdgesFromTheCellsThatHaveNumbers) {
  const BinScan scan = Scan("y,n,m\na,1,NA\nb,-1e1,3\na,,3\nb,1,4\n").value();
  EXPECT_EQ(scan.rows, 4u);
  ASSERT_EQ(scan.edges.size(), 2);
  EXPECT_EQ(scan.edges[0].column(), "m");
  EXPECT_THAT(EdgesOf(scan, 0), ElementsAre(4));
  EXPECT_EQ(scan.edges[1].column(), "n");
  EXPECT_THAT(EdgesOf(scan, 1), ElementsAre(1));
}

TEST(BinScan, LeavesOutRowsThatAreMalformed) {
  const BinScan scan = Scan("y,n,m\na,1,1\nb,2,1\nfew,3\na,x,3\na,3,x\na,4,,\n").value();
  EXPECT_EQ(scan.rows, 2u);
  EXPECT_THAT(EdgesOf(scan, 0), ElementsAre());
  EXPECT_THAT(EdgesOf(scan, 1), ElementsAre(2));
  EXPECT_EQ(Scan("y,n,m\na,1,\nb,2,3\n", {}, FeatureSpec::REJECT).value().rows, 1u);
}

TEST(BinScan, LooksAtTheFirstRowsOnly) {
  std::string text = "y,n,m\n";
  for (uint64_t i = 0; i < kRowsForBins; ++i) text += i % 2 == 0 ? "a,1,1\n" : "b,2,2\n";
  const BinScan scan = Scan(text + "a,3,3\nnot looked at\n").value();
  EXPECT_EQ(scan.rows, kRowsForBins);
  EXPECT_THAT(EdgesOf(scan, 0), ElementsAre(2));
}

TEST(BinScan, RefusesAFileWithoutAUsableRowOrColumn) {
  const auto error = [](const std::string& text) {
    return std::string(Scan(text).status().message());
  };
  EXPECT_THAT(error("y,n,m\n"), HasSubstr("has a header but no rows"));
  EXPECT_THAT(error("y,n,m\na,x,1\nb\n"), HasSubstr("all rows are malformed; the first: line 2: "));
  EXPECT_THAT(error("y,n\na,1\n"), HasSubstr("has no column \"m\""));
}

TEST(BinScan, EndsSoonAfterItIsStopped) {
  const Status stopped = Scan("y,n,m\na,1,1\n", [] { return true; }).status();
  EXPECT_TRUE(absl::IsCancelled(stopped)) << stopped;
}

}  // namespace
}  // namespace millrace
