// Network and NetworkPass against loops over single units: in doubles for what they compute, in
// floats for the order in which they add.
#include "models/network.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "models/network_pass.h"
#include "tests/models/random_rows.h"

namespace millrace {
namespace {

constexpr size_t kBlock = NetworkPass::kBlockRows;

struct Shape {
  size_t inputs;
  std::vector<size_t> units;
};

// Sizes around those of vectors and tiles, and some at random.
std::vector<Shape> Shapes(std::mt19937& random) {
  std::vector<Shape> shapes = {{1, {1}},      {3, {15}},           {16, {16}},
                               {17, {17, 1}}, {111, {64, 32}},     {40, {100}},
                               {5, {33}},     {7, {8, 4, 12, 20}}, {24, {48, 9, 31}}};
  for (int i = 0; i < 12; ++i) {
    Shape shape{1 + random() % 50, {}};
    for (size_t layers = 1 + random() % 3; layers > 0; --layers) {
      shape.units.push_back(1 + random() % 50);
    }
    shapes.push_back(shape);
  }
  return shapes;
}

// A batch, and what comes of it.
struct Batch {
  size_t inputs = 0;
  std::vector<float> rows;    // their inputs
  std::vector<float> slopes;  // d loss / d output, by row

  size_t size() const { return slopes.size(); }
};

template <class Number>
struct Result {
  std::vector<Number> outputs;
  std::vector<Number> sums;          // d loss / d parameter
  std::vector<Number> input_slopes;  // by row
};

Batch RandomBatch(const Shape& shape, size_t rows, std::mt19937& random) {
  return {shape.inputs, RandomFloats(rows * shape.inputs, 1.0f, random),
          RandomFloats(rows, 1.0f, random)};
}

// Row by row, unit by unit. All sums start with what they are added to and grow in the order of
// rows, inputs or units.
template <class Number>
Result<Number> ByTheBook(const Shape& shape, const std::vector<Number>& parameters,
                         const Batch& batch, std::vector<Number> sums) {
  Result<Number> result;
  for (size_t r = 0; r < batch.size(); ++r) {
    std::vector<std::vector<Number>> units(1);
    for (size_t i = 0; i < shape.inputs; ++i) {
      units[0].push_back(static_cast<Number>(batch.rows[r * shape.inputs + i]));
    }
    std::vector<size_t> begins;  // of the layers' parameters
    size_t begin = 0;
    for (const size_t count : shape.units) {
      const std::vector<Number>& below = units.back();
      std::vector<Number> above;
      for (size_t unit = 0; unit < count; ++unit) {
        Number z = parameters[begin + below.size() * count + unit];
        for (size_t i = 0; i < below.size(); ++i) {
          z += below[i] * parameters[begin + i * count + unit];
        }
        above.push_back(std::max(z, Number{0}));
      }
      begins.push_back(begin);
      begin += (below.size() + 1) * count;
      units.push_back(above);
    }
    Number y = 0;
    std::vector<Number> slopes;
    const Number slope = static_cast<Number>(batch.slopes[r]);
    for (size_t unit = 0; unit < units.back().size(); ++unit) {
      y += units.back()[unit] * parameters[begin + unit];
      sums[begin + unit] += slope * units.back()[unit];
      slopes.push_back(slope * parameters[begin + unit]);
    }
    result.outputs.push_back(y);
    for (size_t l = shape.units.size(); l-- > 0;) {
      const size_t count = shape.units[l];
      for (size_t unit = 0; unit < count; ++unit) {
        if (!(units[l + 1][unit] > 0)) slopes[unit] = 0;
      }
      std::vector<Number> below(units[l].size());
      for (size_t i = 0; i < below.size(); ++i) {
        for (size_t unit = 0; unit < count; ++unit) {
          sums[begins[l] + i * count + unit] += units[l][i] * slopes[unit];
          below[i] += slopes[unit] * parameters[begins[l] + i * count + unit];
        }
      }
      for (size_t unit = 0; unit < count; ++unit) {
        sums[begins[l] + below.size() * count + unit] += slopes[unit];
      }
      slopes = below;
    }
    result.input_slopes.insert(result.input_slopes.end(), slopes.begin(), slopes.end());
  }
  result.sums = std::move(sums);
  return result;
}

Result<float> RunPass(const Shape& shape, const std::vector<float>& parameters, const Batch& batch,
                      std::vector<float> sums, size_t block_rows = kBlock) {
  const Network network(shape.inputs, shape.units);
  Result<float> result;
  result.sums = std::move(sums);
  NetworkPass pass(network, parameters, result.sums);
  for (size_t begin = 0; begin < batch.size(); begin += block_rows) {
    const size_t rows = std::min(block_rows, batch.size() - begin);
    for (size_t r = 0; r < rows; ++r) {
      std::copy_n(batch.rows.data() + (begin + r) * shape.inputs, shape.inputs,
                  pass.input(r).data());
    }
    pass.Forward(rows);
    for (size_t r = 0; r < rows; ++r) result.outputs.push_back(pass.output(r));
    pass.Backward(std::span(batch.slopes).subspan(begin, rows));
    for (size_t r = 0; r < rows; ++r) {
      const std::span<const float> slopes = pass.input_slope(r);
      result.input_slopes.insert(result.input_slopes.end(), slopes.begin(), slopes.end());
    }
  }
  return result;
}

std::vector<float> RandomParameters(const Shape& shape, std::mt19937& random) {
  return RandomFloats(Network(shape.inputs, shape.units).parameter_count(), 0.3f, random);
}

void ExpectSameBytes(const Result<float>& is, const Result<float>& expected) {
  EXPECT_EQ(is.outputs, expected.outputs);
  EXPECT_EQ(is.sums, expected.sums);
  EXPECT_EQ(is.input_slopes, expected.input_slopes);
}

TEST(NetworkPass, AddsInTheOrderOfRowsAndUnitsAndRoundsEachStep) {
  std::mt19937 random(1);
  for (const Shape& shape : Shapes(random)) {
    const std::vector<float> parameters = RandomParameters(shape, random);
    const std::vector<float> sums = RandomFloats(parameters.size(), 1.0f, random);
    const Batch batch = RandomBatch(shape, 1 + random() % 40, random);
    SCOPED_TRACE(testing::Message() << shape.inputs << " inputs, " << shape.units.size()
                                    << " layers, first of " << shape.units[0]);
    ExpectSameBytes(RunPass(shape, parameters, batch, sums),
                    ByTheBook<float>(shape, parameters, batch, sums));
  }
}

TEST(NetworkPass, OutputsAndGradientEqualTheirDefinitionInDoubles) {
  std::mt19937 random(2);
  for (const Shape& shape : Shapes(random)) {
    const std::vector<float> parameters = RandomParameters(shape, random);
    const Batch batch = RandomBatch(shape, 21, random);
    const Result<float> is =
        RunPass(shape, parameters, batch, std::vector<float>(parameters.size()));
    const Result<double> expected =
        ByTheBook<double>(shape, {parameters.begin(), parameters.end()}, batch,
                          std::vector<double>(parameters.size()));
    const auto expect_near = [](const std::vector<float>& values,
                                const std::vector<double>& wanted) {
      ASSERT_EQ(values.size(), wanted.size());
      for (size_t i = 0; i < values.size(); ++i) {
        ASSERT_NEAR(values[i], wanted[i], 1e-3 * (1 + std::abs(wanted[i]))) << i;
      }
    };
    expect_near(is.outputs, expected.outputs);
    expect_near(is.sums, expected.sums);
    expect_near(is.input_slopes, expected.input_slopes);
  }
}

TEST(NetworkPass, GradientEqualsFiniteDifferencesOfTheOutputs) {
  std::mt19937 random(3);
  const Shape shape = {6, {9, 5}};
  const std::vector<float> parameters = RandomParameters(shape, random);
  const Batch batch = RandomBatch(shape, 18, random);
  const Result<float> is = RunPass(shape, parameters, batch, std::vector<float>(parameters.size()));
  // sum over rows of slope * output, whose gradient the pass adds up
  const auto objective = [&](const std::vector<double>& at, const Batch& rows) {
    const Result<double> result =
        ByTheBook<double>(shape, at, rows, std::vector<double>(at.size()));
    double sum = 0;
    for (size_t r = 0; r < rows.size(); ++r) {
      sum += static_cast<double>(rows.slopes[r]) * result.outputs[r];
    }
    return sum;
  };
  constexpr double kStep = 1e-6;
  const std::vector<double> point(parameters.begin(), parameters.end());
  for (size_t i = 0; i < parameters.size(); ++i) {
    std::vector<double> after = point;
    std::vector<double> before = point;
    after[i] += kStep;
    before[i] -= kStep;
    const double expected = (objective(after, batch) - objective(before, batch)) / (2 * kStep);
    EXPECT_NEAR(is.sums[i], expected, 1e-4 * (1 + std::abs(expected))) << "parameter " << i;
  }
  for (size_t i = 0; i < batch.rows.size(); ++i) {
    constexpr float kInputStep = 1.0f / 1024;  // the batch is of floats; no unit's sign changes
    Batch after = batch;
    Batch before = batch;
    after.rows[i] += kInputStep;
    before.rows[i] -= kInputStep;
    const double width = static_cast<double>(after.rows[i]) - static_cast<double>(before.rows[i]);
    const double expected = (objective(point, after) - objective(point, before)) / width;
    EXPECT_NEAR(is.input_slopes[i], expected, 1e-3 * (1 + std::abs(expected))) << "input " << i;
  }
}

TEST(NetworkPass, ABatchInOtherBlocksGivesTheSameBytes) {
  std::mt19937 random(4);
  const Shape shape = {19, {24, 10}};
  const std::vector<float> parameters = RandomParameters(shape, random);
  const std::vector<float> sums = RandomFloats(parameters.size(), 1.0f, random);
  const Batch batch = RandomBatch(shape, 40, random);
  const Result<float> whole = RunPass(shape, parameters, batch, sums);
  for (size_t rows = 1; rows < kBlock; ++rows) {
    SCOPED_TRACE(rows);
    ExpectSameBytes(RunPass(shape, parameters, batch, sums, rows), whole);
  }
}

TEST(NetworkPass, RowsOfAnEarlierBlockLeaveNoTrace) {
  std::mt19937 random(5);
  const Shape shape = {9, {6, 3}};
  const std::vector<float> parameters = RandomParameters(shape, random);
  const std::vector<float> zeros(parameters.size());
  Batch batch = RandomBatch(shape, kBlock + 1, random);
  const Batch last = {9, {batch.rows.end() - 9, batch.rows.end()}, {batch.slopes.back()}};
  std::fill_n(batch.rows.begin(), 9 * kBlock, std::numeric_limits<float>::quiet_NaN());
  const Result<float> after = RunPass(shape, parameters, batch, zeros);
  const Result<float> alone = RunPass(shape, parameters, last, zeros);
  EXPECT_EQ(after.outputs.back(), alone.outputs.back());
  EXPECT_TRUE(std::equal(alone.input_slopes.begin(), alone.input_slopes.end(),
                         after.input_slopes.end() - 9));
}

TEST(NetworkPass, AnInputThatIsNoNumberShowsInTheOutput) {
  std::mt19937 random(6);
  const Shape shape = {5, {20, 4}};
  Batch batch = RandomBatch(shape, 3, random);
  batch.rows[7] = std::numeric_limits<float>::quiet_NaN();
  const Result<float> is = RunPass(shape, RandomParameters(shape, random), batch,
                                   std::vector<float>(Network(5, {20, 4}).parameter_count()));
  EXPECT_FALSE(std::isnan(is.outputs[0]));
  EXPECT_TRUE(std::isnan(is.outputs[1]));
  EXPECT_FALSE(std::isnan(is.outputs[2]));
}

TEST(NetworkPass, WithoutSumsOnlyOutputsAreComputed) {
  std::mt19937 random(7);
  const Shape shape = {12, {16, 7}};
  const std::vector<float> parameters = RandomParameters(shape, random);
  const Batch batch = RandomBatch(shape, 4, random);
  const Network network(shape.inputs, shape.units);
  NetworkPass pass(network, parameters, {});
  for (size_t r = 0; r < 4; ++r) {
    std::copy_n(batch.rows.data() + r * shape.inputs, shape.inputs, pass.input(r).data());
  }
  pass.Forward(4);
  const Result<float> expected =
      ByTheBook<float>(shape, parameters, batch, std::vector<float>(parameters.size()));
  for (size_t r = 0; r < 4; ++r) EXPECT_EQ(pass.output(r), expected.outputs[r]);
  EXPECT_DEATH(pass.Backward(batch.slopes), "broken invariant");
}

TEST(NetworkPassDeathTest, WhatWasNotComputedIsNotRead) {
  const Network network(2, {3});
  std::vector<float> parameters(network.parameter_count());
  std::vector<float> sums(parameters.size());
  NetworkPass pass(network, parameters, sums);
  pass.Forward(2);
  const std::vector<float> slopes(3);
  EXPECT_DEATH(pass.output(2), "broken invariant");
  EXPECT_DEATH(pass.input_slope(2), "broken invariant");
  EXPECT_DEATH(pass.input(kBlock), "broken invariant");
  EXPECT_DEATH(pass.Forward(kBlock + 1), "broken invariant");
  EXPECT_DEATH(pass.Backward(slopes), "broken invariant");
  sums.pop_back();
  EXPECT_DEATH(NetworkPass(network, parameters, sums), "broken invariant");
}

TEST(Network, HiddenWeightsStartWithinTheLimitsOfHeAndTheRestAtZero) {
  const Network network(6, {4, 10});
  // 6 x 4 weights, 4 biases, 4 x 10 weights, 10 biases, 10 output weights
  EXPECT_EQ(network.parameter_count(), 24 + 4 + 40 + 10 + 10u);
  const std::vector<RandomInitRange> ranges = network.RandomInitRanges(100);
  ASSERT_EQ(ranges.size(), 2u);
  EXPECT_EQ(ranges[0].begin, 100u);
  EXPECT_EQ(ranges[0].end, 124u);
  EXPECT_FLOAT_EQ(ranges[0].limit, 1.0f);
  EXPECT_EQ(ranges[1].begin, 128u);
  EXPECT_EQ(ranges[1].end, 168u);
  EXPECT_FLOAT_EQ(ranges[1].limit, std::sqrt(1.5f));
}

TEST(NetworkDeathTest, EveryLayerHasUnits) {
  EXPECT_DEATH(Network(3, {4}, 0), "broken invariant");
  EXPECT_DEATH(Network(3, {}), "broken invariant");
  EXPECT_DEATH(Network(3, {4, 0}), "broken invariant");
}

}  // namespace
}  // namespace millrace
