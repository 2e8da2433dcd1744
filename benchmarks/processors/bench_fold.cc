// A shard's fold of an update, by the number of workers, against the same with four: how much a
// worker's update costs must not depend on how many others there are. The model is small (64
// weights), so that little else is measured.
//
//   in turn       one update of each worker, ascending, as one process sends those of its workers
//   catching up   the others are far ahead of one worker: each of its updates raises the minimum
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/big_endian.h"
#include "base/check.h"
#include "benchmarks/turns.h"
#include "processors/server_processor.h"
#include "topics/frame.h"
#include "topics/slice_codec.h"

namespace millrace {
namespace {

constexpr KeyRange kRange = {0, 64};
constexpr uint32_t kFew = 4;
constexpr size_t kUpdatesAtOnce = 1000;
constexpr uint64_t kAhead = 1'000'000;  // so seldom must the others be moved

class Shard {
 public:
  Shard(uint32_t workers, ConsistencyPolicy consistency)
      : workers_(workers), processor_(OptionsFor(workers, consistency), nullptr) {
    message_.set_epoch(1);
    Gradient::Update& update = *message_.mutable_update();
    update.set_row_count(1);
    update.set_weight_sum(1);
    EncodeDenseSlice(std::vector<float>(kRange.size(), 1e-6f), kRange, *update.mutable_slice());
  }

  void Send(WorkerId worker) {
    message_.set_worker(worker);
    message_.set_clock(processor_.clocks().clock(worker));
    const std::string key = EncodeBigEndian32(worker);
    const std::string value = MakeFrames(message_.SerializeAsString(), 0).front();
    output_.Clear();
    MILLRACE_CHECK(processor_.Process({offset_++, key, value, 0}, output_).ok());
    MILLRACE_CHECK(output_.dead_letters.empty());
  }
  void SendInTurn() {
    Send(next_);
    next_ = WorkerId((uint64_t{next_} + 1) % workers_);
  }
  // Worker 0 when it is behind; else the others first go as far ahead as it will come.
  void SendCatchingUp() {
    if (processor_.clocks().clock(0) == ahead_) {
      ahead_ += kAhead;
      for (WorkerId worker = 1; worker < workers_; ++worker) SetClock(worker, ahead_);
    }
    Send(0);
  }

  double clock() const { return static_cast<double>(processor_.clocks().clock(0)); }

 private:
  static ServerOptions OptionsFor(uint32_t workers, ConsistencyPolicy consistency) {
    ServerOptions options;
    options.range = kRange;
    options.penalised_end = kRange.end;
    options.workers = workers;
    options.consistency = consistency;
    return options;
  }
  // By its saved state: quicker than by updates.
  void SetClock(WorkerId worker, Clock clock) {
    if (!state_) processor_.SaveState(state_.emplace());
    state_->mutable_members(static_cast<int>(worker))->set_clock(clock);
    if (worker + 1 < workers_) return;
    state_->mutable_members(0)->set_clock(processor_.clocks().clock(0));
    MILLRACE_CHECK(processor_.LoadState(*state_).ok());
  }

  uint32_t workers_;
  ServerProcessor processor_;
  Gradient message_;
  ServerOutput output_;
  std::optional<ShardState> state_;
  Offset offset_ = 0;
  WorkerId next_ = 0;
  Clock ahead_ = 0;
};

Comparison Compare(const std::string& name, uint32_t workers, ConsistencyPolicy consistency,
                   void (Shard::*send)()) {
  const auto side = [&](uint32_t count) {
    auto shard = std::make_shared<Shard>(count, consistency);
    return [shard, send] {
      for (size_t i = 0; i < kUpdatesAtOnce; ++i) (*shard.*send)();
      return shard->clock();
    };
  };
  return {.name = name + ", " + std::to_string(workers) + " workers, against 4",
          .unit = "updates/s",
          .items = kUpdatesAtOnce,
          .ours = side(workers),
          .floor = side(kFew)};
}

std::vector<Comparison> AllComparisons() {
  std::vector<Comparison> all;
  for (const uint32_t workers : {1000u, 10'000u}) {
    all.push_back(Compare("fold, sequential, in turn", workers, ConsistencyPolicy::Sequential(),
                          &Shard::SendInTurn));
    all.push_back(Compare("fold, bounded, in turn", workers, ConsistencyPolicy::Bounded(2),
                          &Shard::SendInTurn));
    all.push_back(Compare("fold, bounded, catching up", workers,
                          ConsistencyPolicy::Bounded(uint64_t{1} << 40), &Shard::SendCatchingUp));
    all.push_back(Compare("fold, eventual, catching up", workers, ConsistencyPolicy::Eventual(),
                          &Shard::SendCatchingUp));
  }
  return all;
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  return millrace::RunComparisons("The fold of an update, by the number of workers.", argc, argv,
                                  millrace::AllComparisons());
}
