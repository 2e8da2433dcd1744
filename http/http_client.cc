#include "http/http_client.h"

#include <curl/curl.h>

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "base/printable.h"

namespace millrace {
namespace {

constexpr long kConnectTimeoutMs = 5'000;
constexpr int kSliceMs = 100;

struct FreeEasy {
  void operator()(CURL* curl) const { curl_easy_cleanup(curl); }
};
struct FreeMulti {
  void operator()(CURLM* multi) const { curl_multi_cleanup(multi); }
};
struct FreeList {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using Headers = std::unique_ptr<curl_slist, FreeList>;

Status OutOfMemory() { return absl::ResourceExhaustedError("libcurl cannot be set up"); }

// Whether it may be otherwise the next time.
bool MayPass(CURLcode code) {
  switch (code) {
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_PARTIAL_FILE:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
    case CURLE_SSL_CONNECT_ERROR:
      return true;
    default:
      return false;
  }
}

class CurlClient final : public HttpClient {
 public:
  explicit CurlClient(Options options) : options_(std::move(options)) {}
  ~CurlClient() override = default;

  Status Open() {
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) return OutOfMemory();
    multi_.reset(curl_multi_init());
    curl_.reset(curl_easy_init());
    return multi_ == nullptr || curl_ == nullptr ? OutOfMemory() : absl::OkStatus();
  }

  StatusOr<HttpAnswer> Do(const HttpClientRequest& request) override {
    request_ = &request;
    answer_ = HttpAnswer();
    error_[0] = '\0';
    is_too_long_ = false;
    MILLRACE_ASSIGN_OR_RETURN(const Headers headers, SetUp(request));
    if (curl_multi_add_handle(multi_.get(), curl_.get()) != CURLM_OK) return OutOfMemory();
    const StatusOr<CURLcode> code = Perform();
    (void)curl_multi_remove_handle(multi_.get(), curl_.get());
    MILLRACE_RETURN_IF_ERROR(code.status());
    if (*code != CURLE_OK) return Failed(*code);
    curl_easy_getinfo(curl_.get(), CURLINFO_RESPONSE_CODE, &answer_.status);
    return std::move(answer_);
  }

 private:
  template <typename Value>
  bool Set(CURLoption option, Value value) {
    return curl_easy_setopt(curl_.get(), option, value) == CURLE_OK;
  }

  // The headers outlive the request.
  StatusOr<Headers> SetUp(const HttpClientRequest& request) {
    curl_easy_reset(curl_.get());  // connections stay
    Headers headers;
    for (const std::string& header : request.headers) {
      curl_slist* const longer = curl_slist_append(headers.get(), header.c_str());
      if (longer == nullptr) return OutOfMemory();
      (void)headers.release();
      headers.reset(longer);
    }
    const bool is_set =
        Set(CURLOPT_NOSIGNAL, 1L) && Set(CURLOPT_PROTOCOLS_STR, "http,https") &&
        Set(CURLOPT_FOLLOWLOCATION, 0L) && Set(CURLOPT_CONNECTTIMEOUT_MS, kConnectTimeoutMs) &&
        Set(CURLOPT_TIMEOUT_MS, static_cast<long>(request.timeout.count())) &&
        Set(CURLOPT_TCP_KEEPALIVE, 1L) && Set(CURLOPT_URL, request.url.c_str()) &&
        Set(CURLOPT_HTTPHEADER, headers.get()) && Set(CURLOPT_USERAGENT, "millrace") &&
        Set(CURLOPT_ERRORBUFFER, error_) && Set(CURLOPT_WRITEFUNCTION, &CurlClient::OnBytes) &&
        Set(CURLOPT_WRITEDATA, this) &&
        (request.method == "GET" || Set(CURLOPT_CUSTOMREQUEST, request.method.c_str())) &&
        (request.body.empty() ||
         (Set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size())) &&
          Set(CURLOPT_POSTFIELDS, request.body.c_str()))) &&
        (options_.ca_file.empty() || Set(CURLOPT_CAINFO, options_.ca_file.c_str())) &&
        (options_.user.empty() ||
         (Set(CURLOPT_HTTPAUTH, CURLAUTH_BASIC) && Set(CURLOPT_USERPWD, options_.user.c_str())));
    if (!is_set) return OutOfMemory();
    return headers;
  }

  // Of the transfer that was added. Errors are those of Do.
  StatusOr<CURLcode> Perform() {
    for (;;) {
      int running = 0;
      if (curl_multi_perform(multi_.get(), &running) != CURLM_OK) return OutOfMemory();
      int left = 0;
      for (const CURLMsg* message = curl_multi_info_read(multi_.get(), &left); message != nullptr;
           message = curl_multi_info_read(multi_.get(), &left)) {
        if (message->msg == CURLMSG_DONE) return message->data.result;
      }
      if (options_.is_cancelled && options_.is_cancelled()) return absl::CancelledError("stopped");
      if (curl_multi_poll(multi_.get(), nullptr, 0, kSliceMs, nullptr) != CURLM_OK) {
        return OutOfMemory();
      }
    }
  }

  static size_t OnBytes(char* bytes, size_t, size_t count, void* client) {
    return static_cast<CurlClient*>(client)->Take({bytes, count}) ? count : 0;
  }

  // False ends the request with an error.
  bool Take(std::string_view bytes) {
    long status = 0;
    curl_easy_getinfo(curl_.get(), CURLINFO_RESPONSE_CODE, &status);
    if (status == 200 && request_->on_bytes) return request_->on_bytes(bytes);
    is_too_long_ = bytes.size() > request_->most_answer_bytes - answer_.body.size();
    if (!is_too_long_) answer_.body.append(bytes);
    return !is_too_long_;
  }

  Status Failed(CURLcode code) const {
    if (code == CURLE_WRITE_ERROR && is_too_long_) {
      return absl::OutOfRangeError("the answer has more than " +
                                   std::to_string(request_->most_answer_bytes) + " bytes");
    }
    if (code == CURLE_WRITE_ERROR) return absl::CancelledError("stopped");
    const std::string why = Printable(error_[0] != '\0' ? error_ : curl_easy_strerror(code));
    return MayPass(code) ? absl::UnavailableError(why) : absl::FailedPreconditionError(why);
  }

  const Options options_;
  std::unique_ptr<CURLM, FreeMulti> multi_;  // outlives its transfer
  std::unique_ptr<CURL, FreeEasy> curl_;
  char error_[CURL_ERROR_SIZE] = "";
  // Of the request that is under way, or the last one.
  const HttpClientRequest* request_ = nullptr;
  HttpAnswer answer_;
  bool is_too_long_ = false;
};

}  // namespace

StatusOr<std::unique_ptr<HttpClient>> HttpClient::Create(Options options) {
  auto client = std::make_unique<CurlClient>(std::move(options));
  MILLRACE_RETURN_IF_ERROR(client->Open());
  return std::unique_ptr<HttpClient>(std::move(client));
}

std::string UrlEscaped(std::string_view text) {
  constexpr std::string_view kUnreserved = "-._~";
  std::string escaped;
  for (const char c : text) {
    if (absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
        kUnreserved.find(c) != kUnreserved.npos) {
      escaped.push_back(c);
    } else {
      absl::StrAppendFormat(&escaped, "%%%02X", static_cast<unsigned char>(c));
    }
  }
  return escaped;
}

}  // namespace millrace
