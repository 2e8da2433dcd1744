// Floats in 16 bits: the values of a compressed update.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "messages/records.pb.h"
#include "messages/training.pb.h"

namespace millrace {

using FloatFormat = Training::Compression::Values;

// IEEE 754 binary16, and bfloat16 (the upper half of a float): to the nearest, ties to even. An
// infinity stays one, what is too large becomes one, and NaN stays NaN. Back is exact.
uint16_t ToFp16(float value);
float FromFp16(uint16_t bits);
uint16_t ToBf16(float value);
float FromBf16(uint16_t bits);

// An update's values are divided by 2^(this) before they are packed. FP16: so that the largest of
// the finite ones comes to [2^14, 2^15); none overflows, whatever the loss is like, and the others
// keep 11 bits down to 2^-29 of it (loss scaling, Micikevicius et al., "Mixed precision training",
// ICLR 2018, as far as a message can do it by itself). BF16: 0, it has a float's range.
int32_t PackingExponent(FloatFormat format, float largest);
// The largest finite absolute value; 0: none.
float LargestFinite(std::span<const float> values);

// Bytes of a value in a message.
constexpr size_t BytesOfValue(FloatFormat format) {
  return format == Training::Compression::FLOAT32 ? sizeof(float) : sizeof(uint16_t);
}

// Moves the floats of the message's slice and embeddings into its packed fields. FLOAT32: nothing.
void PackUpdate(FloatFormat format, int32_t exponent, Gradient::Update& message);
// The reverse. InvalidArgument when it was not packed in the job's format, or has half a value. The
// number of values and their finiteness are checked elsewhere.
Status UnpackUpdate(FloatFormat format, Gradient::Update& message);

}  // namespace millrace
