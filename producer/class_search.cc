#include "producer/class_search.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "features/class_scan.h"
#include "features/quoted_value.h"

namespace millrace {
namespace {

using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr seconds kReportEvery(2);
constexpr size_t kShownClasses = 10;

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
  const size_t shown = std::min(scan->classes.size(), kShownClasses);
  std::string line = absl::StrCat("found ", scan->classes.size(), " classes in ",
                                  WithCommas(scan->rows), " rows: ");
  for (size_t i = 0; i < shown; ++i) {
    absl::StrAppend(&line, i > 0 ? ", " : "", QuotedValue(scan->classes[i]));
  }
  if (shown < scan->classes.size()) line += ", ...";
  display.Say(line);
  return std::move(scan->classes);
}

}  // namespace millrace
