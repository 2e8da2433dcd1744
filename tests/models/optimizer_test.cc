#include "models/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "tests/models/random_rows.h"

namespace millrace {
namespace {

using Kind = OptimizerOptions::Kind;

constexpr Kind kAllKinds[] = {Kind::kSgd, Kind::kMomentum, Kind::kAdaGrad, Kind::kAdam};

// One parameter in doubles, by the formulas of the papers.
class Textbook {
 public:
  explicit Textbook(const OptimizerOptions& options) : options_(options) {}

  void Step(int step, double gradient) {
    const double rate = options_.learning_rate / (1 + options_.decay * step);
    const int t = step + 1;
    switch (options_.kind) {
      case Kind::kSgd:
        parameter_ = parameter_ - rate * gradient;
        break;
      case Kind::kMomentum:
        first_ = options_.momentum * first_ + gradient;
        parameter_ = parameter_ - rate * first_;
        break;
      case Kind::kAdaGrad:
        second_ = second_ + gradient * gradient;
        parameter_ = parameter_ - rate * gradient / (std::sqrt(second_) + options_.epsilon);
        break;
      case Kind::kAdam: {
        first_ = options_.beta1 * first_ + (1 - options_.beta1) * gradient;
        second_ = options_.beta2 * second_ + (1 - options_.beta2) * gradient * gradient;
        const double first = first_ / (1 - std::pow(options_.beta1, t));
        const double second = second_ / (1 - std::pow(options_.beta2, t));
        parameter_ = parameter_ - rate * first / (std::sqrt(second) + options_.epsilon);
        break;
      }
    }
  }

  double parameter() const { return parameter_; }

 private:
  OptimizerOptions options_;
  double parameter_ = 0;
  double first_ = 0;
  double second_ = 0;
};

TEST(Optimizer, StepsAsTheTextbooksDo) {
  constexpr size_t kSize = 37;
  for (Kind kind : kAllKinds) {
    for (double decay : {0.0, 0.05}) {
      const OptimizerOptions options{.kind = kind, .learning_rate = 0.1, .decay = decay};
      const auto optimizer = Optimizer::Create(options);
      std::vector<float> parameters(kSize);
      std::vector<float> slots(optimizer->slot_count() * kSize);
      std::vector<Textbook> expected(kSize, Textbook(options));
      std::mt19937 random(1);
      for (int step = 0; step < 50; ++step) {
        const std::vector<float> gradient = RandomFloats(kSize, 1.0f, random);
        optimizer->Step(static_cast<uint64_t>(step), gradient, parameters, slots);
        for (size_t i = 0; i < kSize; ++i) {
          expected[i].Step(step, static_cast<double>(gradient[i]));
          ASSERT_NEAR(parameters[i], expected[i].parameter(), 1e-5)
              << "kind " << static_cast<int>(kind) << ", step " << step;
        }
      }
    }
  }
}

TEST(Optimizer, KeepsAsManySlotsAsItsMethodNeeds) {
  const auto slots = [](Kind kind) { return Optimizer::Create({.kind = kind})->slot_count(); };
  EXPECT_EQ(slots(Kind::kSgd), 0u);
  EXPECT_EQ(slots(Kind::kMomentum), 1u);
  EXPECT_EQ(slots(Kind::kAdaGrad), 1u);
  EXPECT_EQ(slots(Kind::kAdam), 2u);
}

TEST(Optimizer, AZeroGradientLeavesAParameterThatNeverMovedAsItIs) {
  for (Kind kind : kAllKinds) {
    const auto optimizer = Optimizer::Create({.kind = kind});
    std::vector<float> parameters = {0.0f, 0.7f, -3e8f};
    const std::vector<float> before = parameters;
    const std::vector<float> zeros(3);
    std::vector<float> slots(optimizer->slot_count() * 3);
    for (uint64_t step = 0; step < 5; ++step) optimizer->Step(step, zeros, parameters, slots);
    EXPECT_EQ(parameters, before);
  }
}

TEST(Optimizer, AdaGradLeavesAParameterAsItIsWheneverItsGradientIsZero) {
  const auto optimizer = Optimizer::Create({.kind = Kind::kAdaGrad});
  std::vector<float> parameters = {0.7f};
  std::vector<float> slots(1);
  optimizer->Step(0, std::vector<float>{2.0f}, parameters, slots);
  const std::vector<float> moved = parameters;
  optimizer->Step(1, std::vector<float>{0.0f}, parameters, slots);
  EXPECT_EQ(parameters, moved);
}

// What shards are: each steps its own range.
TEST(Optimizer, ARangeOfKeysThatStepsAloneGetsTheSameBytes) {
  constexpr size_t kSize = 53;
  constexpr size_t kCut = 19;
  for (Kind kind : kAllKinds) {
    const auto optimizer = Optimizer::Create({.kind = kind, .decay = 0.1});
    std::vector<float> whole(kSize);
    std::vector<float> whole_slots(optimizer->slot_count() * kSize);
    std::vector<float> low(kCut);
    std::vector<float> low_slots(optimizer->slot_count() * kCut);
    std::vector<float> high(kSize - kCut);
    std::vector<float> high_slots(optimizer->slot_count() * (kSize - kCut));
    std::mt19937 random(2);
    for (uint64_t step = 0; step < 10; ++step) {
      const std::vector<float> gradient = RandomFloats(kSize, 1.0f, random);
      const std::span<const float> view(gradient);
      optimizer->Step(step, view, whole, whole_slots);
      optimizer->Step(step, view.first(kCut), low, low_slots);
      optimizer->Step(step, view.subspan(kCut), high, high_slots);
    }
    low.insert(low.end(), high.begin(), high.end());
    EXPECT_EQ(whole, low) << "kind " << static_cast<int>(kind);
  }
}

}  // namespace
}  // namespace millrace
