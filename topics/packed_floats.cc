#include "topics/packed_floats.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace millrace {
namespace {

constexpr int32_t kMostExponent = 126;  // 2^e and 2^-e are both normal floats

float PowerOfTwo(int32_t exponent) {
  return std::bit_cast<float>(static_cast<uint32_t>(exponent + 127) << 23);
}

template <typename Floats>
std::string Packed(FloatFormat format, int32_t exponent, const Floats& values) {
  std::string bytes(2 * static_cast<size_t>(values.size()), '\0');
  const float factor = PowerOfTwo(-exponent);
  const float* const from = values.data();
  const bool fp16 = format == Training::Compression::FP16;
  for (size_t i = 0; i < bytes.size() / 2; ++i) {
    const uint16_t bits = fp16 ? ToFp16(from[i] * factor) : ToBf16(from[i] * factor);
    bytes[2 * i] = static_cast<char>(bits & 0xff);
    bytes[2 * i + 1] = static_cast<char>(bits >> 8);
  }
  return bytes;
}

void Unpack(FloatFormat format, int32_t exponent, std::string_view bytes,
            google::protobuf::RepeatedField<float>& values) {
  values.Resize(static_cast<int>(bytes.size() / 2), 0.0f);
  const float factor = PowerOfTwo(exponent);
  const bool fp16 = format == Training::Compression::FP16;
  float* const to = values.mutable_data();
  for (size_t i = 0; i < bytes.size() / 2; ++i) {
    const auto low = static_cast<unsigned char>(bytes[2 * i]);
    const auto high = static_cast<unsigned char>(bytes[2 * i + 1]);
    const auto bits = static_cast<uint16_t>(low | high << 8);
    to[i] = (fp16 ? FromFp16(bits) : FromBf16(bits)) * factor;
  }
}

}  // namespace

// A normal half's bits are a float's, 13 fewer and with a smaller bias; the addition rounds, and a
// carry goes on into the exponent as it should. A subnormal one counts in steps of 2^-24, which are
// the last bits of a float between 0.5 and 1: adding 0.5 rounds by itself.
uint16_t ToFp16(float value) {
  constexpr uint32_t kOverflow = (127 + 16) << 23;     // 2^16
  constexpr uint32_t kSmallNormal = (127 - 14) << 23;  // 2^-14
  constexpr uint32_t kInfinity = 255u << 23;
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t absolute = bits & 0x7fffffff;
  const uint32_t normal = (absolute - ((127 - 15) << 23) + 0xfff + ((absolute >> 13) & 1)) >> 13;
  const uint32_t subnormal = std::bit_cast<uint32_t>(std::bit_cast<float>(absolute) + 0.5f) -
                             std::bit_cast<uint32_t>(0.5f);
  uint32_t half = absolute < kSmallNormal ? subnormal : normal;
  half = absolute >= kOverflow ? 0x7c00 : half;
  half = absolute > kInfinity ? 0x7e00 : half;
  return static_cast<uint16_t>(half | bits >> 31 << 15);
}

// The same way back: as a float's bits, the half is 2^112 times too small, which is exact to mend
// for subnormal halves, too.
float FromFp16(uint16_t bits) {
  const uint32_t absolute = static_cast<uint32_t>(bits & 0x7fff) << 13;
  const float value = std::bit_cast<float>(absolute) * 0x1p112f;
  const uint32_t special = std::bit_cast<uint32_t>(value) | 255u << 23;
  const uint32_t magnitude = absolute >= 31u << 23 ? special : std::bit_cast<uint32_t>(value);
  return std::bit_cast<float>(magnitude | static_cast<uint32_t>(bits >> 15) << 31);
}

uint16_t ToBf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  const bool nan = (bits & 0x7fffffff) > 255u << 23;  // whose last bits must not carry
  return static_cast<uint16_t>(nan ? bits >> 16 | 0x40 : rounded);
}

float FromBf16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

float LargestFinite(std::span<const float> values) {
  float largest = 0;
  for (const float value : values) {
    const float absolute = std::abs(value);
    // NaN compares as false.
    largest =
        absolute > largest && absolute <= std::numeric_limits<float>::max() ? absolute : largest;
  }
  return largest;
}

int32_t PackingExponent(FloatFormat format, float largest) {
  if (format != Training::Compression::FP16 || largest == 0) return 0;
  return std::clamp(std::ilogb(largest) - 14, -kMostExponent, kMostExponent);
}

void PackUpdate(FloatFormat format, int32_t exponent, Gradient::Update& message) {
  if (format == Training::Compression::FLOAT32) return;
  MILLRACE_CHECK(std::abs(exponent) <= kMostExponent);
  Slice& slice = *message.mutable_slice();
  const bool dense = slice.dense_size() > 0;
  message.set_packed_exponent(exponent);
  message.set_packed_slice(dense ? Packed(format, exponent, slice.dense())
                                 : Packed(format, exponent, slice.sparse_value()));
  slice.clear_dense();
  slice.clear_sparse_value();
  if (!message.has_embeddings()) return;
  message.set_packed_embeddings(Packed(format, exponent, message.embeddings().value()));
  message.mutable_embeddings()->clear_value();
}

Status UnpackUpdate(FloatFormat format, Gradient::Update& message) {
  const auto invalid = [](const std::string& reason) { return absl::InvalidArgumentError(reason); };
  const bool packed = !message.packed_slice().empty() || !message.packed_embeddings().empty();
  if (format == Training::Compression::FLOAT32) {
    return packed ? invalid("values in 16 bits, but this job sends 32 (--compress)")
                  : absl::OkStatus();
  }
  if (message.slice().dense_size() > 0 || message.slice().sparse_value_size() > 0 ||
      message.embeddings().value_size() > 0) {
    return invalid("values in 32 bits, but this job sends 16 (--compress)");
  }
  const int32_t exponent = message.packed_exponent();
  if (exponent < -kMostExponent || exponent > kMostExponent) {
    return invalid("packed values with the exponent " + std::to_string(exponent) +
                   ": it is between -" + std::to_string(kMostExponent) + " and " +
                   std::to_string(kMostExponent));
  }
  if (message.packed_slice().size() % 2 != 0 || message.packed_embeddings().size() % 2 != 0) {
    return invalid("packed values of an odd number of bytes: each has two");
  }
  if (!message.packed_slice().empty()) {
    Slice& slice = *message.mutable_slice();
    Unpack(format, exponent, message.packed_slice(),
           slice.sparse_index_size() > 0 ? *slice.mutable_sparse_value() : *slice.mutable_dense());
  }
  if (!message.packed_embeddings().empty()) {
    Unpack(format, exponent, message.packed_embeddings(),
           *message.mutable_embeddings()->mutable_value());
  }
  message.clear_packed_slice();
  message.clear_packed_embeddings();
  message.clear_packed_exponent();
  return absl::OkStatus();
}

}  // namespace millrace
