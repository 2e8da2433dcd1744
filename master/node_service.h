// Serves nodes of trainers by gRPC (messages/nodes.proto).
#pragma once

#include <cstdint>
#include <memory>

#include "master/node_desk.h"

namespace grpc {
class Service;
}

namespace millrace {

// For a server that ends before the desk. A node that joins is dead when it gives no sign for so
// many ticks.
std::unique_ptr<grpc::Service> MakeNodeService(uint64_t timeout_ticks, NodeDesk& desk);

}  // namespace millrace
