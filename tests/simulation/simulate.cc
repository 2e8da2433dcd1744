// simulate [--seeds N] [--first K] [-v]: runs seeds, prints what the failing ones had drawn.
// simulate --rounds N [--eventual]: one job of so many rounds, and what it keeps on the way.
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <string_view>

#include "tests/simulation/long_job.h"
#include "tests/simulation/simulation.h"

namespace millrace::simulation {
namespace {

uint64_t current_seed = 0;

// A broken CHECK: say in which seed.
void OnAbort(int) {
  char text[64];
  const int size = std::snprintf(text, sizeof(text), "aborted in seed %llu\n",
                                 static_cast<unsigned long long>(current_seed));
  if (size > 0 && write(STDERR_FILENO, text, static_cast<size_t>(size)) < 0) return;
}

double ResidentMib() {
  std::ifstream file("/proc/self/statm");
  double pages = 0;
  file >> pages >> pages;
  return pages * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
}

int RunLong(LongJobOptions options) {
  const auto start = std::chrono::steady_clock::now();
  options.kills = 40;
  std::printf("%10s %10s %10s %10s %10s %11s %10s %8s\n", "rounds", "gradients", "weights",
              "input-data", "parameters", "state bytes", "resident", "seconds");
  const std::string violation = RunLongJob(options, [&](const Kept& kept) {
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    std::printf("%10llu %10zu %10zu %10zu %10zu %11zu %6.1f MiB %8.0f\n",
                static_cast<unsigned long long>(uint64_t{kept.rounds}), kept.gradients,
                kept.weights, kept.input_data, kept.parameters, kept.state_bytes, ResidentMib(),
                took.count());
    std::fflush(stdout);
  });
  std::printf("%s\n", violation.empty() ? "all as it must be" : violation.c_str());
  return violation.empty() ? 0 : 1;
}

int Main(int argc, char** argv) {
  LongJobOptions long_job;
  uint64_t seeds = 1000;
  uint64_t first = 0;
  bool verbose = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    if (flag == "-v") {
      verbose = true;
    } else if (flag == "--rounds" && i + 1 < argc) {
      long_job.rounds = Clock(std::strtoull(argv[++i], nullptr, 10));
    } else if (flag == "--eventual") {
      long_job.consistency = Training::Consistency::EVENTUAL;
    } else if (flag == "--seeds" && i + 1 < argc) {
      seeds = std::strtoull(argv[++i], nullptr, 10);
    } else if (flag == "--first" && i + 1 < argc) {
      first = std::strtoull(argv[++i], nullptr, 10);
    } else {
      std::printf("usage: simulate [--seeds N] [--first K] [-v] | --rounds N [--eventual]\n");
      return flag == "--help" ? 0 : 2;
    }
  }
  if (long_job.rounds > 0) return RunLong(long_job);
  std::signal(SIGABRT, OnAbort);
  const auto start = std::chrono::steady_clock::now();
  std::map<std::string_view, uint64_t> coverage;
  std::map<std::string, uint64_t> kinds;
  uint64_t failed = 0;
  for (current_seed = first; current_seed < first + seeds; ++current_seed) {
    const Outcome outcome = RunSeed(current_seed);
    for (const auto& [what, count] : outcome.coverage) coverage[what] += count;
    if (verbose && seeds == 1) std::printf("%s\n", outcome.options.c_str());
    if (outcome.violation.empty()) continue;
    ++failed;
    if (++kinds[outcome.violation.substr(0, 50)] <= 3) {
      std::printf("seed %llu: %s\n  %s\n", static_cast<unsigned long long>(current_seed),
                  outcome.violation.c_str(), outcome.options.c_str());
    }
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  for (const auto& [kind, count] : kinds) {
    std::printf("%6llu  %s\n", static_cast<unsigned long long>(count), kind.c_str());
  }
  if (verbose) {
    for (const auto& [what, count] : coverage) {
      std::printf("%9llu  %.*s\n", static_cast<unsigned long long>(count),
                  static_cast<int>(what.size()), what.data());
    }
  }
  std::printf("%llu seeds, %llu failed, %.1f s\n", static_cast<unsigned long long>(seeds),
              static_cast<unsigned long long>(failed), took.count());
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace millrace::simulation

int main(int argc, char** argv) { return millrace::simulation::Main(argc, argv); }
