// Numbers as big-endian bytes, so that the order of the bytes is the order of the numbers: the
// form of every record key and store key.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace millrace {

std::string EncodeBigEndian64(uint64_t value);
std::string EncodeBigEndian32(uint32_t value);
// Empty unless `bytes` has exactly the size of the number.
std::optional<uint64_t> DecodeBigEndian64(std::string_view bytes);
std::optional<uint32_t> DecodeBigEndian32(std::string_view bytes);

}  // namespace millrace
