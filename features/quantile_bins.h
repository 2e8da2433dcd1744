// Bins of a numeric column, between quantiles of its values. The bin that a number is in makes a
// categorical feature of it: a linear model then learns any function of the number in steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "messages/features.pb.h"

namespace millrace {

inline constexpr uint32_t kDefaultBins = 16;
inline constexpr uint32_t kMostBins = 256;

// Most bins of a column.
struct BinnedColumn {
  std::string column;
  uint32_t bins = 0;

  bool operator==(const BinnedColumn&) const = default;
};

// The columns of spec.bins: "all" is each of spec.numeric, and what is named besides has its own
// number. InvalidArgument, with the field and the remedy: an empty name, a number of bins that is
// not 2 to kMostBins, a column twice, or all of no numeric column.
StatusOr<std::vector<BinnedColumn>> BinnedColumns(const FeatureSpec& spec);

// Whether spec.bin_edges are what `columns` need: one for each in the same order, finite,
// ascending, fewer than bins.
Status CheckBinEdges(const FeatureSpec& spec, std::span<const BinnedColumn> columns);

// The ascending edges between at most `bins` bins, none of which is empty, that share `values` as
// evenly as equal values allow. A value that is more frequent than that has a bin of its own; if
// there are at most `bins` distinct values, each has. `values` are finite, and may be none. `bins`
// is at least 2.
std::vector<double> QuantileEdges(std::vector<double> values, uint32_t bins);

// How many of the edges are at most `value`: a number's bin, in [0, edges.size()].
size_t BinOf(std::span<const double> edges, double value);

}  // namespace millrace
