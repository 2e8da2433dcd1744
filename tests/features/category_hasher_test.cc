#include "features/category_hasher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "base/hash.h"
#include "features/murmur3.h"

namespace millrace {
namespace {

using testing::ElementsAre;
using Names = std::vector<std::string>;
using Cells = std::vector<std::string_view>;

constexpr uint32_t kBuckets = 1u << 30;

// The single feature of `terms`.
uint32_t FeatureOf(const Names& terms, const Cells& cells, uint32_t buckets = kBuckets) {
  CategoryHasher hasher(terms, buckets);
  std::vector<uint32_t> index;
  std::vector<float> value;
  hasher.Append(cells, 0, &index, &value);
  EXPECT_EQ(index.size(), 1u);
  EXPECT_THAT(value, ElementsAre(1.0f));
  return index.at(0);
}

uint32_t Bucket(std::string_view key, uint32_t buckets = kBuckets) {
  return static_cast<uint32_t>(Murmur3(key)) % buckets;
}

TEST(CategoryHasher, HashesColumnAndValue) {
  EXPECT_EQ(FeatureOf({"origin"}, {"EWR"}), Bucket("origin=EWR"));
  EXPECT_EQ(FeatureOf({"origin"}, {""}), Bucket("origin="));
  EXPECT_EQ(FeatureOf({"origin"}, {"a*b=c\\"}), Bucket("origin=a*b=c\\"));
  EXPECT_EQ(FeatureOf({"origin"}, {"EWR"}, 1000), Bucket("origin=EWR", 1000));
}

TEST(CategoryHasher, HashesCrossesByAllTheirColumnsAndValues) {
  CategoryHasher hasher(Names{"a*b"}, kBuckets);
  EXPECT_EQ(hasher.columns(), (Names{"a", "b"}));
  EXPECT_EQ(FeatureOf({"a*b"}, {"x", "y"}), Bucket("a*b=x*y"));
  EXPECT_EQ(FeatureOf({" a * b * c "}, {"x", "y", "z"}), Bucket("a*b*c=x*y*z"));
}

TEST(CategoryHasher, KeepsValuesWithStarsApart) {
  EXPECT_EQ(FeatureOf({"a*b"}, {"x*", "y"}), Bucket("a*b=x\\**y"));
  EXPECT_EQ(FeatureOf({"a*b"}, {"x", "*y"}), Bucket("a*b=x*\\*y"));
  EXPECT_EQ(FeatureOf({"a*b"}, {"x\\", "y"}), Bucket("a*b=x\\\\*y"));
  EXPECT_EQ(FeatureOf({"a=b"}, {"c"}), Bucket("a\\=b=c"));
}

TEST(CategoryHasher, ReadsEachColumnOnce) {
  CategoryHasher hasher(Names{"a", "b*a", "b"}, kBuckets);
  EXPECT_EQ(hasher.columns(), (Names{"a", "b"}));
  std::vector<uint32_t> index;
  std::vector<float> value;
  hasher.Append(Cells{"x", "y"}, 0, &index, &value);
  std::vector<uint32_t> expected = {Bucket("a=x"), Bucket("b*a=y*x"), Bucket("b=y")};
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(index, expected);
}

TEST(CategoryHasher, AddsUpValuesThatCollide) {
  CategoryHasher hasher(Names{"a", "b", "c"}, 1);
  std::vector<uint32_t> index = {3};
  std::vector<float> value = {0.5f};
  hasher.Append(Cells{"x", "y", "z"}, 3, &index, &value);
  EXPECT_THAT(index, ElementsAre(3, 3));
  EXPECT_THAT(value, ElementsAre(0.5f, 3.0f));
}

TEST(CategoryHasher, GivesEachKeyOneIdWhateverTheBuckets) {
  CategoryHasher hasher(Names{"user", "item", "user*item"}, 1);
  std::vector<EmbeddingId> ids = {99};
  hasher.SetIds(Cells{"7", "9"}, &ids);
  ASSERT_EQ(ids.size(), 3u);
  // FNV-1a of "user=7", computed by hand in Python, and then one step of SplitMix64.
  EXPECT_EQ(ids[0], Mix64(0xf81520aa751bdf7e));
  std::vector<EmbeddingId> others;
  hasher.SetIds(Cells{"9", "7"}, &others);
  for (size_t i = 0; i < 3; ++i) EXPECT_NE(ids[i], others[i]) << "of another column";
  std::set<EmbeddingId> distinct(ids.begin(), ids.end());
  distinct.insert(others.begin(), others.end());
  EXPECT_EQ(distinct.size(), 6u);
}

TEST(CategoryHasher, SplitsTermsAtStars) {
  EXPECT_EQ(ColumnsOfTerm("a"), Names{"a"});
  EXPECT_EQ(ColumnsOfTerm("a* b"), (Names{"a", "b"}));
  EXPECT_EQ(ColumnsOfTerm("a**"), (Names{"a", "", ""}));
}

}  // namespace
}  // namespace millrace
