#include "models/top_k.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <vector>

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

GradientSum SumOf(const std::vector<float>& values) {
  GradientSum gradient(values.size(), 1);
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] != 0) *gradient.Block(i) += values[i];
  }
  return gradient;
}

const TopK::Chosen& Choose(TopK& top_k, const std::vector<float>& values,
                           const std::vector<EmbeddingId>& ids = {},
                           const std::vector<float>& rows = {}) {
  GradientSum gradient = SumOf(values);
  return top_k.Choose(gradient, ids, rows);
}

TEST(TopK, TheLargestOfWhatIsTouchedAreSentAndTheRestComesLater) {
  TopK top_k(0.5, 6, 0);
  const TopK::Chosen& chosen = Choose(top_k, {1, -4, 0, 3, 0, 2});
  EXPECT_THAT(chosen.keys, ElementsAre(1, 3));
  EXPECT_THAT(chosen.values, ElementsAre(-4, 3));
  // Key 5 had 2 left and gets -1; key 0 had 1 and gets 2.
  Choose(top_k, {2, 0, 0, 0, 0, -1});
  EXPECT_THAT(chosen.keys, ElementsAre(0));
  EXPECT_THAT(chosen.values, ElementsAre(3));
  // One that this update does not touch may be the largest.
  Choose(top_k, {0, 0, 0.5, 0, 0, 0});
  EXPECT_THAT(chosen.keys, ElementsAre(5));
  EXPECT_THAT(chosen.values, ElementsAre(1));
}

TEST(TopK, OfEqualValuesThoseOfTheSmallerKeysAreSent) {
  TopK top_k(0.5, 4, 1);
  const TopK::Chosen& chosen = Choose(top_k, {-1, 1, 1, -1}, {3, 5, 8, 9}, {2, -2, 2, 2});
  EXPECT_THAT(chosen.keys, ElementsAre(0, 1));
  EXPECT_THAT(chosen.ids, ElementsAre(3, 5));
}

TEST(TopK, OnlyRowsWhoseIdsAscendAreTaken) {
  TopK top_k(0.5, 1, 1);
  EXPECT_DEATH(Choose(top_k, {0}, {7, 5}, {1, 1}), "broken invariant");
  EXPECT_DEATH(Choose(top_k, {0}, {7, 7}, {1, 1}), "broken invariant");
}

TEST(TopK, RowsAreSentWholeByTheirNorms) {
  TopK top_k(0.3, 1, 2);
  const TopK::Chosen& chosen = Choose(top_k, {0}, {10, 20, 30}, {3, 0, 2.5, 2.5, 0, 1});
  EXPECT_THAT(chosen.ids, ElementsAre(20));
  EXPECT_THAT(chosen.rows, ElementsAre(2.5f, 2.5f));
  EXPECT_EQ(top_k.kept_rows(), 2u);
  Choose(top_k, {0}, {5, 30}, {1, 1, 0, 4});
  EXPECT_THAT(chosen.ids, ElementsAre(30));
  EXPECT_THAT(chosen.rows, ElementsAre(0, 5));
  EXPECT_EQ(top_k.kept_rows(), 2u);  // 5 and 10
}

// What was sent and what is kept make up what came.
TEST(TopK, NothingIsLost) {
  constexpr size_t kKeys = 200;
  TopK top_k(0.1, kKeys, 3);
  std::mt19937 random(1);
  std::normal_distribution<double> normal;
  std::vector<double> came(kKeys), sent(kKeys);
  std::map<EmbeddingId, double> rows_came, rows_sent;
  for (int update = 0; update < 300; ++update) {
    std::vector<float> values(kKeys);
    size_t touched = 0;
    for (size_t i = 0; i < kKeys; ++i) {
      if (random() % 4 != 0) continue;
      values[i] = static_cast<float>(normal(random));
      ++touched;
      came[i] += static_cast<double>(values[i]);
    }
    std::map<EmbeddingId, std::vector<float>> batch;
    for (int i = 0; i < 10; ++i) batch[random() % 50];
    std::vector<EmbeddingId> ids;
    std::vector<float> rows;
    for (auto& [id, row] : batch) {
      ids.push_back(id);
      for (int k = 0; k < 3; ++k) {
        rows.push_back(static_cast<float>(normal(random)));
        rows_came[id] += static_cast<double>(rows.back());
      }
    }
    const TopK::Chosen& chosen = Choose(top_k, values, ids, rows);
    EXPECT_EQ(chosen.keys.size(),
              static_cast<size_t>(std::ceil(0.1 * static_cast<double>(touched))));
    EXPECT_EQ(chosen.ids.size(), 1u);
    EXPECT_LE(top_k.kept_rows(), 50u);
    for (size_t i = 0; i < chosen.keys.size(); ++i) {
      sent[chosen.keys[i]] += static_cast<double>(chosen.values[i]);
    }
    for (size_t i = 0; i < chosen.rows.size(); ++i) {
      rows_sent[chosen.ids[i / 3]] += static_cast<double>(chosen.rows[i]);
    }
  }
  // Until nothing is kept.
  for (int flush = 0; flush < 300; ++flush) {
    const TopK::Chosen& chosen = Choose(top_k, std::vector<float>(kKeys, 1e-30f), {60}, {0, 0, 0});
    for (size_t i = 0; i < chosen.keys.size(); ++i) {
      sent[chosen.keys[i]] += static_cast<double>(chosen.values[i]);
    }
    for (size_t i = 0; i < chosen.rows.size(); ++i) {
      rows_sent[chosen.ids[i / 3]] += static_cast<double>(chosen.rows[i]);
    }
  }
  for (size_t i = 0; i < kKeys; ++i) EXPECT_NEAR(sent[i], came[i], 1e-4) << i;
  for (const auto& [id, sum] : rows_came) EXPECT_NEAR(rows_sent[id], sum, 1e-4) << id;
}

TEST(TopK, KeptRowsHaveALimitBeyondWhichMoreAreSent) {
  constexpr size_t kRow = sizeof(EmbeddingId) + sizeof(float);
  TopK top_k(0.25, 1, 1, 10 * kRow);
  EmbeddingId next = 0;
  for (int update = 0; update < 20; ++update) {
    std::vector<EmbeddingId> ids;
    for (int i = 0; i < 4; ++i) ids.push_back(next++);
    const TopK::Chosen& chosen = Choose(top_k, {0}, ids, {1, 2, 3, 4});
    EXPECT_LE(top_k.kept_rows(), 10u);
    EXPECT_EQ(chosen.ids.size(), update < 3 ? 1u : update == 3 ? 3u : 4u) << update;
  }
}

TEST(TopK, PoisonIsSentAtOnceAndLeavesNothingBehind) {
  for (const float poison : {NAN, INFINITY, -2e18f}) {
    TopK top_k(0.2, 4, 1);
    Choose(top_k, {1, 2, 3, 4}, {7, 8}, {1, 2});
    const TopK::Chosen& chosen = Choose(top_k, {0, poison, 0, 0}, {9}, {5});
    EXPECT_THAT(chosen.keys, ElementsAre(0, 1, 2));  // 4 of key 3 was sent before
    EXPECT_FALSE(std::abs(chosen.values[1]) <= 1e18f);
    EXPECT_THAT(chosen.ids, ElementsAre(7, 9));
    EXPECT_EQ(top_k.kept_rows(), 0u);
    Choose(top_k, {0.5, 0, 0, 0});
    EXPECT_THAT(chosen.keys, ElementsAre(0));
    EXPECT_THAT(chosen.values, ElementsAre(0.5f));
    Choose(top_k, {0, 0, 0, 0}, {1}, {poison});
    EXPECT_THAT(chosen.ids, ElementsAre(1));
    Choose(top_k, {0, 0, 0, 0});
    EXPECT_THAT(chosen.keys, IsEmpty());
    EXPECT_THAT(chosen.ids, IsEmpty());
  }
}

}  // namespace
}  // namespace millrace
