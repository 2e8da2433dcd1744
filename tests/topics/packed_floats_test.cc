#include "topics/packed_floats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr FloatFormat kFloat32 = Training::Compression::FLOAT32;
constexpr FloatFormat kFp16 = Training::Compression::FP16;
constexpr FloatFormat kBf16 = Training::Compression::BF16;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// By the definitions of the two formats: sign, exponent, fraction.
double ByDefinition(uint16_t bits, int exponent_bits, int bias) {
  const int fraction_bits = 15 - exponent_bits;
  const int exponent = bits >> fraction_bits & ((1 << exponent_bits) - 1);
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const double sign = bits >> 15 != 0 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) {
    return fraction != 0 ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
  return sign * std::ldexp((1 << fraction_bits) + fraction, exponent - bias - fraction_bits);
}

TEST(PackedFloats, AllPatternsOf16BitsMeanWhatTheFormatsDefineAndComeBack) {
  for (uint32_t i = 0; i < 0x10000; ++i) {
    const auto bits = static_cast<uint16_t>(i);
    const double fp16 = ByDefinition(bits, 5, 15);
    const double bf16 = ByDefinition(bits, 8, 127);
    if (std::isnan(fp16)) {
      EXPECT_TRUE(std::isnan(FromFp16(bits)));
      EXPECT_TRUE(std::isnan(FromFp16(ToFp16(FromFp16(bits)))));
    } else {
      ASSERT_EQ(static_cast<double>(FromFp16(bits)), fp16) << i;
      ASSERT_EQ(ToFp16(FromFp16(bits)), bits) << i;
    }
    if (std::isnan(bf16)) {
      EXPECT_TRUE(std::isnan(FromBf16(ToBf16(FromBf16(bits)))));
    } else {
      ASSERT_EQ(static_cast<double>(FromBf16(bits)), bf16) << i;
      ASSERT_EQ(ToBf16(FromBf16(bits)), bits) << i;
    }
  }
}

// Between each two neighbours: a little below the middle, the middle, a little above it.
TEST(PackedFloats, RoundToTheNearestAndOnATieToTheEvenOne) {
  const auto check = [](uint16_t low, uint16_t (*to)(float), float (*from)(uint16_t)) {
    const auto high = static_cast<uint16_t>(low + 1);
    const double middle = (static_cast<double>(from(low)) + static_cast<double>(from(high))) / 2;
    const auto tie = static_cast<float>(middle);
    if (static_cast<double>(tie) != middle) return;  // beyond a float's subnormals
    ASSERT_EQ(to(std::nextafter(tie, 0.0f)), low) << low;
    ASSERT_EQ(to(tie), low % 2 == 0 ? low : high) << low;
    ASSERT_EQ(to(std::nextafter(tie, kInfinity)), high) << low;
    ASSERT_EQ(to(-tie), (low % 2 == 0 ? low : high) | 0x8000) << low;
  };
  for (uint16_t low = 0; low < 0x7bff; ++low) check(low, ToFp16, FromFp16);
  for (uint16_t low = 0; low < 0x7f7f; ++low) check(low, ToBf16, FromBf16);
}

TEST(PackedFloats, WhatIsTooLargeBecomesInfinity) {
  EXPECT_EQ(FromFp16(ToFp16(65504)), 65504);
  EXPECT_EQ(FromFp16(ToFp16(65519)), 65504);
  EXPECT_EQ(FromFp16(ToFp16(65520)), kInfinity);
  EXPECT_EQ(FromFp16(ToFp16(-1e30f)), -kInfinity);
  EXPECT_EQ(FromBf16(ToBf16(std::numeric_limits<float>::max())), kInfinity);
}

TEST(PackedFloats, EveryKindOfNanStaysOne) {
  for (const uint32_t bits : {0x7f800001u, 0x7fffffffu, 0x7fc00000u, 0xff800001u, 0xffffffffu}) {
    const auto nan = std::bit_cast<float>(bits);
    EXPECT_TRUE(std::isnan(FromFp16(ToFp16(nan)))) << bits;
    EXPECT_TRUE(std::isnan(FromBf16(ToBf16(nan)))) << bits;
  }
}

Gradient::Update UpdateOf(const std::vector<float>& dense, const std::vector<float>& rows = {}) {
  Gradient::Update message;
  message.mutable_slice()->mutable_dense()->Add(dense.begin(), dense.end());
  message.mutable_embeddings()->mutable_value()->Add(rows.begin(), rows.end());
  return message;
}

std::vector<float> ThereAndBack(FloatFormat format, const std::vector<float>& values) {
  Gradient::Update message = UpdateOf(values);
  PackUpdate(format, PackingExponent(format, LargestFinite(values)), message);
  EXPECT_EQ(message.packed_slice().size(), 2 * values.size());
  EXPECT_EQ(message.slice().dense_size(), 0);
  EXPECT_TRUE(UnpackUpdate(format, message).ok());
  EXPECT_TRUE(message.packed_slice().empty());
  return {message.slice().dense().begin(), message.slice().dense().end()};
}

TEST(PackedFloats, AnUpdateOfAnyScaleKeepsItsRelativePrecision) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (const float scale : {1e-30f, 1e-6f, 1.0f, 1e6f, 1e17f}) {
    std::vector<float> values(500);
    for (float& value : values) value = scale * normal(random);
    const std::vector<float> fp16 = ThereAndBack(kFp16, values);
    const std::vector<float> bf16 = ThereAndBack(kBf16, values);
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_NEAR(fp16[i], values[i], std::abs(values[i]) / 2048 + scale * 1e-8f);
      EXPECT_NEAR(bf16[i], values[i], std::abs(values[i]) / 256);
    }
  }
}

// 2^15 times the largest mantissa would round to 2^16, which is no half.
TEST(PackedFloats, TheLargestMantissaOfEveryScaleIsPackedWithoutOverflow) {
  for (int exponent = -112; exponent <= 127; ++exponent) {
    const float largest = std::ldexp(0x1.fffffep0f, exponent);
    EXPECT_EQ(
        static_cast<double>(ToFp16(largest * std::ldexp(1.0f, -PackingExponent(kFp16, largest)))),
        static_cast<double>(ToFp16(0x1p15f)))
        << exponent;
    if (exponent == 127) continue;  // rounded up, it is no float any more
    EXPECT_EQ(ThereAndBack(kFp16, {largest, -largest})[1], -std::ldexp(1.0f, exponent + 1));
  }
}

TEST(PackedFloats, ElevenBitsAreKeptDownTo28PowersOfTwoBelowTheLargest) {
  const std::vector<float> values = {0x1.fffffep0f, 0x1.ffcp-28f};
  EXPECT_EQ(ThereAndBack(kFp16, values)[1], values[1]);
}

TEST(PackedFloats, WhatIsNoNumberIsStillNoneAndDoesNotChangeTheOthers) {
  for (const FloatFormat format : {kFp16, kBf16}) {
    const std::vector<float> values =
        ThereAndBack(format, {0.5f, NAN, kInfinity, -kInfinity, -0.25f});
    EXPECT_TRUE(std::isnan(values[1]));
    EXPECT_EQ(values[2], kInfinity);
    EXPECT_EQ(values[3], -kInfinity);
    EXPECT_EQ(values[0], 0.5f);
    EXPECT_EQ(values[4], -0.25f);
    // More than a server takes is still more.
    EXPECT_GT(ThereAndBack(format, {3e38f, 1})[0], 1e18f);
  }
}

TEST(PackedFloats, SparseValuesAndEmbeddingRowsArePackedToo) {
  Gradient::Update message = UpdateOf({}, {4, 5, 6});
  message.mutable_slice()->add_sparse_index(7);
  message.mutable_slice()->add_sparse_value(1.5f);
  PackUpdate(kBf16, 0, message);
  EXPECT_EQ(message.packed_slice(), std::string("\xc0\x3f", 2));
  EXPECT_EQ(message.packed_embeddings().size(), 6u);
  EXPECT_EQ(message.slice().sparse_value_size() + message.embeddings().value_size(), 0);
  ASSERT_TRUE(UnpackUpdate(kBf16, message).ok());
  EXPECT_THAT(message.slice().sparse_value(), ElementsAre(1.5f));
  EXPECT_THAT(message.embeddings().value(), ElementsAre(4, 5, 6));
}

TEST(PackedFloats, WhatIsNotPackedAsTheJobHasItIsRefused) {
  const auto error = [](FloatFormat format, Gradient::Update message) {
    return std::string(UnpackUpdate(format, message).message());
  };
  Gradient::Update packed = UpdateOf({1, 2});
  PackUpdate(kFp16, 3, packed);
  EXPECT_THAT(error(kFloat32, packed), HasSubstr("but this job sends 32"));
  EXPECT_THAT(error(kFp16, UpdateOf({1, 2})), HasSubstr("but this job sends 16"));
  EXPECT_THAT(error(kFp16, UpdateOf({}, {1})), HasSubstr("but this job sends 16"));
  Gradient::Update half = packed;
  half.mutable_packed_slice()->pop_back();
  EXPECT_THAT(error(kFp16, half), HasSubstr("an odd number of bytes"));
  Gradient::Update far = packed;
  for (const int32_t exponent : {127, -127, INT32_MIN}) {
    far.set_packed_exponent(exponent);
    EXPECT_THAT(error(kFp16, far), HasSubstr("it is between -126 and 126"));
  }
  EXPECT_EQ(error(kFp16, packed), "");
  EXPECT_EQ(error(kFloat32, UpdateOf({1})), "");
}

}  // namespace
}  // namespace millrace
