// Whether JSON has only what its message has.
#pragma once

#include <google/protobuf/descriptor.h>

#include <functional>
#include <set>
#include <string>
#include <string_view>

#include "base/status.h"

namespace millrace {

struct KnownMembers {
  bool ignores_unknown = false;                 // members; values of an enum are always known ones
  std::set<std::string, std::less<>> unread{};  // fields of the message itself: all is let through
};

// InvalidArgument: a member or a value of an enum that is not known. It names them and those that
// are, and says no more. `json` is one that protobuf has parsed as `type`.
Status CheckMembers(std::string_view json, const google::protobuf::Descriptor& type,
                    const KnownMembers& known);

}  // namespace millrace
