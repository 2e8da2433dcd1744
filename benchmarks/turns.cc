#include "benchmarks/turns.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <fstream>

#include "base/check.h"

namespace millrace {
namespace {

double SecondsBy(clockid_t clock) {
  timespec time;
  MILLRACE_CHECK(clock_gettime(clock, &time) == 0);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Not the wall's time where it is possible, so that a busy machine disturbs less.
double SecondsOf(const Comparison& of) {
  if (of.by_the_wall) return SecondsBy(CLOCK_MONOTONIC);
  const double own = SecondsBy(CLOCK_THREAD_CPUTIME_ID);
  return of.of_other_threads ? SecondsBy(CLOCK_PROCESS_CPUTIME_ID) - own : own;
}

double MeasureRate(const std::function<double()>& work, const Comparison& of, double seconds) {
  const double start = SecondsOf(of);
  double passed = 0;
  double done = 0;
  double result = 0;
  while (passed < seconds) {
    result += work();
    done += of.items;
    passed = SecondsOf(of) - start;
  }
  MILLRACE_CHECK(std::isfinite(result));  // also keeps the compiler from dropping the work
  return done / passed;
}

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

struct Measured {
  std::string name;
  std::string unit;
  double ours = 0;
  double floor = 0;
  double ratio = 0;
};

Measured Measure(const Comparison& comparison, size_t turns, double seconds) {
  std::vector<double> ours;
  std::vector<double> floors;
  std::vector<double> ratios;
  for (size_t turn = 0; turn < turns; ++turn) {
    ours.push_back(MeasureRate(comparison.ours, comparison, seconds));
    floors.push_back(MeasureRate(comparison.floor, comparison, seconds));
    ratios.push_back(ours.back() / floors.back());
  }
  return {comparison.name, comparison.unit, Median(ours), Median(floors), Median(ratios)};
}

bool WriteJson(const std::string& path, const std::vector<Measured>& results) {
  std::ofstream out(path);
  out << "[";
  for (size_t i = 0; i < results.size(); ++i) {
    const Measured& result = results[i];
    out << (i == 0 ? "\n" : ",\n") << "  {\"name\": \"" << result.name
        << "\", \"ours\": " << result.ours << ", \"floor\": " << result.floor
        << ", \"ratio\": " << result.ratio << ", \"unit\": \"" << result.unit << "\"}";
  }
  out << "\n]\n";
  return static_cast<bool>(out.flush());
}

}  // namespace

int RunComparisons(const std::string& description, int argc, char** argv,
                   const std::vector<Comparison>& comparisons) {
  CLI::App app(description);
  std::string json;
  size_t turns = 9;
  double seconds = 0.1;
  app.add_option("--json", json, "Write a list of {name, ours, floor, ratio, unit} to this file");
  app.add_option("--turns", turns, "How often each side is measured")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--seconds", seconds, "Length of one measurement")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);

  std::vector<Measured> results;
  for (const Comparison& comparison : comparisons) {
    results.push_back(Measure(comparison, turns, seconds));
    const Measured& result = results.back();
    std::printf("%-60s %14.0f %14.0f %7.2f  %s\n", result.name.c_str(), result.ours, result.floor,
                result.ratio, result.unit.c_str());
    std::fflush(stdout);
  }
  if (!json.empty() && !WriteJson(json, results)) {
    std::fprintf(stderr, "cannot write %s\n", json.c_str());
    return 1;
  }
  return 0;
}

}  // namespace millrace
