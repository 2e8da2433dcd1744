// Trainers of a job that compute nothing, in threads of this process, until they are killed. Each
// step changes all numbers of one parameter and reads it; or, with --ids, it changes so many random
// rows of 16 floats and reads as many others in the same round trip. Trainer 0 says how fast it
// was.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "benchmarks/kafka/round_trips.h"
#include "millrace/log.h"
#include "millrace/parameter_manager.h"

namespace {

using millrace::RoundTrips;
using millrace::client::Param;
using millrace::client::ParameterManager;
using millrace::client::Result;
using millrace::client::Settings;
using millrace::client::Status;
using millrace::client::Table;
using std::chrono::steady_clock;

struct Options {
  Settings settings;
  uint32_t every = 1;
  size_t floats = 6'150;
  size_t ids = 0;           // of a step; 0: no rows, but floats
  uint64_t rows = 100'000;  // of the table
  double warm_up = 3;
  double seconds = 8;
};

void Require(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.message().c_str());
  std::exit(1);
}

template <typename T>
T Take(Result<T> result) {
  Require(result.status());
  return std::move(*result);
}

void TrainFloats(const Options& options, ParameterManager& manager, RoundTrips& trips) {
  Param* const param =
      Take(manager.Register({.name = "floats", .shape = {static_cast<int64_t>(options.floats)}}));
  Require(manager.Put(*param));
  std::ranges::fill(param->grad(), 0.001f);
  Require(manager.Get(param));
  while (true) {
    const auto sent = steady_clock::now();
    Require(manager.Update(*param));
    Require(manager.Step().status());
    Require(manager.Get(param));
    trips.Add(sent, steady_clock::now());
  }
}

void TrainRows(const Options& options, ParameterManager& manager, RoundTrips& trips) {
  Table* const table = Take(manager.RegisterTable({.name = "rows", .width = 16}));
  std::mt19937_64 random(options.settings.trainer);
  std::vector<uint64_t> ids(options.ids);
  // Before, each row of the table once, so that all are there: a part of them by each trainer.
  uint64_t next = options.settings.trainer;
  const auto draw = [&] {
    for (uint64_t& id : ids) {
      id = next < options.rows ? next : random() % options.rows;
      next += options.settings.trainers;
    }
  };
  draw();
  Require(manager.GetRows(table, ids));
  while (true) {
    std::ranges::fill(table->grad(), 1.0f);
    draw();
    const auto sent = steady_clock::now();
    Require(manager.UpdateRows(*table));
    Require(manager.WantRows(*table, ids));
    Require(manager.Step().status());
    Require(manager.GetRows(table, ids));
    trips.Add(sent, steady_clock::now());
  }
}

void Train(const Options& options) {
  const auto manager = Take(ParameterManager::Connect(options.settings));
  RoundTrips trips(options.warm_up, options.settings.trainer == 0 ? options.seconds : 0);
  options.ids > 0 ? TrainRows(options, *manager, trips) : TrainFloats(options, *manager, trips);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Trainers that push and pull");
  Options options;
  Settings& settings = options.settings;
  app.add_option("--brokers", settings.brokers)->required();
  app.add_option("--job", settings.job)->required();
  app.add_option("--trainers", settings.trainers, "Of the job")->capture_default_str();
  app.add_option("--first", settings.trainer, "The first one here")->capture_default_str();
  app.add_option("--every", options.every, "From one here to the next")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--floats", options.floats, "Of a parameter")->capture_default_str();
  app.add_option("--ids", options.ids, "Rows of a step, instead of floats");
  app.add_option("--rows", options.rows, "Of the table")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--warm-up", options.warm_up, "Seconds")->capture_default_str();
  app.add_option("--seconds", options.seconds, "To be measured")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  millrace::client::SetLog([](std::string_view line) {
    std::fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data());
  });
  std::vector<std::thread> threads;
  for (; settings.trainer < settings.trainers; settings.trainer += options.every) {
    threads.emplace_back(Train, options);
  }
  for (std::thread& thread : threads) thread.join();
  return 0;
}
