// The TLS credentials of processes that call each other by gRPC.
#pragma once

#include <string>

#include "base/status.h"

namespace millrace {

// PEM texts; all empty: no TLS. With a certificate authority both
// sides must show a certificate that it signed (mutual TLS); without, a caller checks the server
// against the system's authorities and shows nothing.
struct RpcTls {
  std::string certificate;
  std::string key;
  std::string authority;
  // Each side can check the other.
  bool mutual() const { return !certificate.empty() && !authority.empty(); }
  bool used() const { return !certificate.empty() || !authority.empty(); }
};

// Reads the files; an empty name leaves its text empty. NotFound or InvalidArgument with the file's
// name, and never its content.
StatusOr<RpcTls> ReadRpcTls(const std::string& certificate_file, const std::string& key_file,
                            const std::string& authority_file);

}  // namespace millrace
