// The address at which others reach a process.
#pragma once

#include <string>

#include "rpc/tls.h"

namespace millrace {

// The address that others connect to: `advertise`, or else `listen` (a wildcard host becomes this
// machine's name), with the port that is actually bound.
std::string AdvertisedAddress(const std::string& listen, const std::string& advertise, int port);

// Whether a process may connect to an address that comes from a topic: without mutual TLS whoever
// can write there could give a model, so only on this machine, unless `insecure`.
bool MayConnect(const std::string& address, const RpcTls& tls, bool insecure);

}  // namespace millrace
