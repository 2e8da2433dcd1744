// What jobs and topics may be called.
#pragma once

#include <string_view>

#include "base/status.h"

namespace millrace {

// Both: InvalidArgument with the rule, beginning with `where`, where the name was given.

// The prefix of topics and the name of folders: neither hidden, nor an option, nor "..".
Status CheckJobName(std::string_view where, std::string_view name);
// As brokers take it. (librdkafka would see a name up to its first NUL.)
Status CheckTopicName(std::string_view where, std::string_view name);

}  // namespace millrace
