#include "rpc/listener.h"

#include <chrono>

#include "rpc/credentials.h"

namespace millrace::grpc_internal {

void Listener::Shutdown() {
  if (server_) server_->Shutdown(std::chrono::system_clock::now());
}

Status Listener::Start(grpc::ServerBuilder& builder, grpc::Service& service,
                       const ListenerOptions& options) {
  SendGrpcLogToOurs();
  builder.AddListeningPort(options.address, ServerSide(options.tls), &port_);
  builder.RegisterService(&service);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, options.keepalive_ms);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, options.keepalive_timeout_ms);
  server_ = builder.BuildAndStart();
  if (server_ && port_ > 0) return absl::OkStatus();
  return absl::UnavailableError(options.what + " cannot be served at " + options.address +
                                ": the address is in use or is not one of this machine, or the TLS "
                                "certificate and key do not match (" +
                                options.flags + "-listen, " + options.flags + "-tls-cert, " +
                                options.flags + "-tls-key)");
}

}  // namespace millrace::grpc_internal
