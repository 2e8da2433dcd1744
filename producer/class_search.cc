#include "producer/class_search.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <numeric>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/grouped_number.h"
#include "features/quoted_value.h"

namespace millrace {
namespace {

using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr seconds kReportEvery(2);
constexpr size_t kShownClasses = 10;
// Of the rows, and of an even share of them: a hundred classes have 1 % each.
constexpr double kRare = 0.005;
constexpr double kRareInShare = 0.1;

// "A" 5, "B" 3 and 2 more
std::string Listed(const ClassScan& scan, const std::vector<size_t>& which) {
  std::string list;
  for (size_t i = 0; i < std::min(which.size(), kShownClasses); ++i) {
    absl::StrAppend(&list, i > 0 ? ", " : "", QuotedValue(scan.classes[which[i]]), " ",
                    GroupedNumber(scan.counts[which[i]]));
  }
  if (which.size() > kShownClasses) {
    absl::StrAppend(&list, " and ", GroupedNumber(which.size() - kShownClasses), " more");
  }
  return list;
}

// Calls `report` every 2 s, on a thread of its own, until destroyed.
class Ticker {
 public:
  explicit Ticker(std::function<void(seconds)> report)
      : thread_([this, report = std::move(report)](const std::stop_token& stop) {
          const auto begin = steady_clock::now();
          std::unique_lock<std::mutex> lock(mutex_);
          while (!condition_.wait_for(lock, stop, kReportEvery,
                                      [&] { return stop.stop_requested(); })) {
            report(std::chrono::duration_cast<seconds>(steady_clock::now() - begin));
          }
        }) {}

 private:
  std::mutex mutex_;
  std::condition_variable_any condition_;
  std::jthread thread_;  // last: it uses the others
};

}  // namespace

std::string FoundClasses(const ClassScan& scan) {
  std::vector<size_t> which(scan.classes.size());
  std::iota(which.begin(), which.end(), size_t{0});
  if (which.size() > kShownClasses) {
    std::stable_sort(which.begin(), which.end(),
                     [&](size_t a, size_t b) { return scan.counts[a] > scan.counts[b]; });
  }
  return absl::StrCat("found ", scan.classes.size(), " classes in ",
                      GroupedNumber(scan.rows - scan.malformed), " rows: ", Listed(scan, which));
}

std::string RareClasses(const ClassScan& scan) {
  const uint64_t rows = std::accumulate(scan.counts.begin(), scan.counts.end(), uint64_t{0});
  const double share = kRareInShare / static_cast<double>(scan.counts.size());
  const double few = std::min(kRare, share) * static_cast<double>(rows);
  std::vector<size_t> rare;
  for (size_t i = 0; i < scan.counts.size(); ++i) {
    if (static_cast<double>(scan.counts[i]) < few) rare.push_back(i);
  }
  if (rare.empty()) return "";
  // The rarest are the likeliest mistakes.
  std::stable_sort(rare.begin(), rare.end(),
                   [&](size_t a, size_t b) { return scan.counts[a] < scan.counts[b]; });
  return absl::StrCat(rare.size(), rare.size() == 1 ? " class has" : " classes have",
                      " fewer than 0.5 % of the rows: ", Listed(scan, rare),
                      "; if these are typing errors, start a new job (another --job) with "
                      "--classes A,B,...: rows of any other class are then rejected");
}

StatusOr<std::vector<std::string>> SearchClasses(const std::string& path,
                                                 const CsvFile::Options& options,
                                                 const FeatureSpec& spec,
                                                 const std::atomic<bool>& stop,
                                                 ProgressDisplay& display) {
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<CsvFile> file, CsvFile::Open(path, options));
  StatusOr<ClassScan> scan = absl::UnknownError("");
  {
    // The display is this thread's while the scan runs here without a word.
    const std::string what = absl::StrCat("looking for the classes in ", path, " (",
                                          Bytes(file->total_bytes().value_or(0)), "), ");
    const Ticker ticker([&](seconds time) { display.Say(absl::StrCat(what, time.count(), " s")); });
    scan = ScanClasses(*file, spec, [&stop] { return stop.load(); });
  }
  MILLRACE_RETURN_IF_ERROR(scan.status());
  display.Say(FoundClasses(*scan));
  if (const std::string rare = RareClasses(*scan); !rare.empty()) display.Warn(rare);
  return std::move(scan->classes);
}

}  // namespace millrace
