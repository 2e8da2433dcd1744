#include "features/quantile_bins.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "features/name_list.h"
#include "features/number.h"
#include "features/quoted_value.h"

namespace millrace {
namespace {

constexpr std::string_view kAll = "all";

struct Item {
  std::string column;
  uint32_t bins = kDefaultBins;
  bool is_all = false;  // of the numeric columns
};

// "COLUMN" or "COLUMN:N", the column perhaps in quotes. A colon that no number follows belongs to
// the name.
StatusOr<Item> ParseItem(std::string_view item) {
  item = TrimSpaces(item);
  Item parsed{std::string(item)};
  const size_t colon = item.rfind(':');
  if (colon != std::string_view::npos) {
    const std::string count(TrimSpaces(item.substr(colon + 1)));
    const bool is_count =
        !count.empty() && std::all_of(count.begin(), count.end(),
                                      [](unsigned char c) { return c >= '0' && c <= '9'; });
    // (In "a:16" the number is part of the name.)
    if (is_count && Unquoted(item) == item) {
      parsed.column = TrimSpaces(item.substr(0, colon));
      if (!absl::SimpleAtoi(count, &parsed.bins) || parsed.bins < 2 || parsed.bins > kMostBins) {
        return absl::InvalidArgumentError(absl::StrCat("bins (--bins) asks for ", count,
                                                       " bins of ", QuotedValue(parsed.column),
                                                       ": give 2 to ", kMostBins));
      }
    }
  }
  parsed.is_all = parsed.column == kAll;
  parsed.column = Unquoted(parsed.column);
  if (parsed.column.empty()) {
    return absl::InvalidArgumentError("bins (--bins) names an empty column");
  }
  return parsed;
}

// A value and how many there are of it.
struct Tally {
  double value;
  size_t count;
};

std::vector<Tally> DistinctValues(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  std::vector<Tally> distinct;
  for (double value : values) {
    if (distinct.empty() || distinct.back().value != value) distinct.push_back({value, 0});
    ++distinct.back().count;
  }
  return distinct;
}

// Which values are to have a bin of their own, since they are more than an even share of those that
// are not.
std::vector<bool> FrequentValues(const std::vector<Tally>& distinct, uint32_t bins) {
  std::vector<bool> frequent(distinct.size());
  size_t others = 0;
  for (const Tally& tally : distinct) others += tally.count;
  for (bool changed = true; changed && bins > 0;) {
    changed = false;
    const double share = static_cast<double>(others) / bins;
    for (size_t i = 0; i < distinct.size() && bins > 0; ++i) {
      if (frequent[i] || static_cast<double>(distinct[i].count) < share) continue;
      frequent[i] = changed = true;
      others -= distinct[i].count;
      --bins;
    }
  }
  return frequent;
}

// Positions in `distinct` at which bins begin, but the first: at frequent values, after them if
// `alone`, and where `shares` bins share the others about evenly.
std::vector<size_t> Beginnings(const std::vector<Tally>& distinct,
                               const std::vector<bool>& frequent, bool alone, size_t shares) {
  size_t others = 0;
  for (size_t i = 0; i < distinct.size(); ++i) others += frequent[i] ? 0 : distinct[i].count;
  std::vector<size_t> begins;
  size_t before = 0;  // of the others
  size_t next = 1;    // share that begins
  for (size_t i = 0; i < distinct.size(); ++i) {
    const size_t count = frequent[i] ? 0 : distinct[i].count;
    bool is_begin = frequent[i] || (alone && i > 0 && frequent[i - 1]);
    // Before this value if that is nearer to the even share than after it.
    while (next < shares && (2 * before + count) * shares >= 2 * next * others) {
      is_begin = true;
      ++next;
    }
    if (is_begin && i > 0) begins.push_back(i);
    before += count;
  }
  return begins;
}

// Frequent values may divide shares, which makes more bins: so fewer shares, and if that is not
// enough, what follows a frequent value joins it. (There are fewer frequent values than bins, if
// there are others.)
std::vector<size_t> Beginnings(const std::vector<Tally>& distinct, uint32_t bins) {
  const std::vector<bool> frequent = FrequentValues(distinct, bins);
  for (const bool alone : {true, false}) {
    for (size_t shares = bins; shares > 0; --shares) {
      std::vector<size_t> begins = Beginnings(distinct, frequent, alone, shares);
      if (begins.size() < bins) return begins;
    }
  }
  MILLRACE_CHECK(false);
}

}  // namespace

StatusOr<std::vector<BinnedColumn>> BinnedColumns(const FeatureSpec& spec) {
  std::vector<BinnedColumn> named;
  std::optional<uint32_t> all;
  std::set<std::string> seen;
  for (const std::string& item : spec.bins()) {
    MILLRACE_ASSIGN_OR_RETURN(Item parsed, ParseItem(item));
    if (parsed.is_all ? all.has_value() : !seen.insert(parsed.column).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("bins (--bins) names ", QuotedValue(parsed.column), " twice"));
    }
    if (parsed.is_all) {
      all = parsed.bins;
    } else {
      named.push_back({std::move(parsed.column), parsed.bins});
    }
  }
  if (!all) return named;
  if (spec.numeric().empty()) {
    return absl::InvalidArgumentError(
        "bins (--bins): all are the numeric columns, and there are none: name them in --numeric, "
        "or the columns themselves in --bins");
  }
  std::vector<BinnedColumn> columns;
  for (const std::string& column : spec.numeric()) {
    if (!seen.contains(column)) columns.push_back({column, *all});
  }
  columns.insert(columns.end(), named.begin(), named.end());
  return columns;
}

Status CheckBinEdges(const FeatureSpec& spec, std::span<const BinnedColumn> columns) {
  const auto wrong = [](const std::string& what) {
    return absl::InvalidArgumentError("bin_edges: " + what);
  };
  if (static_cast<size_t>(spec.bin_edges_size()) != columns.size()) {
    return wrong(absl::StrCat("has ", spec.bin_edges_size(), " columns, but --bins names ",
                              columns.size(), ": give one entry for each column, in its order"));
  }
  for (size_t i = 0; i < columns.size(); ++i) {
    const FeatureSpec::BinEdges& given = spec.bin_edges(static_cast<int>(i));
    const std::string name = QuotedValue(columns[i].column);
    if (given.column() != columns[i].column) {
      return wrong(absl::StrCat("names ", QuotedValue(given.column()), " where --bins has ", name,
                                ": use the order of --bins"));
    }
    if (static_cast<uint32_t>(given.edge_size()) >= columns[i].bins) {
      return wrong(absl::StrCat("column ", name, " has ", given.edge_size(), " edges for ",
                                columns[i].bins, " bins: give fewer edges than bins"));
    }
    for (int k = 0; k < given.edge_size(); ++k) {
      if (std::isfinite(given.edge(k)) && (k == 0 || given.edge(k - 1) < given.edge(k))) continue;
      return wrong(absl::StrCat("the edges of column ", name, " must be finite and ascending"));
    }
  }
  return absl::OkStatus();
}

std::vector<double> QuantileEdges(std::vector<double> values, uint32_t bins) {
  MILLRACE_CHECK(bins >= 2);
  const std::vector<Tally> distinct = DistinctValues(std::move(values));
  std::vector<double> edges;
  for (const size_t begin : Beginnings(distinct, bins)) edges.push_back(distinct[begin].value);
  return edges;
}

size_t BinOf(std::span<const double> edges, double value) {
  const auto above = std::upper_bound(edges.begin(), edges.end(), value);
  return static_cast<size_t>(above - edges.begin());
}

}  // namespace millrace
