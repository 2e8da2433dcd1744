// Simulated masters that answer calls, one of which at most is not fenced.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "processors/master_processor.h"
#include "tests/simulation/random.h"
#include "tests/simulation/seed_outcome.h"
#include "tests/simulation/simulated_plan.h"

namespace millrace::simulation {

// It may be killed, or be overtaken, before each step. Calls is TaskCalls or NodeCalls; or of a
// master that cuts input-data its InputCutter, which nobody calls.
template <typename Calls>
struct CallingMaster {
  enum class Step { kFence, kRestore, kFold, kCommit, kAnswer };

  Step step = Step::kFence;
  uint64_t fence = 0;
  std::optional<MasterProcessor> processor;
  std::optional<Calls> calls;
  size_t next = 0;      // to be read
  size_t own_end = 0;   // of what it has written itself
  PlanChanges changes;  // not in `plan` yet
};

// What calls masters has one call at a time.
template <typename Command>
struct CallingThread {
  std::optional<Command> wish;  // called for, or to be called for again
  uint64_t call = 0;            // 0: none is under way
  uint64_t fence = 0;           // of the master that has it
};

// `random` and `outcome` outlive it.
template <typename Calls>
class CallingMasters {
 public:
  using Master = CallingMaster<Calls>;
  using Step = typename Master::Step;

  static constexpr size_t kMost = 3;

  CallingMasters(Random& random, SeedOutcome& outcome) : random_(random), outcome_(outcome) {}

  bool empty() const { return masters_.empty(); }
  bool has_room() const { return masters_.size() < kMost; }

  void Begin() {
    ++outcome_.coverage[empty() ? "master begins" : "master begins beside an older one"];
    masters_.push_back(std::make_unique<Master>());
  }
  void KillOne() {
    const size_t which = random_.Below(masters_.size());
    const int step = static_cast<int>(masters_[which]->step);
    ++outcome_.coverage["master killed before step " + std::to_string(step)];
    masters_.erase(masters_.begin() + static_cast<int64_t>(which));
  }
  // Mostly the one that began last. REQUIRES that there is one.
  Master& Draw() {
    return *masters_[random_.Chance(0.75) ? masters_.size() - 1 : random_.Below(masters_.size())];
  }

  void Fence(Master& master) {
    master.fence = ++newest_fence_;
    master.step = Step::kRestore;
  }
  bool IsFenced(const Master& master) const { return master.fence != newest_fence_; }
  // It has noticed that it is fenced, and is gone.
  void End(const Master& master) {
    ++outcome_.coverage["master fenced"];
    std::erase_if(masters_, [&](const auto& each) { return each.get() == &master; });
  }
  // Whether one is, or will be, what is not fenced.
  bool HasNewest() const {
    return std::ranges::any_of(masters_, [this](const auto& master) {
      return !IsFenced(*master) || master->step == Step::kFence;
    });
  }

  // The master that has the thread's call; null: it has gone, or there is no call.
  template <typename Command>
  Master* Of(const CallingThread<Command>& thread) {
    for (const auto& master : masters_) {
      if (thread.call > 0 && master->fence == thread.fence) return master.get();
    }
    return nullptr;
  }
  // The newest that takes calls, or null.
  Master* Newest() {
    Master* newest = nullptr;
    for (const auto& master : masters_) {
      if (master->calls && (newest == nullptr || master->fence > newest->fence)) {
        newest = master.get();
      }
    }
    return newest;
  }

 private:
  Random& random_;
  SeedOutcome& outcome_;
  uint64_t newest_fence_ = 0;
  std::vector<std::unique_ptr<Master>> masters_;
};

}  // namespace millrace::simulation
