// Trainers of a job with one table, of rows of 16 floats, until they are killed: each step changes
// so many random rows of it, and reads as many for the next in the same round trip.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

#include "millrace/parameter_manager.h"

namespace {

using millrace::client::ParameterManager;
using millrace::client::Settings;
using millrace::client::Status;
using millrace::client::Table;

void Require(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.message().c_str());
  std::exit(1);
}

struct Options {
  Settings settings;
  size_t ids = 0;     // of a step
  uint64_t rows = 0;  // of the table
};

void Train(const Options& options) {
  auto manager = ParameterManager::Connect(options.settings);
  Require(manager.status());
  const auto registered = (*manager)->RegisterTable({.name = "rows", .width = 16});
  Require(registered.status());
  Table* const table = *registered;
  std::mt19937_64 random(options.settings.trainer);
  std::vector<uint64_t> ids(options.ids);
  while (true) {
    Require((*manager)->GetRows(table, ids));
    std::ranges::fill(table->grad(), 1.0f);
    Require((*manager)->UpdateRows(*table));
    for (uint64_t& id : ids) id = random() % options.rows;
    Require((*manager)->WantRows(*table, ids));
    Require((*manager)->Step().status());
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 8) {
    std::fputs(
        "Usage: row_trainers BROKERS JOB TRAINERS FIRST EVERY IDS ROWS\n"
        "runs the trainers FIRST, FIRST + EVERY, ...\n",
        stderr);
    return 1;
  }
  const auto number = [&](int i) {
    return static_cast<uint32_t>(std::strtoul(argv[i], nullptr, 10));
  };
  const uint32_t trainers = number(3);
  std::vector<std::thread> threads;
  for (uint32_t trainer = number(4); trainer < trainers; trainer += number(5)) {
    const Settings settings = {
        .brokers = argv[1], .job = argv[2], .trainers = trainers, .trainer = trainer};
    threads.emplace_back(Train, Options{.settings = settings, .ids = number(6), .rows = number(7)});
  }
  for (std::thread& thread : threads) thread.join();
}
