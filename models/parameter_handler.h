// What a shard does with the parameters of a trainer of one's own (Training.model EXTERNAL).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "models/optimizer.h"

namespace millrace {

// A shard's part of a parameter: some of its floats, which lie in the shard's range of keys.
struct ParameterSlice {
  std::span<float> values;
  // The handler's state, slot_count() spans as long as `values`; zeros before the first put.
  std::span<const std::span<float>> slots;
  uint64_t updates = 0;  // that the handler has made before this one
};

// How updates become a step. Pure and elementwise: the result is a function of the arguments and
// the same for a value whatever part of its parameter is in the shard, so that any number of
// shards, and any recovery, ends in the same bytes. Immutable.
class ParameterHandler {
 public:
  // What the handler gets of the updates of a round that name the parameter.
  enum class Combination {
    kSum,   // their sum, in worker order, and the sum of their weights
    kLast,  // the last of them, in worker order
  };

  virtual ~ParameterHandler() = default;
  virtual size_t slot_count() const { return 0; }
  virtual Combination combination() const { return Combination::kSum; }
  // Somebody else's code, which may fail and make numbers that are none: the caller looks.
  virtual bool is_foreign() const { return false; }
  // The first values of the parameter.
  virtual Status HandlePut(const ParameterSlice& slice, std::span<const float> values) const;
  // `sum` and `weight` > 0: what combination() says. The mean is finite: sum * float(1 / weight).
  virtual Status HandleUpdate(const ParameterSlice& slice, std::span<const float> sum,
                              double weight) const = 0;
  // Values as they are stored become those that trainers read. Of the values alone, since answers
  // at the previous clock have no others. Called only if is_foreign().
  virtual Status HandleGet(std::span<float> /*values*/) const { return absl::OkStatus(); }
  // Whether a group of servers that exchanges deltas with another is to do so before it has to: so
  // many updates were accepted since it did.
  virtual bool SyncNow(uint64_t /*updates_since*/) const { return false; }
};

// What a handler is made of: the job's settings, and the parameter's multipliers.
struct HandlerSettings {
  OptimizerOptions optimizer{};  // of the job; the kind is the handler's, if it has a name
  double l2 = 0;                 // of the job
  double learning_rate_multiplier = 1;
  double decay_multiplier = 1;  // of l2
};

// sgd, momentum, adagrad, adam and ftrl step by the mean gradient, as the optimizers of these names
// do (models/optimizer.h), each parameter with a step count of its own; add adds up what it is
// given, whatever the weight; assign replaces by it. Empty: the optimizer that `settings` names.
// Null: there is no such handler.
std::unique_ptr<ParameterHandler> MakeParameterHandler(std::string_view name,
                                                       const HandlerSettings& settings);
// Whether MakeParameterHandler knows the name.
bool IsParameterHandler(std::string_view name);
// For error messages, in a fixed order: "sgd, momentum, ...", and then those that were added.
std::string ParameterHandlerNames();

// Never null.
using ParameterHandlerFactory =
    std::function<std::unique_ptr<ParameterHandler>(const HandlerSettings& settings)>;
// From now on MakeParameterHandler knows this one, too. To be called before there are other
// threads. InvalidArgument: the name is taken, or none that may be added.
Status AddParameterHandler(const std::string& name, ParameterHandlerFactory factory);
// Whether the name is one that may be added: letters, digits, _ and - with dots between, at most
// 64. So no name of a later version is one that somebody has added, and who has misspelt one of
// those above learns it at once.
bool MayBeAdded(std::string_view name);

}  // namespace millrace
