// A trainer of one's own whose processes train one model together by all-reduce
// (docs/all-reduce.md).
//
// A linear model of rows that are made up. In each round each of --workers logical workers computes
// the gradient of a batch of its own; which process hosts it is of no importance. All processes add
// all gradients in the order of the workers and have the same weights afterwards, to the byte,
// whoever dies, joins or is started again meanwhile.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "base/atomic_file.h"
#include "base/hash.h"
#include "collective/ordered_all_reduce.h"
#include "collective/state_sync.h"
#include "collective/world.h"
#include "examples/gloo-trainer/node.h"

namespace millrace {
namespace {

struct Options {
  NodeOptions node;
  std::string weights_file;
  uint32_t workers = 8;
  uint64_t rounds = 200;
  uint64_t batch_rows = 64;
  uint64_t pause_ms = 0;
};

// ---- the model ----

constexpr size_t kFeatures = 20;
// What is added up: a gradient, and how many workers' processes know of a newcomer.
constexpr size_t kNewcomers = kFeatures;
constexpr size_t kLength = kFeatures + 1;

using Numbers = std::vector<float>;

// The number of a row decides what is in it.
float FeatureOf(uint64_t row, size_t feature) {
  return EvenlyFrom(Mix64(row * kFeatures + feature));
}
float TargetOf(uint64_t row) {
  float target = 0.1f * EvenlyFrom(Mix64(~row));  // noise
  for (size_t i = 0; i < kFeatures; ++i) target += static_cast<float>(i) * FeatureOf(row, i);
  return target;
}

Numbers GradientOf(uint64_t first_row, uint64_t rows, const Numbers& weights) {
  Numbers gradient(kLength, 0.0f);
  for (uint64_t row = first_row; row < first_row + rows; ++row) {
    float error = -TargetOf(row);
    for (size_t i = 0; i < kFeatures; ++i) error += weights[i] * FeatureOf(row, i);
    for (size_t i = 0; i < kFeatures; ++i) gradient[i] += error * FeatureOf(row, i);
  }
  return gradient;
}

// ---- training ----

class Trainer {
 public:
  Trainer(const Options& options, Node& node) : options_(options), node_(node) {}

  Status Run() {
    while (!is_done_) {
      MeshOptions mesh;
      mesh.host = options_.node.host;
      StatusOr<World> world = World::Join(
          mesh, node_.instance(), [this](const std::string& value) { return node_.Gather(value); });
      const Status status = world.ok() ? TrainIn(*world) : world.status();
      if (status.ok()) continue;
      // A member has died, or was too slow: the others go on in another world.
      if (!absl::IsUnavailable(status)) return status;
      Say("this world is over, round " + std::to_string(round_) +
          " is repeated: " + std::string(status.message()));
    }
    return absl::OkStatus();
  }

  void Say(const std::string& text) const {
    (void)std::printf("%s\n", text.c_str());
    (void)std::fflush(stdout);
  }

  const Numbers& weights() const { return weights_; }
  uint64_t round() const { return round_; }

 private:
  // Until all is done, somebody new waits for a world, or this one fails. Some members may have got
  // the last sum where others have not, who need them; so the end is a world that begins with it.
  Status TrainIn(World& world) {
    MILLRACE_RETURN_IF_ERROR(
        TakeFurthest(world, round_, std::as_writable_bytes(std::span(weights_))));
    Say("world " + std::to_string(world.id()) + ": member " + std::to_string(world.position()) +
        " of " + std::to_string(world.size()) + ", from round " + std::to_string(round_));
    is_done_ = round_ == options_.rounds;
    std::vector<uint32_t> owners(options_.workers);
    for (uint32_t w = 0; w < options_.workers; ++w) owners[w] = w % world.size();
    OrderedAllReduce all_reduce(world, owners, kLength);
    bool has_newcomers = false;
    while (round_ < options_.rounds && !has_newcomers) {
      std::this_thread::sleep_for(std::chrono::milliseconds(options_.pause_ms));
      std::vector<Numbers> gradients;
      std::vector<Contribution> own;
      gradients.reserve(options_.workers);
      for (uint32_t w = world.position(); w < options_.workers; w += world.size()) {
        const uint64_t batch = round_ * options_.workers + w;
        gradients.push_back(GradientOf(batch * options_.batch_rows, options_.batch_rows, weights_));
        gradients.back()[kNewcomers] = node_.HasNewcomers() ? 1.0f : 0.0f;
        own.push_back({w, gradients.back()});
      }
      Numbers sum(kLength);
      MILLRACE_RETURN_IF_ERROR(all_reduce.Run(own, sum));
      const float rows = static_cast<float>(options_.workers * options_.batch_rows);
      for (size_t i = 0; i < kFeatures; ++i) weights_[i] -= sum[i] / rows;
      ++round_;
      has_newcomers = sum[kNewcomers] > 0;  // so all know it after the same round
    }
    return absl::OkStatus();
  }

  const Options& options_;
  Node& node_;
  Numbers weights_ = Numbers(kFeatures, 0.0f);
  uint64_t round_ = 0;  // of these weights
  bool is_done_ = false;
};

Status Run(const Options& options) {
  Node node(options.node);
  Trainer trainer(options, node);
  trainer.Say("instance " + node.instance());
  MILLRACE_RETURN_IF_ERROR(node.Join());
  MILLRACE_RETURN_IF_ERROR(trainer.Run());
  if (!options.weights_file.empty()) {
    const std::string_view bytes(reinterpret_cast<const char*>(trainer.weights().data()),
                                 trainer.weights().size() * sizeof(float));
    MILLRACE_RETURN_IF_ERROR(WriteAtomicFile(options.weights_file, bytes));
  }
  trainer.Say("ends after round " + std::to_string(trainer.round()));
  return node.Leave();
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  millrace::Options options;
  CLI::App app("Trains a linear model in several processes by all-reduce (docs/all-reduce.md).");
  millrace::AddNodeFlags(app, options.node);
  app.add_option("--workers", options.workers,
                 "logical workers of the job, the same in all processes; the weights depend on it");
  app.add_option("--rounds", options.rounds, "rounds to train, the same in all processes");
  app.add_option("--batch-rows", options.batch_rows, "rows of each logical worker in a round");
  app.add_option("--pause-ms", options.pause_ms, "pause in each round, to have time to look on");
  app.add_option("--weights-file", options.weights_file,
                 "file for the weights at the end: 32-bit floats in the machine's byte order");
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = millrace::Run(options);
  if (status.ok()) return 0;
  (void)std::fprintf(stderr, "gloo_trainer: %s\n", std::string(status.message()).c_str());
  return 1;
}
