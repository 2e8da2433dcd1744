#include "models/parameter_handler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "base/check.h"

namespace millrace {
namespace {

using Kind = OptimizerOptions::Kind;

class Assign final : public ParameterHandler {
 public:
  Combination combination() const override { return Combination::kLast; }
  void HandleUpdate(const ParameterSlice& slice, std::span<const float> last,
                    double /*weight*/) const override {
    std::ranges::copy(last, slice.values.begin());
  }
};

class Add final : public ParameterHandler {
 public:
  void HandleUpdate(const ParameterSlice& slice, std::span<const float> sum,
                    double /*weight*/) const override {
    for (size_t i = 0; i < sum.size(); ++i) slice.values[i] += sum[i];
  }
};

class StepByMean final : public ParameterHandler {
 public:
  explicit StepByMean(const HandlerSettings& settings)
      : options_(OptionsOf(settings)),
        l2_(options_.kind == Kind::kFtrl
                ? 0.0f
                : static_cast<float>(settings.l2 * settings.decay_multiplier)),
        optimizer_(Optimizer::Create(options_)) {}

  size_t slot_count() const override { return optimizer_->slot_count(); }

  // FTRL's values follow from its state: it gets the one that has these values without a gradient.
  void HandlePut(const ParameterSlice& slice, std::span<const float> values) const override {
    ParameterHandler::HandlePut(slice, values);
    if (options_.kind != Kind::kFtrl) return;
    const auto shrink =
        static_cast<float>(options_.ftrl_beta / options_.learning_rate + options_.l2);
    const auto l1 = static_cast<float>(options_.l1);
    const std::span<float> z = slice.slots[1];
    for (size_t i = 0; i < values.size(); ++i) {
      z[i] = values[i] == 0 ? 0 : -values[i] * shrink - std::copysign(l1, values[i]);
    }
  }

  void HandleUpdate(const ParameterSlice& slice, std::span<const float> sum,
                    double weight) const override {
    const auto scale = static_cast<float>(1.0 / weight);
    const size_t size = sum.size();
    std::vector<float> gradient(size);
    for (size_t i = 0; i < size; ++i) gradient[i] = sum[i] * scale;
    if (l2_ > 0) {
      for (size_t i = 0; i < size; ++i) gradient[i] += l2_ * slice.values[i];
    }
    // The optimizer has its slots one behind the other; a shard has those of all its keys so.
    std::vector<float> slots;
    for (const std::span<float> slot : slice.slots)
      slots.insert(slots.end(), slot.begin(), slot.end());
    optimizer_->Step(slice.updates, gradient, slice.values, slots);
    for (size_t s = 0; s < slice.slots.size(); ++s) {
      std::copy_n(slots.begin() + static_cast<ptrdiff_t>(s * size), size, slice.slots[s].begin());
    }
  }

 private:
  static OptimizerOptions OptionsOf(const HandlerSettings& settings) {
    OptimizerOptions options = settings.optimizer;
    options.learning_rate *= settings.learning_rate_multiplier;
    options.l2 = settings.l2 * settings.decay_multiplier;
    return options;
  }

  const OptimizerOptions options_;
  const float l2_;
  const std::unique_ptr<const Optimizer> optimizer_;
};

struct Named {
  std::string_view name;
  std::optional<Kind> optimizer{};
};
constexpr std::array<Named, 7> kHandlers = {{{"sgd", Kind::kSgd},
                                             {"momentum", Kind::kMomentum},
                                             {"adagrad", Kind::kAdaGrad},
                                             {"adam", Kind::kAdam},
                                             {"ftrl", Kind::kFtrl},
                                             {"assign"},
                                             {"add"}}};

}  // namespace

void ParameterHandler::HandlePut(const ParameterSlice& slice, std::span<const float> values) const {
  MILLRACE_CHECK(values.size() == slice.values.size());
  std::ranges::copy(values, slice.values.begin());
}

std::unique_ptr<ParameterHandler> MakeParameterHandler(std::string_view name,
                                                       const HandlerSettings& settings) {
  if (name.empty()) return std::make_unique<StepByMean>(settings);
  if (name == "assign") return std::make_unique<Assign>();
  if (name == "add") return std::make_unique<Add>();
  for (const Named& handler : kHandlers) {
    if (handler.name != name) continue;
    HandlerSettings own = settings;
    own.optimizer.kind = *handler.optimizer;
    return std::make_unique<StepByMean>(own);
  }
  return nullptr;
}

bool IsParameterHandler(std::string_view name) {
  return name.empty() || std::ranges::any_of(kHandlers, [name](const Named& handler) {
           return handler.name == name;
         });
}

std::string ParameterHandlerNames() {
  std::string names;
  for (const Named& handler : kHandlers) {
    if (!names.empty()) names += ", ";
    names += handler.name;
  }
  return names;
}

}  // namespace millrace
