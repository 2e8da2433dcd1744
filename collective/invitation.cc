#include "collective/invitation.h"

#include "base/big_endian.h"
#include "base/check.h"

namespace millrace {
namespace {

constexpr size_t kHostSizeAt = 8;
constexpr size_t kHostAt = 9;

}  // namespace

std::string EncodeInvitation(const Invitation& invitation) {
  MILLRACE_CHECK(invitation.host.size() <= UINT8_MAX);
  std::string value = EncodeBigEndian64(invitation.release);
  value += static_cast<char>(invitation.host.size());
  value += invitation.host;
  for (const uint16_t port : invitation.ports) {
    value += static_cast<char>(port >> 8);
    value += static_cast<char>(port & 0xff);
  }
  return value;
}

std::optional<Invitation> DecodeInvitation(std::string_view value, size_t members) {
  if (value.size() < kHostAt) return std::nullopt;
  Invitation invitation;
  invitation.release = *DecodeBigEndian64(value.substr(0, kHostSizeAt));
  const size_t ports_at = kHostAt + static_cast<unsigned char>(value[kHostSizeAt]);
  if (value.size() != ports_at + 2 * members) return std::nullopt;
  invitation.host = value.substr(kHostAt, ports_at - kHostAt);
  for (size_t i = ports_at; i < value.size(); i += 2) {
    const auto high = static_cast<unsigned char>(value[i]);
    const auto low = static_cast<unsigned char>(value[i + 1]);
    invitation.ports.push_back(static_cast<uint16_t>(high << 8 | low));
  }
  return invitation;
}

size_t MostInvitationBytes(size_t members) {
  constexpr size_t kLongestHost = 45;  // an IPv6 address
  return kHostAt + kLongestHost + 2 * members;
}

}  // namespace millrace
