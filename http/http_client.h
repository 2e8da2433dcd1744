// A client of HTTP servers. Who uses it gives errors their place and remedy.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace millrace {

struct HttpClientRequest {
  std::string method = "GET";
  std::string url;                            // http or https
  std::vector<std::string> headers;           // "Name: value"
  std::string body;                           // empty: none is sent
  std::chrono::milliseconds timeout{10'000};  // of the whole answer
  size_t most_answer_bytes = size_t{1} << 20;
  // Gets the body of an answer with the status 200 as it comes, in parts of any size; false ends
  // the request as Cancelled. Not set: the body is in the answer.
  std::function<bool(std::string_view bytes)> on_bytes;
};

// For a part of a URL's path: each byte but the unreserved ones (RFC 3986, 2.3) as %XX.
std::string UrlEscaped(std::string_view text);

struct HttpAnswer {
  long status = 0;
  std::string body;
};

// One request at a time, over connections that are kept. Redirections are not followed. Used by one
// thread.
class HttpClient {
 public:
  struct Options {
    std::string ca_file;  // PEM, of those who may have signed certificates; empty: the system's
    std::string user;     // USER:PASSWORD, for basic authentication; empty: nobody logs in
    // Asked at least every 100 ms: whether a request that is under way is to end.
    std::function<bool()> is_cancelled;
  };

  // Connects to nobody. ResourceExhausted: libcurl cannot be set up.
  static StatusOr<std::unique_ptr<HttpClient>> Create(Options options);
  virtual ~HttpClient() = default;

  // Whatever the server answers is an answer. Errors, which say why and name no URL: Unavailable:
  // there is none, and there may be one the next time; Cancelled; OutOfRange: the answer has more
  // bytes; FailedPrecondition: any other, such as a certificate that does not fit.
  virtual StatusOr<HttpAnswer> Do(const HttpClientRequest& request) = 0;
};

}  // namespace millrace
