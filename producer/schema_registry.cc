#include "producer/schema_registry.h"

#include <algorithm>
#include <chrono>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/whole_file.h"
#include "formats/avro_schema.h"
#include "formats/registry_answer.h"
#include "http/http_client.h"

namespace millrace {
namespace {

constexpr std::chrono::seconds kAnswerTimeout(10);
// The schema is a string in JSON: each of its bytes may be escaped.
constexpr size_t kMostAnswerBytes = 2 * kMostSchemaBytes + 4096;
// The codes with which a registry has no such subject, version or schema.
constexpr int64_t kFirstNotFound = 40401;
constexpr int64_t kLastNotFound = 40403;

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

class HttpRegistry final : public SchemaRegistry {
 public:
  HttpRegistry(std::string url, std::unique_ptr<HttpClient> client)
      : url_(std::move(url)), client_(std::move(client)) {}

  StatusOr<std::string> Schema(uint32_t id) override {
    return Ask(absl::StrCat("/schemas/ids/", id));
  }

  StatusOr<std::string> Schema(const SchemaReference& reference) override {
    return Ask(
        absl::StrCat("/subjects/", UrlEscaped(reference.subject), "/versions/", reference.version));
  }

 private:
  StatusOr<std::string> Ask(const std::string& path) {
    HttpClientRequest request;
    request.url = url_ + path;
    request.headers = {"Accept: application/vnd.schemaregistry.v1+json, application/json"};
    request.timeout = kAnswerTimeout;
    request.most_answer_bytes = kMostAnswerBytes;
    StatusOr<HttpAnswer> answer = client_->Do(request);
    if (!answer.ok()) return Failed(answer.status());
    if (answer->status == 200) return std::move(answer->body);
    return Refused(*answer, path);
  }

  template <typename... Parts>
  std::string Text(const Parts&... parts) const {
    return absl::StrCat("the schema registry at ", url_, " ", parts...);
  }

  Status Failed(const Status& status) const {
    if (absl::IsCancelled(status)) return status;
    if (absl::IsOutOfRange(status)) {
      return absl::FailedPreconditionError(
          Text("answers with more than ", kMostAnswerBytes, " bytes: is it a schema registry?"));
    }
    if (absl::IsUnavailable(status)) {
      return absl::UnavailableError(Text("does not answer: ", status.message()));
    }
    return absl::FailedPreconditionError(
        Text("cannot be asked: ", status.message(),
             "; check --schema-registry, and --schema-registry-ca"));
  }

  Status Refused(const HttpAnswer& answer, const std::string& path) const {
    const long status = answer.status;
    const int64_t code = status == 404 ? RegistryErrorCode(answer.body) : 0;
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
  const std::unique_ptr<HttpClient> client_;
};

}  // namespace

StatusOr<std::unique_ptr<SchemaRegistry>> SchemaRegistry::Create(const Options& options) {
  MILLRACE_ASSIGN_OR_RETURN(std::string url, CheckUrl(options.url));
  HttpClient::Options client;
  if (!options.user_file.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(client.user, ReadUser(options.user_file));
  }
  if (!options.ca_file.empty()) MILLRACE_RETURN_IF_ERROR(CheckReadable(options.ca_file));
  client.ca_file = options.ca_file;
  client.is_cancelled = [stop = options.stop] { return stop->load(); };
  StatusOr<std::unique_ptr<HttpClient>> http = HttpClient::Create(std::move(client));
  if (!http.ok()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("--schema-registry: ", http.status().message()));
  }
  return std::make_unique<HttpRegistry>(std::move(url), *std::move(http));
}

}  // namespace millrace
