#include "models/wide_softmax.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <random>
#include <vector>

#include "models/softmax_regression.h"
#include "tests/models/random_rows.h"

namespace millrace {
namespace {

using testing::ElementsAre;

// Of no sign that arithmetic sees: a sum that begins at 0 has no -0.
bool HasSameBytes(std::span<const float> a, std::span<const float> b) {
  return std::ranges::equal(a, b, [](float x, float y) {
    return std::bit_cast<uint32_t>(x + 0.0f) == std::bit_cast<uint32_t>(y + 0.0f);
  });
}

struct Shape {
  size_t numeric;
  size_t hashed;
  size_t classes;
  size_t features() const { return numeric + hashed; }
};

// The same weights as one vector, and as dense ones with embedding rows.
struct Weights {
  std::vector<float> all;
  std::vector<float> dense;

  Weights(const Shape& shape, std::mt19937& random) {
    std::uniform_real_distribution<float> draw(-2, 2);
    for (size_t i = 0; i < (shape.features() + 1) * shape.classes; ++i) all.push_back(draw(random));
    const auto numeric = static_cast<ptrdiff_t>(shape.numeric * shape.classes);
    dense.assign(all.begin(), all.begin() + numeric);
    dense.insert(dense.end(), all.end() - static_cast<ptrdiff_t>(shape.classes), all.end());
  }
  std::vector<float> RowsOf(const std::vector<EmbeddingId>& ids, size_t classes) const {
    std::vector<float> rows;
    for (const EmbeddingId id : ids) {
      const float* const row = all.data() + id * classes;
      rows.insert(rows.end(), row, row + classes);
    }
    return rows;
  }
};

std::vector<EmbeddingId> IdsOf(const Model& model, const std::vector<Row>& rows) {
  std::vector<EmbeddingId> ids;
  for (const Row& row : rows) model.AppendIds(row, ids);
  std::ranges::sort(ids);
  ids.erase(std::ranges::unique(ids).begin(), ids.end());
  return ids;
}

std::vector<Row> SomeRows(const Shape& shape, size_t count, std::mt19937& random) {
  std::vector<Row> rows(count);
  for (Row& row : rows) {
    row.label = static_cast<uint32_t>(random() % shape.classes);
    for (size_t i = 0; i < shape.numeric; ++i) {
      row.numeric.push_back(static_cast<double>(random() % 100) / 7);
    }
    for (size_t i = 0; i < shape.hashed; ++i) {
      if (random() % 5 != 0) continue;
      row.index.push_back(static_cast<uint32_t>(shape.numeric + i));
      row.value.push_back(static_cast<float>(random() % 100) / 50 - 1);
    }
  }
  return rows;
}

TEST(WideSoftmaxTest, GivesTheBytesOfTheDenseModel) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 60; ++trial) {
    const Shape shape = {random() % 4, random() % 60, 2 + random() % 20};
    const std::vector<Row> rows = SomeRows(shape, random() % 40, random);
    const Weights weights(shape, random);
    std::vector<float> class_weights;
    for (size_t k = 0; trial % 3 == 0 && k < shape.classes; ++k) {
      class_weights.push_back(0.5f + static_cast<float>(k));
    }
    const SoftmaxRegression dense(shape.features(), shape.classes, class_weights);
    const WideSoftmax wide(shape.numeric, shape.features(), shape.classes, class_weights);
    ASSERT_EQ(wide.parameter_count(), weights.dense.size());
    const Scaler scaler = Scaler::Identity(shape.numeric);

    GradientSum gradient(dense.parameter_count(), dense.block_size());
    std::vector<float> scores(rows.size() * shape.classes);
    const BatchLoss loss = dense.Compute(Pointers(rows), scaler, weights.all, &gradient, scores);

    const std::vector<EmbeddingId> ids = IdsOf(wide, rows);
    const std::vector<float> values = weights.RowsOf(ids, shape.classes);
    std::vector<float> row_gradient(values.size());
    GradientSum dense_part(wide.parameter_count(), wide.block_size());
    std::vector<float> wide_scores(scores.size());
    const BatchLoss wide_loss = wide.Compute(Pointers(rows), scaler, weights.dense,
                                             {ids, values, row_gradient}, &dense_part, wide_scores);

    EXPECT_EQ(loss.loss_sum, wide_loss.loss_sum);
    EXPECT_EQ(loss.weight_sum, wide_loss.weight_sum);
    EXPECT_TRUE(HasSameBytes(scores, wide_scores));
    const std::span<const float> all = gradient.values();
    const size_t numeric = shape.numeric * shape.classes;
    EXPECT_TRUE(HasSameBytes(all.first(numeric), dense_part.values().first(numeric)));
    EXPECT_TRUE(HasSameBytes(all.last(shape.classes), dense_part.values().last(shape.classes)));
    for (size_t i = 0; i < ids.size(); ++i) {
      EXPECT_TRUE(HasSameBytes(all.subspan(ids[i] * shape.classes, shape.classes),
                               std::span(row_gradient).subspan(i * shape.classes, shape.classes)));
    }
    // Who tests has the rows of a whole test set.
    std::vector<EmbeddingId> every;
    for (EmbeddingId id = shape.numeric; id < shape.features(); ++id) every.push_back(id);
    std::vector<float> again(scores.size());
    wide.Compute(Pointers(rows), scaler, weights.dense,
                 {every, weights.RowsOf(every, shape.classes), {}}, nullptr, again);
    EXPECT_TRUE(HasSameBytes(scores, again));
  }
}

TEST(WideSoftmaxTest, AddsToTheGradientsThatAreThere) {
  const WideSoftmax model(1, 3, 2);
  const std::vector<Row> rows = {
      {.label = 1, .numeric = {2}, .index = {2}, .value = {0.5f}},
  };
  const std::vector<EmbeddingId> ids = {2};
  const std::vector<float> values = {0, 0};
  std::vector<float> row_gradient = {10, 20};
  GradientSum gradient(model.parameter_count(), model.block_size());
  gradient.Block(1)[0] = 7;
  const std::vector<float> parameters(4);
  model.Compute(Pointers(rows), Scaler::Identity(1), parameters, {ids, values, row_gradient},
                &gradient, {});
  // Both classes are as probable: the residuals are .5 and -.5.
  EXPECT_THAT(row_gradient, ElementsAre(10.25f, 19.75f));
  const std::span<const float> sums = gradient.values();
  EXPECT_THAT(std::vector<float>(sums.begin(), sums.end()), ElementsAre(1, -1, 7.5f, -0.5f));
}

}  // namespace
}  // namespace millrace
