#include "models/parameter_handler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "base/check.h"

namespace millrace {
namespace {

using Kind = OptimizerOptions::Kind;

class Assign final : public ParameterHandler {
 public:
  Combination combination() const override { return Combination::kLast; }
  Status HandleUpdate(const ParameterSlice& slice, std::span<const float> last,
                      double /*weight*/) const override {
    std::ranges::copy(last, slice.values.begin());
    return absl::OkStatus();
  }
};

class Add final : public ParameterHandler {
 public:
  Status HandleUpdate(const ParameterSlice& slice, std::span<const float> sum,
                      double /*weight*/) const override {
    for (size_t i = 0; i < sum.size(); ++i) slice.values[i] += sum[i];
    return absl::OkStatus();
  }
};

class StepByMean final : public ParameterHandler {
 public:
  explicit StepByMean(const HandlerSettings& settings)
      : options_(OptionsOf(settings)),
        l2_(options_.kind == Kind::kFtrl
                ? 0.0f
                : static_cast<float>(settings.l2 * settings.decay_multiplier)),
        optimizer_(Optimizer::Create(options_)) {
    MILLRACE_CHECK(optimizer_->slot_count() <= kMostSlots);
  }

  size_t slot_count() const override { return optimizer_->slot_count(); }

  // FTRL's values follow from its state: it gets the one that has these values without a gradient.
  Status HandlePut(const ParameterSlice& slice, std::span<const float> values) const override {
    Status put = ParameterHandler::HandlePut(slice, values);
    if (options_.kind != Kind::kFtrl) return put;
    const auto shrink =
        static_cast<float>(options_.ftrl_beta / options_.learning_rate + options_.l2);
    const auto l1 = static_cast<float>(options_.l1);
    const std::span<float> z = slice.slots[1];
    for (size_t i = 0; i < values.size(); ++i) {
      z[i] = values[i] == 0 ? 0 : -values[i] * shrink - std::copysign(l1, values[i]);
    }
    return put;
  }

  Status HandleUpdate(const ParameterSlice& slice, std::span<const float> sum,
                      double weight) const override {
    const auto scale = static_cast<float>(1.0 / weight);
    // In parts that need no memory of their own: a table's step calls this for each of its rows.
    constexpr size_t kPart = 1024;
    std::array<float, kPart> gradient;
    std::array<float, kMostSlots * kPart> slots;
    for (size_t begin = 0; begin < sum.size(); begin += kPart) {
      const size_t size = std::min(kPart, sum.size() - begin);
      const std::span<float> values = slice.values.subspan(begin, size);
      for (size_t i = 0; i < size; ++i) gradient[i] = sum[begin + i] * scale;
      if (l2_ > 0) {
        for (size_t i = 0; i < size; ++i) gradient[i] += l2_ * values[i];
      }
      // The optimizer has its slots one behind the other; a shard has those of all its keys so.
      for (size_t s = 0; s < slice.slots.size(); ++s) {
        std::copy_n(slice.slots[s].data() + begin, size, slots.data() + s * size);
      }
      optimizer_->Step(slice.updates, std::span(gradient).first(size), values,
                       std::span(slots).first(slice.slots.size() * size));
      for (size_t s = 0; s < slice.slots.size(); ++s) {
        std::copy_n(slots.data() + s * size, size, slice.slots[s].data() + begin);
      }
    }
    return absl::OkStatus();
  }

 private:
  static constexpr size_t kMostSlots = 2;  // of an optimizer

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

constexpr size_t kMostNameBytes = 64;

struct Added {
  std::string name;
  ParameterHandlerFactory factory;
};

// A program has the same ones for as long as it runs.
std::vector<Added>& AddedHandlers() {
  static std::vector<Added> added;
  return added;
}

const Added* FindAdded(std::string_view name) {
  const auto found = std::ranges::find(AddedHandlers(), name, &Added::name);
  return found != AddedHandlers().end() ? &*found : nullptr;
}

}  // namespace

Status ParameterHandler::HandlePut(const ParameterSlice& slice,
                                   std::span<const float> values) const {
  MILLRACE_CHECK(values.size() == slice.values.size());
  std::ranges::copy(values, slice.values.begin());
  return absl::OkStatus();
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
  const Added* const added = FindAdded(name);
  return added != nullptr ? added->factory(settings) : nullptr;
}

bool IsParameterHandler(std::string_view name) {
  return name.empty() || FindAdded(name) != nullptr ||
         std::ranges::any_of(kHandlers,
                             [name](const Named& handler) { return handler.name == name; });
}

std::string ParameterHandlerNames() {
  std::string names;
  for (const Named& handler : kHandlers) {
    if (!names.empty()) names += ", ";
    names += handler.name;
  }
  for (const Added& added : AddedHandlers()) names += ", " + added.name;
  return names;
}

Status AddParameterHandler(const std::string& name, ParameterHandlerFactory factory) {
  if (IsParameterHandler(name)) {
    return absl::InvalidArgumentError("the handler " + name + ": there is one of this name");
  }
  if (!MayBeAdded(name)) {
    return absl::InvalidArgumentError("the handler " + name +
                                      ": give it a name with a dot in it, such as mine." +
                                      (name.find('.') == std::string::npos ? name : "clipped") +
                                      "; letters, digits, _ and - stand beside the dots, and " +
                                      std::to_string(kMostNameBytes) + " at most");
  }
  AddedHandlers().push_back({name, std::move(factory)});
  return absl::OkStatus();
}

bool MayBeAdded(std::string_view name) {
  const auto is_word = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  };
  if (name.size() > kMostNameBytes || name.find('.') == std::string_view::npos) return false;
  char last = '.';
  for (const char c : name) {
    if (!is_word(c) && (c != '.' || last == '.')) return false;
    last = c;
  }
  return last != '.';
}

}  // namespace millrace
