// What another member of a world gives at a barrier: it is no invitation of so many members, or one
// that is the same when it is written again; and each invitation is read as it was written.
#include <algorithm>

#include "base/check.h"
#include "collective/invitation.h"
#include "tests/fuzz/target.h"

namespace millrace::fuzz {

void FuzzOne(ByteSource& bytes) {
  const size_t members = bytes.Below(600);
  Invitation honest = {.release = bytes.Number(), .host = std::string(bytes.Text()), .ports = {}};
  honest.ports.resize(members);
  for (uint16_t& port : honest.ports) port = static_cast<uint16_t>(bytes.Below(65536));
  const std::string value = EncodeInvitation(honest);
  MILLRACE_CHECK(DecodeInvitation(value, members) == honest);
  MILLRACE_CHECK(honest.host.size() > 45 || value.size() <= MostInvitationBytes(members));

  const std::string_view hostile = bytes.Rest();
  const std::optional<Invitation> decoded = DecodeInvitation(hostile, members);
  if (decoded) {
    MILLRACE_CHECK(decoded->ports.size() == members && EncodeInvitation(*decoded) == hostile);
  }
}

}  // namespace millrace::fuzz
