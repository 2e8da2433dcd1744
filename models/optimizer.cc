#include "models/optimizer.h"

#include <cmath>

#include "base/check.h"

namespace millrace {
namespace {

double DecayedRate(const OptimizerOptions& options, uint64_t step) {
  return options.learning_rate / (1 + options.decay * static_cast<double>(step));
}

// Checks the spans' sizes and hands their data to the loops, which know that it does not overlap.
class ElementwiseOptimizer : public Optimizer {
 public:
  explicit ElementwiseOptimizer(const OptimizerOptions& options) : options_(options) {}

  void Step(uint64_t step, std::span<const float> gradient, std::span<float> parameters,
            std::span<float> slots) const final {
    MILLRACE_CHECK(gradient.size() == parameters.size());
    MILLRACE_CHECK(slots.size() == slot_count() * parameters.size());
    StepAll(step, parameters.size(), gradient.data(), parameters.data(), slots.data());
  }

 protected:
  const OptimizerOptions& options() const { return options_; }

 private:
  virtual void StepAll(uint64_t step, size_t size, const float* gradient, float* parameters,
                       float* slots) const = 0;

  const OptimizerOptions options_;
};

class Sgd final : public ElementwiseOptimizer {
 public:
  using ElementwiseOptimizer::ElementwiseOptimizer;
  size_t slot_count() const override { return 0; }

 private:
  void StepAll(uint64_t step, size_t size, const float* __restrict gradient,
               float* __restrict parameters, float* /*slots*/) const override {
    const float rate = static_cast<float>(DecayedRate(options(), step));
    for (size_t i = 0; i < size; ++i) parameters[i] -= rate * gradient[i];
  }
};

class Momentum final : public ElementwiseOptimizer {
 public:
  using ElementwiseOptimizer::ElementwiseOptimizer;
  size_t slot_count() const override { return 1; }

 private:
  void StepAll(uint64_t step, size_t size, const float* __restrict gradient,
               float* __restrict parameters, float* __restrict velocity) const override {
    const float rate = static_cast<float>(DecayedRate(options(), step));
    const float momentum = static_cast<float>(options().momentum);
    for (size_t i = 0; i < size; ++i) {
      velocity[i] = momentum * velocity[i] + gradient[i];
      parameters[i] -= rate * velocity[i];
    }
  }
};

class AdaGrad final : public ElementwiseOptimizer {
 public:
  using ElementwiseOptimizer::ElementwiseOptimizer;
  size_t slot_count() const override { return 1; }

 private:
  // A zero gradient leaves the parameter as it is: epsilon > 0 makes the step 0 / epsilon.
  void StepAll(uint64_t step, size_t size, const float* __restrict gradient,
               float* __restrict parameters, float* __restrict squares) const override {
    const float rate = static_cast<float>(DecayedRate(options(), step));
    const float epsilon = static_cast<float>(options().epsilon);
    for (size_t i = 0; i < size; ++i) {
      squares[i] += gradient[i] * gradient[i];
      parameters[i] -= rate * gradient[i] / (std::sqrt(squares[i]) + epsilon);
    }
  }
};

class Adam final : public ElementwiseOptimizer {
 public:
  using ElementwiseOptimizer::ElementwiseOptimizer;
  size_t slot_count() const override { return 2; }

 private:
  void StepAll(uint64_t step, size_t size, const float* __restrict gradient,
               float* __restrict parameters, float* __restrict slots) const override {
    const double t = static_cast<double>(step) + 1;
    const float beta1 = static_cast<float>(options().beta1);
    const float beta2 = static_cast<float>(options().beta2);
    const float new1 = static_cast<float>(1 - options().beta1);
    const float new2 = static_cast<float>(1 - options().beta2);
    const float unbias1 = static_cast<float>(1 / (1 - std::pow(options().beta1, t)));
    const float unbias2 = static_cast<float>(1 / (1 - std::pow(options().beta2, t)));
    const float rate = static_cast<float>(DecayedRate(options(), step));
    const float epsilon = static_cast<float>(options().epsilon);
    float* __restrict first = slots;
    float* __restrict second = slots + size;
    for (size_t i = 0; i < size; ++i) {
      first[i] = beta1 * first[i] + new1 * gradient[i];
      second[i] = beta2 * second[i] + new2 * (gradient[i] * gradient[i]);
      parameters[i] -= rate * (first[i] * unbias1) / (std::sqrt(second[i] * unbias2) + epsilon);
    }
  }
};

}  // namespace

std::unique_ptr<Optimizer> Optimizer::Create(const OptimizerOptions& options) {
  MILLRACE_CHECK(std::isfinite(options.learning_rate) && options.decay >= 0);
  // As floats: a smaller epsilon would be 0, and the first step of a zero gradient 0 / 0.
  MILLRACE_CHECK(static_cast<float>(options.epsilon) > 0);
  switch (options.kind) {
    case OptimizerOptions::Kind::kSgd:
      return std::make_unique<Sgd>(options);
    case OptimizerOptions::Kind::kMomentum:
      return std::make_unique<Momentum>(options);
    case OptimizerOptions::Kind::kAdaGrad:
      return std::make_unique<AdaGrad>(options);
    case OptimizerOptions::Kind::kAdam:
      return std::make_unique<Adam>(options);
  }
  MILLRACE_CHECK(false);
}

}  // namespace millrace
