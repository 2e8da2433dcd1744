#include "models/optimizer.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "models/lanes.h"

namespace millrace {
namespace {

double DecayedRate(const OptimizerOptions& options, uint64_t step) {
  return options.learning_rate / (1 + options.decay * static_cast<double>(step));
}

// -log(1 - x), 0 <= x < 1, by its series. Not libm's, whose last bit differs between processors.
double NegativeLogOfRest(double x) {
  MILLRACE_CHECK(x >= 0 && x < 1);
  double sum = 0;
  double power = x;
  for (int k = 1; power > sum * 1e-17; ++k) {
    sum += power / k;
    power *= x;
  }
  return sum;
}

// Checks the spans' sizes and hands their data to the loops, which know that it does not overlap.
class ElementwiseOptimizer : public Optimizer {
 public:
  explicit ElementwiseOptimizer(const OptimizerOptions& options) : options_(options) {}

  void Step(uint64_t step, std::span<const float> gradient, std::span<float> parameters,
            std::span<float> slots, const ParameterParts& /*parts*/) const final {
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

  // A step multiplies by 1 - rate * l2.
  double Shrinkage(uint64_t step, double l2) const override {
    return NegativeLogOfRest(DecayedRate(options(), step) * l2);
  }
  void CatchUp(double missed, std::span<float> parameters,
               std::span<const float> /*slots*/) const override {
    const float factor = ExpOfNegative<4>(Lanes<4>{} - static_cast<float>(missed))[0];
    for (float& parameter : parameters) parameter *= factor;
  }

 private:
  void StepAll(uint64_t step, size_t size, const float* __restrict gradient,
               float* __restrict parameters, float* /*slots*/) const override {
    const float rate = static_cast<float>(DecayedRate(options(), step));
    for (size_t i = 0; i < size; ++i) parameters[i] -= rate * gradient[i];
  }
};

class Sum final : public ElementwiseOptimizer {
 public:
  using ElementwiseOptimizer::ElementwiseOptimizer;
  size_t slot_count() const override { return 0; }

 private:
  void StepAll(uint64_t /*step*/, size_t size, const float* __restrict change,
               float* __restrict parameters, float* /*slots*/) const override {
    for (size_t i = 0; i < size; ++i) parameters[i] += change[i];
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

// A zero gradient leaves the parameter as it is: epsilon > 0 makes the step 0 / epsilon.
void AdaGradStep(float rate, float epsilon, size_t size, const float* __restrict gradient,
                 float* __restrict parameters, float* __restrict squares) {
  for (size_t i = 0; i < size; ++i) {
    squares[i] += gradient[i] * gradient[i];
    parameters[i] -= rate * gradient[i] / (std::sqrt(squares[i]) + epsilon);
  }
}

class AdaGrad final : public ElementwiseOptimizer {
 public:
  using ElementwiseOptimizer::ElementwiseOptimizer;
  size_t slot_count() const override { return 1; }

  // A step multiplies by about exp(-rate * l2 / (root of the squares + epsilon)).
  double Shrinkage(uint64_t step, double l2) const override {
    return DecayedRate(options(), step) * l2;
  }
  void CatchUp(double missed, std::span<float> parameters,
               std::span<const float> slots) const override {
    MILLRACE_CHECK(slots.size() == parameters.size());
    constexpr size_t kLanes = 4;
    const auto less = static_cast<float>(missed);
    const auto epsilon = static_cast<float>(options().epsilon);
    for (size_t i = 0; i < parameters.size(); i += kLanes) {
      const size_t count = std::min(kLanes, parameters.size() - i);
      Lanes<kLanes> exponents = {};
      for (size_t k = 0; k < count; ++k) {
        exponents[k] = -less / (std::sqrt(slots[i + k]) + epsilon);
      }
      const Lanes<kLanes> factors = ExpOfNegative<kLanes>(exponents);
      for (size_t k = 0; k < count; ++k) parameters[i + k] *= factors[k];
    }
  }

 private:
  void StepAll(uint64_t step, size_t size, const float* gradient, float* parameters,
               float* squares) const override {
    AdaGradStep(static_cast<float>(DecayedRate(options(), step)),
                static_cast<float>(options().epsilon), size, gradient, parameters, squares);
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

class Ftrl final : public Optimizer {
 public:
  explicit Ftrl(const OptimizerOptions& options) : options_(options) {
    // A rate of no more than rate / beta: the first step divides by it, and a float's square may
    // be 0. The rate of a weight follows its squares, which `decay` would contradict.
    MILLRACE_CHECK(static_cast<float>(options.ftrl_beta / options.learning_rate) > 0);
    MILLRACE_CHECK(options.decay == 0 && options.l1 >= 0 && options.l2 >= 0);
  }
  size_t slot_count() const override { return 2; }
  size_t slot_floats(size_t size, const ParameterParts& parts) const override {
    return size + std::min(size, parts.linear_end);
  }

  void Step(uint64_t /*step*/, std::span<const float> gradient, std::span<float> parameters,
            std::span<float> slots, const ParameterParts& parts) const override {
    const size_t size = parameters.size();
    MILLRACE_CHECK(gradient.size() == size);
    MILLRACE_CHECK(slots.size() >= slot_floats(size, parts));
    const size_t linear = std::min(size, parts.linear_end);
    const size_t penalised = std::min(linear, parts.penalised_end);
    const float l1 = static_cast<float>(options_.l1);
    const float l2 = static_cast<float>(options_.l2);
    float* const squares = slots.data();
    float* const z = squares + size;
    StepLinear(l1, l2, penalised, gradient.data(), parameters.data(), squares, z);
    StepLinear(0, 0, linear - penalised, gradient.data() + penalised, parameters.data() + penalised,
               squares + penalised, z + penalised);
    AdaGradStep(static_cast<float>(options_.learning_rate), static_cast<float>(options_.epsilon),
                size - linear, gradient.data() + linear, parameters.data() + linear,
                squares + linear);
  }

 private:
  // The differences of the roots add up to the last root, whatever was rounded on the way; as one
  // fraction they would not. Infinite squares would have no such difference.
  void StepLinear(float l1, float l2, size_t size, const float* __restrict gradient,
                  float* __restrict parameters, float* __restrict squares,
                  float* __restrict z) const {
    const float rate = static_cast<float>(options_.learning_rate);
    const float beta = static_cast<float>(options_.ftrl_beta);
    constexpr float kMost = std::numeric_limits<float>::max();
    for (size_t i = 0; i < size; ++i) {
      const float before = std::sqrt(squares[i]);
      squares[i] = std::min(squares[i] + gradient[i] * gradient[i], kMost);
      const float after = std::sqrt(squares[i]);
      z[i] += gradient[i] - (after - before) / rate * parameters[i];
      const float beyond = std::max(std::abs(z[i]) - l1, 0.0f);
      // (Not -0, where z is within l1.)
      parameters[i] = -std::copysign(beyond, z[i]) / ((beta + after) / rate + l2) + 0.0f;
    }
  }

  const OptimizerOptions options_;
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
    case OptimizerOptions::Kind::kFtrl:
      return std::make_unique<Ftrl>(options);
    case OptimizerOptions::Kind::kSum:
      return std::make_unique<Sum>(options);
  }
  MILLRACE_CHECK(false);
}

}  // namespace millrace
