#include "producer/schema_registry.h"

#include <curl/curl.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/printable.h"
#include "base/whole_file.h"
#include "formats/avro_schema.h"

namespace millrace {
namespace {

constexpr long kConnectTimeoutMs = 5'000;
constexpr long kAnswerTimeoutMs = 10'000;
// The schema is a string in JSON: each of its bytes may be escaped.
constexpr size_t kMostAnswerBytes = 2 * kMostSchemaBytes + 4096;
// The codes with which a registry has no such subject, version or schema.
constexpr int64_t kFirstNotFound = 40401;
constexpr int64_t kLastNotFound = 40403;

struct FreeEasy {
  void operator()(CURL* curl) const { curl_easy_cleanup(curl); }
};
struct FreeText {
  void operator()(char* text) const { curl_free(text); }
};
struct FreeList {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

StatusOr<std::string> CheckUrl(std::string url) {
  const bool is_http = url.starts_with("http://");
  if (!is_http && !url.starts_with("https://")) {
    return absl::InvalidArgumentError(
        "--schema-registry: give a URL such as https://registry.example.com:8081");
  }
  const size_t host = is_http ? 7 : 8;
  const std::string authority = url.substr(host, url.find('/', host) - host);
  // Not repeated here: it may have a password.
  if (authority.find('@') != std::string::npos) {
    return absl::InvalidArgumentError(
        "--schema-registry: a URL with a password would be seen in lists of processes; give "
        "USER:PASSWORD in a file (--schema-registry-user-file)");
  }
  const auto is_odd = [](char c) { return c <= ' ' || c > '~' || c == '?' || c == '#'; };
  if (authority.empty() || std::ranges::any_of(url, is_odd)) {
    return absl::InvalidArgumentError(
        "--schema-registry: the URL has no host, or characters that none has before its query");
  }
  while (url.ends_with('/')) url.pop_back();
  return url;
}

StatusOr<std::string> ReadUser(const std::string& path) {
  constexpr size_t kMostBytes = 4096;
  const StatusOr<std::string> text = ReadWholeFile(path, kMostBytes);
  if (!text.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("--schema-registry-user-file ", path, ": ", text.status().message()));
  }
  std::string user = text->substr(0, text->find_last_not_of(" \t\r\n") + 1);
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < ' '; };
  if (user.find(':') != std::string::npos && std::ranges::none_of(user, is_control)) return user;
  return absl::FailedPreconditionError(
      absl::StrCat(path, " (--schema-registry-user-file) must be one line, USER:PASSWORD"));
}

Status CheckReadable(const std::string& path) {
  Status read = ReadWholeFile(path, size_t{16} << 20).status();
  if (read.ok()) return read;
  return absl::FailedPreconditionError(
      absl::StrCat("--schema-registry-ca ", path, ": ", read.message()));
}

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

class CurlRegistry final : public SchemaRegistry {
 public:
  CurlRegistry(std::string url, const std::atomic<bool>* stop)
      : url_(std::move(url)), stop_(stop) {}

  Status Open(const std::string& user, const std::string& ca_file) {
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) return OutOfMemory();
    curl_.reset(curl_easy_init());
    headers_.reset(curl_slist_append(
        nullptr, "Accept: application/vnd.schemaregistry.v1+json, application/json"));
    if (curl_ == nullptr || headers_ == nullptr) return OutOfMemory();
    const bool is_set =
        Set(CURLOPT_NOSIGNAL, 1L) && Set(CURLOPT_PROTOCOLS_STR, "http,https") &&
        Set(CURLOPT_FOLLOWLOCATION, 0L) && Set(CURLOPT_CONNECTTIMEOUT_MS, kConnectTimeoutMs) &&
        Set(CURLOPT_TIMEOUT_MS, kAnswerTimeoutMs) && Set(CURLOPT_HTTPHEADER, headers_.get()) &&
        Set(CURLOPT_USERAGENT, "millrace") && Set(CURLOPT_ERRORBUFFER, error_) &&
        Set(CURLOPT_WRITEFUNCTION, &CurlRegistry::OnBytes) && Set(CURLOPT_WRITEDATA, this) &&
        Set(CURLOPT_NOPROGRESS, 0L) && Set(CURLOPT_XFERINFOFUNCTION, &CurlRegistry::OnProgress) &&
        Set(CURLOPT_XFERINFODATA, this) &&
        (ca_file.empty() || Set(CURLOPT_CAINFO, ca_file.c_str())) &&
        (user.empty() ||
         (Set(CURLOPT_HTTPAUTH, CURLAUTH_BASIC) && Set(CURLOPT_USERPWD, user.c_str())));
    return is_set ? absl::OkStatus() : OutOfMemory();
  }

  StatusOr<std::string> Schema(uint32_t id) override {
    return Ask(absl::StrCat("/schemas/ids/", id));
  }

  StatusOr<std::string> Schema(const SchemaReference& reference) override {
    const std::string& subject = reference.subject;
    const std::unique_ptr<char, FreeText> escaped(
        curl_easy_escape(curl_.get(), subject.data(), static_cast<int>(subject.size())));
    if (escaped == nullptr) return OutOfMemory();
    return Ask(absl::StrCat("/subjects/", escaped.get(), "/versions/", reference.version));
  }

 private:
  StatusOr<std::string> Ask(const std::string& path) {
    const std::string url = url_ + path;
    body_.clear();
    error_[0] = '\0';
    if (!Set(CURLOPT_URL, url.c_str())) return OutOfMemory();
    const CURLcode code = curl_easy_perform(curl_.get());
    if (code != CURLE_OK) return Failed(code);
    long status = 0;
    curl_easy_getinfo(curl_.get(), CURLINFO_RESPONSE_CODE, &status);
    if (status == 200) return std::move(body_);
    return Refused(status, path);
  }

  template <typename Value>
  bool Set(CURLoption option, Value value) {
    return curl_easy_setopt(curl_.get(), option, value) == CURLE_OK;
  }
  static Status OutOfMemory() {
    return absl::ResourceExhaustedError("--schema-registry: libcurl cannot be set up");
  }
  template <typename... Parts>
  std::string Text(const Parts&... parts) const {
    return absl::StrCat("the schema registry at ", url_, " ", parts...);
  }

  static size_t OnBytes(char* bytes, size_t, size_t count, void* registry) {
    std::string& body = static_cast<CurlRegistry*>(registry)->body_;
    if (count > kMostAnswerBytes - body.size()) return 0;  // ends it with an error
    body.append(bytes, count);
    return count;
  }
  static int OnProgress(void* registry, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
    return *static_cast<CurlRegistry*>(registry)->stop_ ? 1 : 0;
  }

  Status Failed(CURLcode code) const {
    if (code == CURLE_ABORTED_BY_CALLBACK) return absl::CancelledError("stopped");
    if (code == CURLE_WRITE_ERROR) {
      return absl::FailedPreconditionError(
          Text("answers with more than ", kMostAnswerBytes, " bytes: is it a schema registry?"));
    }
    const std::string why = Printable(error_[0] != '\0' ? error_ : curl_easy_strerror(code));
    if (MayPass(code)) return absl::UnavailableError(Text("does not answer: ", why));
    return absl::FailedPreconditionError(
        Text("cannot be asked: ", why, "; check --schema-registry, and --schema-registry-ca"));
  }

  Status Refused(long status, const std::string& path) const {
    const int64_t code = status == 404 ? RegistryErrorCode(body_) : 0;
    if (code >= kFirstNotFound && code <= kLastNotFound) {
      return absl::NotFoundError(Text("has no such schema"));
    }
    const std::string what = Text("answers with the status ", status);
    if (status == 401 || status == 403) {
      return absl::PermissionDeniedError(absl::StrCat(what, ": check --schema-registry-user-file"));
    }
    if (status == 408 || status == 429 || status >= 500) return absl::UnavailableError(what);
    return absl::FailedPreconditionError(
        absl::StrCat(what, ", as none does to GET ", path, ": check --schema-registry"));
  }

  const std::string url_;
  const std::atomic<bool>* const stop_;
  std::unique_ptr<curl_slist, FreeList> headers_;  // outlives its user
  std::unique_ptr<CURL, FreeEasy> curl_;
  char error_[CURL_ERROR_SIZE] = "";
  std::string body_;
};

}  // namespace

StatusOr<std::unique_ptr<SchemaRegistry>> SchemaRegistry::Create(const Options& options) {
  MILLRACE_ASSIGN_OR_RETURN(std::string url, CheckUrl(options.url));
  std::string user;
  if (!options.user_file.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(user, ReadUser(options.user_file));
  }
  if (!options.ca_file.empty()) MILLRACE_RETURN_IF_ERROR(CheckReadable(options.ca_file));
  auto registry = std::make_unique<CurlRegistry>(std::move(url), options.stop);
  MILLRACE_RETURN_IF_ERROR(registry->Open(user, options.ca_file));
  return std::unique_ptr<SchemaRegistry>(std::move(registry));
}

}  // namespace millrace
