// The start and the end of a gRPC server, for those who may include gRPC.
#pragma once

#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <memory>
#include <string>

#include "base/status.h"
#include "rpc/tls.h"

namespace millrace::grpc_internal {

struct ListenerOptions {
  std::string address;  // HOST:PORT; port 0: a free one
  RpcTls tls;
  // A caller that has vanished is noticed after the sum of these.
  int keepalive_ms = 0;
  int keepalive_timeout_ms = 0;
  std::string what;   // that is served; as in "answers"
  std::string flags;  // the beginning of the flags that say where; as in "--answers"
};

class Listener {
 public:
  ~Listener() { Shutdown(); }

  // Starts a server of `service`, which outlives it. `builder`: with what else it is made of.
  // Unavailable when it cannot listen there.
  Status Start(grpc::ServerBuilder& builder, grpc::Service& service,
               const ListenerOptions& options);
  // Ends the calls of a server that was started, and takes no more. Who has given it a completion
  // queue shuts that down after this, and waits for its end before the listener's.
  void Shutdown();
  // 0 before.
  int port() const { return port_; }

 private:
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace millrace::grpc_internal
