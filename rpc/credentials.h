// gRPC's view of RpcTls, for those who may include gRPC.
#pragma once

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

#include <memory>
#include <string>

#include "base/status.h"
#include "rpc/tls.h"

namespace millrace::grpc_internal {

std::shared_ptr<grpc::ServerCredentials> ServerSide(const RpcTls& tls);
std::shared_ptr<grpc::ChannelCredentials> ClientSide(const RpcTls& tls);

// Sends gRPC's own errors to Millrace's log at level debug, instead of to stderr: the status of the
// failed call contains them, too.
void SendGrpcLogToOurs();

// The status of a call, with the address that was called.
Status FromGrpc(int code, const std::string& message, const std::string& address);

}  // namespace millrace::grpc_internal
