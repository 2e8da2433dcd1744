// What members of a world to be tell each other while they gather. Internal to collective/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

// The release that tells who the others are, and where the member waits for each of them.
struct Invitation {
  uint64_t release = 0;
  std::string host;             // at most 255 bytes
  std::vector<uint16_t> ports;  // by position; its own is 0
  bool operator==(const Invitation&) const = default;
};

std::string EncodeInvitation(const Invitation& invitation);
// None: it is none of so many members. Whether anybody waits there is not checked.
std::optional<Invitation> DecodeInvitation(std::string_view value, size_t members);
// Of the longest host.
size_t MostInvitationBytes(size_t members);

}  // namespace millrace
