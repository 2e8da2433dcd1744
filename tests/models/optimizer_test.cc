#include "models/optimizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "tests/models/random_rows.h"

namespace millrace {
namespace {

using Kind = OptimizerOptions::Kind;

constexpr Kind kAllKinds[] = {Kind::kSgd,  Kind::kMomentum, Kind::kAdaGrad,
                              Kind::kAdam, Kind::kFtrl,     Kind::kSum};

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
      case Kind::kFtrl: {  // first_ is z, second_ is n
        const double alpha = options_.learning_rate;
        const double sigma =
            (std::sqrt(second_ + gradient * gradient) - std::sqrt(second_)) / alpha;
        first_ = first_ + gradient - sigma * parameter_;
        second_ = second_ + gradient * gradient;
        const double sign = first_ > 0 ? 1 : -1;
        parameter_ = std::abs(first_) <= options_.l1
                         ? 0
                         : -(first_ - sign * options_.l1) /
                               ((options_.ftrl_beta + std::sqrt(second_)) / alpha + options_.l2);
        break;
      }
      case Kind::kSum:
        parameter_ = parameter_ + gradient;
        break;
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
      if (kind == Kind::kFtrl && decay > 0) continue;
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
  EXPECT_EQ(slots(Kind::kFtrl), 2u);
  EXPECT_EQ(slots(Kind::kSum), 0u);
}

TEST(Optimizer, AZeroGradientLeavesAParameterThatNeverMovedAsItIs) {
  for (Kind kind : kAllKinds) {
    if (kind == Kind::kFtrl) continue;  // whose parameters follow from its state
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
    const double decay = kind == Kind::kFtrl ? 0 : 0.1;
    const auto optimizer = Optimizer::Create({.kind = kind, .decay = decay, .l1 = 0.5, .l2 = 0.1});
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

TEST(Ftrl, PenaltiesAreThoseOfThePaper) {
  const OptimizerOptions options{
      .kind = Kind::kFtrl, .learning_rate = 0.2, .ftrl_beta = 0.7, .l1 = 0.9, .l2 = 1.5};
  const auto optimizer = Optimizer::Create(options);
  std::vector<float> parameters(23);
  std::vector<float> slots(46);
  std::vector<Textbook> expected(23, Textbook(options));
  std::mt19937 random(3);
  size_t zeros = 0;
  for (uint64_t step = 0; step < 60; ++step) {
    const std::vector<float> gradient = RandomFloats(23, 1.0f, random);
    optimizer->Step(step, gradient, parameters, slots);
    for (size_t i = 0; i < 23; ++i) {
      expected[i].Step(static_cast<int>(step), static_cast<double>(gradient[i]));
      ASSERT_NEAR(parameters[i], expected[i].parameter(), 1e-5) << "step " << step;
      zeros += parameters[i] == 0.0f ? 1 : 0;
    }
  }
  EXPECT_GT(zeros, 0u);
}

TEST(Ftrl, TheLargestGradientsThatAServerTakesLeaveItsWeightsFinite) {
  for (const double rate : {1e-6, 0.3, 1e6}) {
    const auto optimizer =
        Optimizer::Create({.kind = Kind::kFtrl, .learning_rate = rate, .ftrl_beta = 1e-6});
    std::vector<float> parameters(3);
    std::vector<float> slots(6);
    for (uint64_t step = 0; step < 1000; ++step) {
      const float flips = step % 2 == 0 ? 1e18f : -1e18f;
      const float tiny = step % 100 == 99 ? 1e18f : 1e-30f;
      optimizer->Step(step, std::vector<float>{1e18f, flips, tiny}, parameters, slots);
      for (float parameter : parameters) ASSERT_TRUE(std::isfinite(parameter)) << step;
    }
  }
}

// y follows 3 of 200 columns; the others are noise.
size_t WeightsThatAreNotZero(double l1, std::vector<float>& parameters) {
  constexpr size_t kColumns = 200;
  const auto optimizer = Optimizer::Create({.kind = Kind::kFtrl, .learning_rate = 0.1, .l1 = l1});
  parameters.assign(kColumns, 0.0f);
  std::vector<float> slots(2 * kColumns);
  std::mt19937 random(4);
  for (uint64_t step = 0; step < 3000; ++step) {
    const std::vector<float> x = RandomFloats(kColumns, 1.0f, random);
    float error = RandomFloats(1, 0.5f, random)[0];
    for (size_t i = 0; i < kColumns; ++i) error += (parameters[i] - (i < 3 ? 1.0f : 0.0f)) * x[i];
    std::vector<float> gradient(kColumns);
    for (size_t i = 0; i < kColumns; ++i) gradient[i] = error * x[i];
    optimizer->Step(step, gradient, parameters, slots);
  }
  return kColumns - static_cast<size_t>(std::ranges::count(parameters, 0.0f));
}

TEST(Ftrl, L1KeepsWhatMattersAndMakesTheRestExactlyZero) {
  std::vector<float> parameters;
  EXPECT_EQ(WeightsThatAreNotZero(0, parameters), 200u);
  const size_t few = WeightsThatAreNotZero(100, parameters);
  EXPECT_GE(few, 3u);
  EXPECT_LE(few, 20u);
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(parameters[i], 1, 0.2);
}

TEST(Ftrl, TheBiasIsNotPenalisedAndWhatIsNotLinearLearnsByAdaGrad) {
  const OptimizerOptions options{.kind = Kind::kFtrl, .learning_rate = 0.2, .l1 = 0.9, .l2 = 1.5};
  OptimizerOptions bias = options;
  bias.l1 = bias.l2 = 0;
  OptimizerOptions deep = options;
  deep.kind = Kind::kAdaGrad;
  const auto optimizer = Optimizer::Create(options);
  const ParameterParts parts = {.penalised_end = 1, .linear_end = 2};
  std::vector<Textbook> expected = {Textbook(options), Textbook(bias), Textbook(deep),
                                    Textbook(deep)};
  std::vector<float> parameters(4);
  // Squares of all four, z of the first two.
  EXPECT_EQ(optimizer->slot_floats(4, parts), 6u);
  std::vector<float> slots(6);
  std::mt19937 random(5);
  for (int step = 0; step < 20; ++step) {
    const std::vector<float> gradient = RandomFloats(4, 1.0f, random);
    optimizer->Step(static_cast<uint64_t>(step), gradient, parameters, slots, parts);
    for (size_t i = 0; i < 4; ++i) {
      expected[i].Step(step, static_cast<double>(gradient[i]));
      ASSERT_NEAR(parameters[i], expected[i].parameter(), 1e-5) << "parameter " << i;
    }
  }
}

// ---- penalties of parameters that miss steps ----

constexpr double kL2 = 0.02;

// The parameter 0.7, with the squares that AdaGrad has then, after `steps` steps from `first` on
// whose gradient is the penalty alone: in doubles, step by step.
double AfterPenaltiesAlone(const OptimizerOptions& options, double squares, int first, int steps) {
  double parameter = 0.7;
  for (int step = first; step < first + steps; ++step) {
    const double rate = options.learning_rate / (1 + options.decay * step);
    const double gradient = kL2 * parameter;
    squares += gradient * gradient;
    const double slope = options.kind == Kind::kSgd ? 1 : std::sqrt(squares) + options.epsilon;
    parameter -= rate * gradient / slope;
  }
  return parameter;
}

float CaughtUp(const OptimizerOptions& options, float squares, int first, int steps) {
  const auto optimizer = Optimizer::Create(options);
  double missed = 0;
  for (int step = first; step < first + steps; ++step) {
    missed += optimizer->Shrinkage(static_cast<uint64_t>(step), kL2);
  }
  // More than a vector of them, and the last is the one.
  std::vector<float> parameters(7, 0.7f);
  const std::vector<float> slots(7 * optimizer->slot_count(), squares);
  optimizer->CatchUp(missed, parameters, slots);
  for (const float parameter : parameters) EXPECT_EQ(parameter, parameters.back());
  return parameters.back();
}

TEST(Optimizer, SgdCatchesUpWithMissedPenaltiesAsADenseModelHasThem) {
  for (const double rate : {0.01, 0.3, 20.0}) {
    for (const double decay : {0.0, 0.05}) {
      for (const int steps : {1, 2, 100, 5000}) {
        const OptimizerOptions options{.kind = Kind::kSgd, .learning_rate = rate, .decay = decay};
        const double expected = AfterPenaltiesAlone(options, 0, 3, steps);
        EXPECT_NEAR(CaughtUp(options, 0, 3, steps), expected, 4e-7 * expected + 1e-12)
            << rate << ", " << decay << ", " << steps;
      }
    }
  }
}

// A dense model's penalties add to the squares, too, which those that were missed do not.
TEST(Optimizer, AdaGradCatchesUpWithMissedPenaltiesNearlyAsADenseModelHasThem) {
  for (const float squares : {0.5f, 5.0f, 50.0f}) {
    for (const double decay : {0.0, 0.05}) {
      for (const int steps : {1, 10, 300}) {
        const OptimizerOptions options{
            .kind = Kind::kAdaGrad, .learning_rate = 0.1, .decay = decay};
        const double expected = AfterPenaltiesAlone(options, squares, 3, steps);
        EXPECT_NEAR(CaughtUp(options, squares, 3, steps), expected, 0.02)
            << squares << ", " << decay << ", " << steps;
      }
    }
  }
}

TEST(Optimizer, TheOthersMissNoPenalties) {
  for (const Kind kind : {Kind::kMomentum, Kind::kAdam, Kind::kFtrl}) {
    EXPECT_EQ(Optimizer::Create({.kind = kind})->Shrinkage(3, kL2), 0);
  }
}

}  // namespace
}  // namespace millrace
