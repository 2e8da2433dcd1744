#include "features/bin_scan.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "features/csv_row_encoder.h"
#include "features/quantile_bins.h"

namespace millrace {
namespace {

constexpr uint64_t kRowsBetweenScanQuestions = 1000;

}  // namespace

StatusOr<BinScan> ScanBins(CsvFile& file, const FeatureSpec& spec,
                           const std::function<bool()>& stopped) {
  FeatureSpec without_edges = spec;
  without_edges.clear_bin_edges();
  MILLRACE_ASSIGN_OR_RETURN(FeatureEncoder checker,
                            FeatureEncoder::CreateWithoutClasses(without_edges));
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<BinnedColumn> columns, BinnedColumns(spec));
  MILLRACE_ASSIGN_OR_RETURN(CsvRowEncoder rows,
                            CsvRowEncoder::Create(std::move(checker), file.columns(), file.name()));
  BinScan scan;
  std::vector<std::vector<double>> values(columns.size());
  std::vector<double> cells;
  CsvRecord record;
  std::string first_reason;
  for (uint64_t read = 0; scan.rows < kRowsForBins; ++read) {
    if (read % kRowsBetweenScanQuestions == 0 && stopped && stopped()) {
      return absl::CancelledError("stopped while looking for the edges of bins");
    }
    MILLRACE_ASSIGN_OR_RETURN(const bool found, file.Next(&record));
    if (!found) break;
    const StatusOr<std::span<const std::string_view>> fields =
        record.ok() ? rows.Select(record.fields) : absl::InvalidArgumentError(record.error);
    Status usable = fields.ok() ? rows.encoder().CheckFeatures(*fields) : fields.status();
    if (usable.ok()) usable = rows.encoder().ReadBinned(*fields, &cells);
    if (!usable.ok()) {
      if (first_reason.empty())
        first_reason = absl::StrCat("line ", record.line, ": ", usable.message());
      continue;
    }
    ++scan.rows;
    for (size_t i = 0; i < cells.size(); ++i) {
      if (!std::isnan(cells[i])) values[i].push_back(cells[i]);
    }
  }
  if (scan.rows == 0) {
    return absl::InvalidArgumentError(
        first_reason.empty()
            ? absl::StrCat(file.name(), " has a header but no rows")
            : absl::StrCat(file.name(), ": all rows are malformed; the first: ", first_reason));
  }
  for (size_t i = 0; i < columns.size(); ++i) {
    FeatureSpec::BinEdges& edges = *scan.edges.Add();
    edges.set_column(columns[i].column);
    for (double edge : QuantileEdges(std::move(values[i]), columns[i].bins)) edges.add_edge(edge);
  }
  return scan;
}

}  // namespace millrace
