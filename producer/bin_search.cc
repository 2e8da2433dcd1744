#include "producer/bin_search.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/grouped_number.h"
#include "features/quoted_value.h"

namespace millrace {
namespace {

constexpr int kShownBins = 10;  // columns

}  // namespace

std::string FoundBins(const BinScan& scan) {
  std::string line = absl::StrCat("bins by the first ", GroupedNumber(scan.rows), " rows:");
  const int shown = std::min(kShownBins, scan.edges.size());
  for (int i = 0; i < shown; ++i) {
    absl::StrAppend(&line, i > 0 ? ", " : " ", scan.edges[i].edge_size() + 1, " of ",
                    QuotedValue(scan.edges[i].column()));
  }
  const int more = scan.edges.size() - shown;
  if (more > 0) absl::StrAppend(&line, " and ", more, more == 1 ? " more column" : " more columns");
  return line;
}

std::string ColumnsOfOneBin(const BinScan& scan) {
  std::string list;
  int count = 0;
  for (const FeatureSpec::BinEdges& edges : scan.edges) {
    if (!edges.edge().empty() || ++count > kShownBins) continue;
    absl::StrAppend(&list, count > 1 ? ", " : "", QuotedValue(edges.column()));
  }
  if (count == 0) return "";
  return absl::StrCat(
      "one bin only, which tells nothing, for ", list, count > kShownBins ? " and others" : "",
      ": among the first ", GroupedNumber(scan.rows),
      " rows there are no two different numbers; if later ones differ, start a new job (another "
      "--job) with bin_edges in --config");
}

Status SetBinEdges(const std::string& path, const CsvFile::Options& options, bool can_read_again,
                   const FeatureSpec* published, const std::atomic<bool>& stop,
                   ProgressDisplay& display, FeatureSpec& spec) {
  if (spec.bins().empty() || !spec.bin_edges().empty()) return absl::OkStatus();
  if (published != nullptr) {
    const std::string theirs = absl::StrJoin(published->bins(), ",");
    const std::string ours = absl::StrJoin(spec.bins(), ",");
    if (theirs != ours) {
      return absl::FailedPreconditionError(absl::StrCat(
          "this job was started with ", theirs.empty() ? "no --bins" : "--bins " + theirs,
          ", but --bins is ", ours, ": give the same, or start a new job (another --job)"));
    }
    *spec.mutable_bin_edges() = published->bin_edges();
    return absl::OkStatus();
  }
  if (!can_read_again) {
    return absl::FailedPreconditionError(
        "standard input can be read only once, so no first scan can find the edges of --bins: "
        "first run CsvProducer for this job with the same settings, --rows-per-turn 1, "
        "--features-only and, as --input, a file of some thousand such rows; or give bin_edges in "
        "--config");
  }
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<CsvFile> file, CsvFile::Open(path, options));
  MILLRACE_ASSIGN_OR_RETURN(const BinScan scan,
                            ScanBins(*file, spec, [&stop] { return stop.load(); }));
  display.Say(FoundBins(scan));
  if (const std::string few = ColumnsOfOneBin(scan); !few.empty()) display.Warn(few);
  *spec.mutable_bin_edges() = scan.edges;
  return absl::OkStatus();
}

}  // namespace millrace
