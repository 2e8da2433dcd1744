// CRC-32C (Castagnoli): detects files that were damaged on their way.
#pragma once

#include <cstdint>
#include <string_view>

namespace millrace {

// Polynomial 0x1EDC6F41, reflected, as in RFC 3720, appendix B.4. `crc` is the CRC of the bytes
// before these; 0 for the first ones.
uint32_t Crc32c(std::string_view bytes, uint32_t crc = 0);

}  // namespace millrace
