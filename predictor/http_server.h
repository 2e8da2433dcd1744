// HTTP/1.1 over TCP or TLS, by libmicrohttpd.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/status.h"
#include "predictor/prediction_service.h"

struct MHD_Daemon;

namespace millrace {

struct HttpServerOptions {
  std::string address = "127.0.0.1:8080";  // HOST:PORT; port 0: a free one
  unsigned threads = 2;
  size_t most_body_bytes = size_t{16} << 20;  // of a request; more is an error (413)
  size_t most_bytes = size_t{256} << 20;      // of all bodies that are held; beyond it: 503
  unsigned most_connections = 1000;           // further ones wait until one is closed
  // A connection is closed when its next request, with its body, has not come within it, or when
  // nothing of an answer has gone for as long.
  std::chrono::seconds timeout = std::chrono::seconds(30);
  // PEM texts. Empty: no TLS; client_ca: whoever connects must show a certificate of this
  // authority.
  std::string certificate;
  std::string key;
  std::string client_ca;
};

// Answers on threads of its own until it is destroyed, which takes no more connections, and waits
// for the requests that have begun, but no longer than 5 s.
class HttpServer {
 public:
  // Called on the server's threads, on several at once.
  using Handler = std::function<HttpResponse(const HttpRequest& request)>;
  // Called before the body comes, which `head` lacks. Returns an answer that does not depend on it:
  // the body is then not kept. May be empty.
  using Refuse = std::function<std::optional<HttpResponse>(const HttpRequest& head)>;

  // Errors name the address, or what is wrong with TLS.
  static StatusOr<std::unique_ptr<HttpServer>> Start(const HttpServerOptions& options,
                                                     Handler handler, Refuse refuse = nullptr);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  uint16_t port() const;

 private:
  struct Callbacks;
  class Waiting;
  struct StopDaemon {
    void operator()(MHD_Daemon* daemon) const;
  };

  HttpServer(HttpServerOptions options, Handler handler, Refuse refuse);
  Status Listen();

  const HttpServerOptions options_;
  const Handler handler_;
  const Refuse refuse_;
  const std::unique_ptr<Waiting> waiting_;
  std::atomic<size_t> held_bytes_ = 0;
  std::atomic<size_t> open_requests_ = 0;
  std::unique_ptr<MHD_Daemon, StopDaemon> daemon_;  // last: its threads use all of the above
};

}  // namespace millrace
