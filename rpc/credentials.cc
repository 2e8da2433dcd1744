#include "rpc/credentials.h"

#include <grpc/support/log.h>
#include <spdlog/spdlog.h>

#include <fstream>
#include <sstream>
#include <string_view>

#include "base/printable.h"

namespace millrace {
namespace {

StatusOr<std::string> ReadPem(const std::string& path, const char* what) {
  if (path.empty()) return std::string();
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file || !text) {
    return absl::NotFoundError("the " + std::string(what) + " " + path +
                               " cannot be read; check its path and permissions");
  }
  if (text.str().find("-----BEGIN ") == std::string::npos) {
    return absl::InvalidArgumentError("the " + std::string(what) + " " + path +
                                      " is not a PEM file: it has no line -----BEGIN ...-----");
  }
  return text.str();
}

}  // namespace

StatusOr<RpcTls> ReadRpcTls(const std::string& certificate_file, const std::string& key_file,
                            const std::string& authority_file) {
  RpcTls tls;
  MILLRACE_ASSIGN_OR_RETURN(tls.certificate, ReadPem(certificate_file, "certificate"));
  MILLRACE_ASSIGN_OR_RETURN(tls.key, ReadPem(key_file, "key"));
  MILLRACE_ASSIGN_OR_RETURN(tls.authority, ReadPem(authority_file, "certificate authority"));
  return tls;
}

namespace grpc_internal {

std::shared_ptr<grpc::ServerCredentials> ServerSide(const RpcTls& tls) {
  if (!tls.used()) return grpc::InsecureServerCredentials();
  grpc::SslServerCredentialsOptions options(
      tls.authority.empty() ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                            : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = tls.authority;
  options.pem_key_cert_pairs.push_back({tls.key, tls.certificate});
  return grpc::SslServerCredentials(options);
}

std::shared_ptr<grpc::ChannelCredentials> ClientSide(const RpcTls& tls) {
  if (!tls.used()) return grpc::InsecureChannelCredentials();
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = tls.authority;
  if (!tls.authority.empty()) {
    options.pem_private_key = tls.key;
    options.pem_cert_chain = tls.certificate;
  }
  return grpc::SslCredentials(options);
}

void SendGrpcLogToOurs() {
  gpr_set_log_function([](gpr_log_func_args* said) {
    // After which it ends the process.
    const bool is_last = std::string_view(said->message).starts_with("assertion failed");
    spdlog::log(is_last ? spdlog::level::critical : spdlog::level::debug, "gRPC, {}:{}: {}",
                said->file, said->line, said->message);
  });
}

Status FromGrpc(int code, const std::string& message, const std::string& address) {
  // gRPC's codes are those of absl::StatusCode.
  return {static_cast<absl::StatusCode>(code), address + ": " + Printable(message)};
}

}  // namespace grpc_internal
}  // namespace millrace
