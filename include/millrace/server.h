// A server program of one's own: ServerApp with handlers of one's own (docs/parameter-manager.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "millrace/status.h"

namespace millrace::server {

using client::Code;
using client::Status;

// A shard's part of a parameter: some of its numbers.
struct ParamSlice {
  std::span<float> values;
  // The handler's state, slots() spans as long as `values`; zeros before the first put. It is saved
  // with the values: in checkpoints, replicas and snapshots.
  std::span<const std::span<float>> slots;
  uint64_t updates = 0;  // of the parameter before this one: the same in all shards
};

// What updates do to a parameter. Pure, without state of its own, and elementwise: what becomes of
// a number, and of its slots, follows from these, from its sum, from the weight and from `updates`,
// and from nothing else, neither time nor chance nor its neighbours. Then any number of shards and
// any recovery end in the same bytes. It is called by several threads.
//
// The calls work on copies. An error, or an exception, changes nothing of the part; it is counted
// and logged. It must follow from the weight and `updates` alone, which all shards have. A number
// that becomes NaN, infinite or larger than 1e18, or whose slots become NaN or infinite, keeps the
// value and the slots that it had, and is counted: so a handler may refuse it.
class ParamHandler {
 public:
  // What HandleUpdate gets of the updates of a round that name the parameter.
  enum class Combination {
    kSum,   // their sum, in trainer order, and the sum of their weights
    kLast,  // the last of them, in trainer order, and its weight
  };

  virtual ~ParamHandler() = default;
  // Floats of state for each number, kMostSlots at most; always the same.
  virtual size_t slots() const { return 0; }
  virtual Combination combination() const { return Combination::kSum; }
  // The first values; an error: the parameter is as if nobody had put it.
  virtual Status HandlePut(const ParamSlice& slice, std::span<const float> values) const;
  // `weight` > 0; sum / weight is finite.
  virtual Status HandleUpdate(const ParamSlice& slice, std::span<const float> sum,
                              double weight) const = 0;
  // Values as they are stored become those that trainers get; a number that becomes none is given
  // as it is stored. Of the values alone: neither slots nor `updates` are there.
  virtual Status HandleGet(std::span<float> values) const;
  // Where groups of servers exchange deltas (docs/topologies.md): whether this shard of the group
  // is to send its neighbor what it has changed before `sync_interval` updates have come. It is
  // asked after each update. `updates_since`: those that the shard has accepted since its last
  // exchange began. One parameter's yes is enough for all. An exception is a no. The default:
  // false.
  virtual bool SyncNow(uint64_t updates_since) const;
};

inline constexpr size_t kMostSlots = 16;

// The settings of the job, which are flags of the program, and the parameter's multipliers.
struct HandlerSettings {
  double learning_rate = 0;  // times the parameter's multiplier
  double decay = 0;          // of the rate: step t has learning_rate / (1 + decay * t)
  double momentum = 0;
  double beta1 = 0;
  double beta2 = 0;
  double epsilon = 0;
  double l1 = 0;
  double l2 = 0;  // times the parameter's multiplier
};
// Is called for each parameter and shard, and more often; must not return null.
using HandlerFactory = std::function<std::unique_ptr<ParamHandler>(const HandlerSettings&)>;

// From now on trainers may name the handler (ParamSpec::handler). To be called before RunServerApp.
// kInvalidArgument: the name is taken; it has no dot (as "mine.clipped" has), or other characters
// than letters, digits, _, - and dots, or more than 64; there is no factory.
Status RegisterHandler(const std::string& name, HandlerFactory factory);

// main of ServerApp. Returns its exit code.
int RunServerApp(int argc, char** argv);

}  // namespace millrace::server
