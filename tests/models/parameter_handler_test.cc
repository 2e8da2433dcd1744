#include "models/parameter_handler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::Pointwise;

MATCHER_P(IsWithin, most, "") { return std::abs(std::get<0>(arg) - std::get<1>(arg)) <= most; }

// A parameter as a shard has it: its slots do not stand next to each other.
class TestParameter {
 public:
  TestParameter(const std::string& handler, const HandlerSettings& settings, size_t size)
      : handler_(MakeParameterHandler(handler, settings)), values_(size), state_(4 * size) {
    for (size_t slot = 0; slot < handler_->slot_count(); ++slot) {
      slots_.push_back(std::span(state_).subspan(2 * slot * size, size));
    }
  }

  void Put(const std::vector<float>& values) {
    ASSERT_TRUE(handler_->HandlePut(Slice(), values).ok());
  }
  void Update(const std::vector<float>& sum, double weight) {
    ASSERT_TRUE(handler_->HandleUpdate(Slice(), sum, weight).ok());
    ++updates_;
  }
  const std::vector<float>& values() const { return values_; }

 private:
  ParameterSlice Slice() { return {.values = values_, .slots = slots_, .updates = updates_}; }

  std::unique_ptr<ParameterHandler> handler_;
  std::vector<float> values_;
  std::vector<float> state_;
  std::vector<std::span<float>> slots_;
  uint64_t updates_ = 0;
};

HandlerSettings Rate(double rate) {
  HandlerSettings settings;
  settings.optimizer.learning_rate = rate;
  return settings;
}

TEST(ParameterHandlerTest, KnowsThoseOfTheDocumentationAndNoOthers) {
  EXPECT_EQ(ParameterHandlerNames(), "sgd, momentum, adagrad, adam, ftrl, assign, add");
  for (const char* name : {"", "sgd", "momentum", "adagrad", "adam", "ftrl", "assign", "add"}) {
    EXPECT_TRUE(IsParameterHandler(name));
    EXPECT_NE(MakeParameterHandler(name, {}), nullptr) << name;
  }
  for (const char* name : {"SGD", "rmsprop", "sg", " "}) {
    EXPECT_FALSE(IsParameterHandler(name));
    EXPECT_EQ(MakeParameterHandler(name, {}), nullptr) << name;
  }
}

TEST(ParameterHandlerTest, SgdStepsByTheMean) {
  TestParameter parameter("sgd", Rate(0.5), 2);
  parameter.Put({1, 2});
  parameter.Update({8, -4}, 4);
  EXPECT_THAT(parameter.values(), ElementsAre(0, 2.5));
}

TEST(ParameterHandlerTest, WithoutANameItIsTheJobsOptimizer) {
  HandlerSettings settings = Rate(0.5);
  settings.optimizer.kind = OptimizerOptions::Kind::kMomentum;
  settings.optimizer.momentum = 0.5;
  TestParameter parameter("", settings, 1);
  parameter.Update({2}, 1);
  parameter.Update({0}, 1);
  EXPECT_THAT(parameter.values(), ElementsAre(-1.5));
}

TEST(ParameterHandlerTest, ANameCountsMoreThanTheJobsOptimizer) {
  HandlerSettings settings = Rate(0.5);
  settings.optimizer.kind = OptimizerOptions::Kind::kAdam;
  TestParameter parameter("sgd", settings, 1);
  parameter.Update({2}, 1);
  EXPECT_THAT(parameter.values(), ElementsAre(-1));
}

TEST(ParameterHandlerTest, MultipliersChangeTheRateAndTheDecay) {
  HandlerSettings settings = Rate(0.5);
  settings.l2 = 0.25;
  settings.learning_rate_multiplier = 2;
  settings.decay_multiplier = 4;
  TestParameter parameter("sgd", settings, 1);
  parameter.Put({3});
  parameter.Update({1}, 1);
  EXPECT_THAT(parameter.values(), ElementsAre(3 - 1 * (1 + 1 * 3)));
  settings.learning_rate_multiplier = 0;
  TestParameter frozen("sgd", settings, 1);
  frozen.Put({3});
  frozen.Update({1}, 1);
  EXPECT_THAT(frozen.values(), ElementsAre(3));
}

// By the formulas, in doubles.
TEST(ParameterHandlerTest, AdamHasItsOwnSlotsAndStepCount) {
  TestParameter parameter("adam", Rate(0.1), 2);
  parameter.Put({1, -1});
  double m[2] = {};
  double v[2] = {};
  double w[2] = {1, -1};
  for (int t = 1; t <= 20; ++t) {
    const std::vector<float> sum = {std::sin(static_cast<float>(t)), 3.0f};
    parameter.Update(sum, 2);
    for (int i = 0; i < 2; ++i) {
      const double g = static_cast<double>(sum[i]) / 2;
      m[i] = 0.9 * m[i] + 0.1 * g;
      v[i] = 0.999 * v[i] + 0.001 * g * g;
      w[i] -= 0.1 * (m[i] / (1 - std::pow(0.9, t))) /
              (std::sqrt(v[i] / (1 - std::pow(0.999, t))) + 1e-8);
    }
    EXPECT_THAT(parameter.values(), Pointwise(IsWithin(1e-5), std::vector<double>(w, w + 2)));
  }
}

TEST(ParameterHandlerTest, FtrlGoesOnFromWhatWasPut) {
  HandlerSettings settings = Rate(0.5);
  settings.l2 = 0.5;
  settings.optimizer.l1 = 0.25;
  TestParameter parameter("ftrl", settings, 3);
  parameter.Put({1, -2, 0});
  EXPECT_THAT(parameter.values(), ElementsAre(1, -2, 0));
  parameter.Update({0, 0, 0}, 1);
  EXPECT_THAT(parameter.values(), Pointwise(IsWithin(1e-6), std::vector<double>{1, -2, 0}))
      << "without a gradient nothing moves";
  // One step of the paper's algorithm 1 from there.
  parameter.Update({3, 0, 0.125}, 1);
  const double z = -(1 * (1 / 0.5 + 0.5) + 0.25) + 3 - 3 / 0.5 * 1;
  const double moved = -(z + 0.25) / ((1 + 3) / 0.5 + 0.5);
  EXPECT_THAT(parameter.values(), Pointwise(IsWithin(1e-6), std::vector<double>{moved, -2, 0}));
}

TEST(ParameterHandlerTest, AssignReplacesAndAddAddsWhateverTheWeight) {
  TestParameter assigned("assign", Rate(0.5), 2);
  assigned.Put({1, 2});
  assigned.Update({8, -4}, 4);
  EXPECT_THAT(assigned.values(), ElementsAre(8, -4));
  EXPECT_EQ(MakeParameterHandler("assign", {})->combination(),
            ParameterHandler::Combination::kLast);
  TestParameter added("add", Rate(0.5), 2);
  added.Put({1, 2});
  added.Update({8, -4}, 4);
  EXPECT_THAT(added.values(), ElementsAre(9, -2));
}

}  // namespace
}  // namespace millrace
