// Whether a program could listen at an address.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace millrace {

// `host`: an address, in brackets or not, or a name. OK: a socket could be bound there just now.
// FailedPrecondition: "is in use by another program", "is no address of this machine"; the message
// is what stands behind the address in a sentence. NotFound: nobody knows the name.
Status CheckCanListen(const std::string& host, uint32_t port);

}  // namespace millrace
