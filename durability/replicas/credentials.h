// gRPC's view of ReplicaTls. Private to this folder.
#pragma once

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

#include <memory>
#include <string>

#include "base/status.h"
#include "durability/replicas/tls.h"

namespace millrace::grpc_internal {

std::shared_ptr<grpc::ServerCredentials> ServerSide(const ReplicaTls& tls);
std::shared_ptr<grpc::ChannelCredentials> ClientSide(const ReplicaTls& tls);

// gRPC's own errors go to our log instead of stderr, at level debug: the call that fails says it,
// too.
void SendGrpcLogToOurs();

// What a call said, with who was called.
Status FromGrpc(int code, const std::string& message, const std::string& address);

}  // namespace millrace::grpc_internal
