// What a schema registry's serializers put in front of a value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/big_endian.h"

namespace millrace {

struct HeadedValue {
  uint32_t schema = 0;    // its id in the registry
  std::string_view body;  // the value itself
};

// The published wire format: a byte 0, the id in four bytes, the highest first, and the value.
// Empty: the value does not begin so.
inline std::optional<HeadedValue> SplitSchemaHeader(std::string_view value) {
  constexpr size_t kBytes = 5;
  if (value.size() < kBytes || value[0] != 0) return std::nullopt;
  return HeadedValue{*DecodeBigEndian32(value.substr(1, kBytes - 1)), value.substr(kBytes)};
}

}  // namespace millrace
