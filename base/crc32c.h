// CRC-32C (Castagnoli): tells whether a file came as it was sent.
#pragma once

#include <cstdint>
#include <string_view>

namespace millrace {

// Polynomial 0x1EDC6F41, reflected, as in RFC 3720, appendix B.4. `crc` is that of what stands in
// front of the bytes; 0 in front of the first.
uint32_t Crc32c(std::string_view bytes, uint32_t crc = 0);

}  // namespace millrace
