#include "base/crc32c.h"

#include <array>
#include <bit>
#include <cstring>

namespace millrace {
namespace {

constexpr size_t kSlices = 8;
using CrcTables = std::array<std::array<uint32_t, 256>, kSlices>;

// Eight bytes at a time: table k gives what a byte does to the sum when k more bytes follow
// (Kounavis, Berry, "Novel table lookup-based algorithms for high-performance CRC generation",
// IEEE Transactions on Computers 57, 2008).
constexpr CrcTables MakeCrcTables() {
  CrcTables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78u : 0u);
    tables[0][byte] = crc;
  }
  for (size_t slice = 1; slice < kSlices; ++slice) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = tables[slice - 1][byte];
      tables[slice][byte] = (before >> 8) ^ tables[0][before & 0xff];
    }
  }
  return tables;
}

constexpr CrcTables kCrcTables = MakeCrcTables();
static_assert(std::endian::native == std::endian::little);

}  // namespace

uint32_t Crc32c(std::string_view bytes, uint32_t crc) {
  crc = ~crc;
  while (bytes.size() >= kSlices) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data(), kSlices);
    word ^= crc;
    crc = 0;
    for (size_t i = 0; i < kSlices; ++i) {
      crc ^= kCrcTables[kSlices - 1 - i][(word >> (8 * i)) & 0xff];
    }
    bytes.remove_prefix(kSlices);
  }
  for (const char byte : bytes) {
    crc = (crc >> 8) ^ kCrcTables[0][(crc ^ static_cast<unsigned char>(byte)) & 0xff];
  }
  return ~crc;
}

}  // namespace millrace
