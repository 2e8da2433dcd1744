#include "launcher/kubernetes/api_server.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/host_and_port.h"
#include "base/printable.h"
#include "base/whole_file.h"
#include "launcher/kubernetes/pod.h"

namespace millrace {
namespace {

constexpr std::chrono::seconds kAnswerTimeout(10);
// The server ends a watch after so long, and the client some time later if it did not.
constexpr int kWatchSeconds = 120;
constexpr std::chrono::seconds kWatchTimeout(kWatchSeconds + 15);
constexpr size_t kMostAnswerBytes = size_t{256} << 20;  // thousands of pods, some kB each
constexpr size_t kMostLineBytes = size_t{4} << 20;
constexpr size_t kMostFileBytes = size_t{1} << 20;

std::string Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

StatusOr<std::string> UrlOfCluster() {
  std::string host = Variable("KUBERNETES_SERVICE_HOST");
  if (host.empty()) {
    return absl::InvalidArgumentError(
        "this process runs in no Kubernetes cluster (KUBERNETES_SERVICE_HOST is not set): give "
        "--kubernetes-api, or use --launcher local");
  }
  if (host.find(':') != std::string::npos) host = absl::StrCat("[", host, "]");
  const std::string port = Variable("KUBERNETES_SERVICE_PORT");
  return absl::StrCat("https://", host, port.empty() ? "" : ":", port);
}

StatusOr<std::string> CheckApiUrl(std::string url) {
  if (url.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(url, UrlOfCluster());
  }
  while (url.ends_with('/')) url.pop_back();
  const bool is_http = url.starts_with("http://");
  const std::string authority = url.substr(std::min(url.size(), size_t{is_http ? 7u : 8u}));
  const auto is_odd = [](char c) {
    return c <= ' ' || c > '~' || c == '?' || c == '#' || c == '@';
  };
  if ((!is_http && !url.starts_with("https://")) || authority.empty() ||
      std::ranges::any_of(url, is_odd)) {
    return absl::InvalidArgumentError("--kubernetes-api: give a URL such as https://10.96.0.1:443");
  }
  const std::string host_and_port = authority.substr(0, authority.find('/'));
  if (is_http && !IsLoopback(host_and_port)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--kubernetes-api ", url,
        ": without TLS the token could be read on the way; give https://, or the address of "
        "kubectl proxy on this machine, such as http://127.0.0.1:8001"));
  }
  return url;
}

// The text of a file of the service account without its line's end; empty: there is no such file.
StatusOr<std::string> ReadAccount(const std::string& folder, const char* name) {
  const std::string path = absl::StrCat(folder, "/", name);
  std::error_code error;
  if (!std::filesystem::exists(path, error) && !error) return "";
  const StatusOr<std::string> text = ReadWholeFile(path, kMostFileBytes);
  if (!text.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " (--kubernetes-account) cannot be read: ", text.status().message()));
  }
  return text->substr(0, text->find_last_not_of(" \t\r\n") + 1);
}

bool IsNamespace(std::string_view name) {
  return !name.empty() && name.size() <= 63 && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
}

// Gives whole lines on, from parts of any size.
class Lines {
 public:
  explicit Lines(const std::function<bool(std::string_view)>& on_line) : on_line_(on_line) {}

  bool Take(std::string_view bytes) {
    for (size_t end = bytes.find('\n'); end != std::string_view::npos; end = bytes.find('\n')) {
      begun_.append(bytes.substr(0, end));
      bytes.remove_prefix(end + 1);
      if (!begun_.empty() && !on_line_(begun_)) return false;
      begun_.clear();
    }
    begun_.append(bytes);
    return begun_.size() <= kMostLineBytes;
  }

 private:
  const std::function<bool(std::string_view)>& on_line_;
  std::string begun_;
};

}  // namespace

StatusOr<std::unique_ptr<ApiServer>> ApiServer::Create(const ApiServerOptions& options,
                                                       std::function<bool()> is_cancelled) {
  MILLRACE_ASSIGN_OR_RETURN(std::string url, CheckApiUrl(options.url));
  std::string kube_namespace = options.kube_namespace;
  if (kube_namespace.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(kube_namespace, ReadAccount(options.account_folder, "namespace"));
  }
  if (!IsNamespace(kube_namespace)) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", Printable(kube_namespace, 100),
                     "\" is no namespace of a Kubernetes cluster: give --kubernetes-namespace (",
                     options.account_folder, "/namespace has the default)"));
  }
  HttpClient::Options http;
  http.is_cancelled = std::move(is_cancelled);
  MILLRACE_ASSIGN_OR_RETURN(const std::string authorities,
                            ReadAccount(options.account_folder, "ca.crt"));
  if (!authorities.empty()) http.ca_file = options.account_folder + "/ca.crt";
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<HttpClient> client,
                            HttpClient::Create(std::move(http)));
  return std::unique_ptr<ApiServer>(
      new ApiServer(std::move(url), options, std::move(kube_namespace), std::move(client)));
}

ApiServer::ApiServer(std::string url, const ApiServerOptions& options, std::string kube_namespace,
                     std::unique_ptr<HttpClient> client)
    : url_(std::move(url)),
      account_folder_(options.account_folder),
      namespace_(std::move(kube_namespace)),
      roles_known_after_(options.roles_known_after),
      client_(std::move(client)) {
  if (options.has_been_away) {
    roles_known_at_ = std::chrono::steady_clock::now() + roles_known_after_;
  }
}

StatusOr<HttpAnswer> ApiServer::Do(HttpClientRequest request, const std::string& path) {
  request.url = absl::StrCat(url_, "/api/v1/namespaces/", namespace_, "/", path);
  request.headers = {"Accept: application/json"};
  // A token holds for an hour or so, and is replaced by then.
  MILLRACE_ASSIGN_OR_RETURN(const std::string token, ReadAccount(account_folder_, "token"));
  if (!token.empty() && !HasControls(token)) {
    request.headers.push_back("Authorization: Bearer " + token);
  }
  if (!request.body.empty()) {
    const bool is_patch = request.method == "PATCH";
    request.headers.push_back(absl::StrCat("Content-Type: application/",
                                           is_patch ? "strategic-merge-patch+json" : "json"));
  }
  StatusOr<HttpAnswer> answer = Judge(request, client_->Do(request));
  const auto now = std::chrono::steady_clock::now();
  if (absl::IsUnavailable(answer.status())) {
    roles_known_at_ = now + roles_known_after_;
  } else if (absl::IsPermissionDenied(answer.status()) && now < roles_known_at_) {
    return absl::UnavailableError(answer.status().message());
  }
  return answer;
}

StatusOr<HttpAnswer> ApiServer::Judge(const HttpClientRequest& request,
                                      StatusOr<HttpAnswer> answer) const {
  if (!answer.ok()) {
    if (absl::IsCancelled(answer.status())) return answer.status();
    const std::string text = absl::StrCat("the Kubernetes API server at ", url_,
                                          " does not answer: ", answer.status().message());
    if (absl::IsUnavailable(answer.status())) return absl::UnavailableError(text);
    return absl::FailedPreconditionError(
        absl::StrCat(text, "; check --kubernetes-api, and ca.crt of --kubernetes-account"));
  }
  switch (answer->status) {
    case 200:
    case 201:
    case 202:
    case 404:
    case 409:
    case 410:
      return answer;
    case 422:
      // How a patch for an object of another uid is refused, which is gone.
      if (request.method == "PATCH" &&
          ErrorMessage(answer->body).find("metadata.uid") != std::string::npos) {
        answer->status = 409;
        return answer;
      }
      return Refused(request, *answer);
    default:
      return Refused(request, *answer);
  }
}

Status ApiServer::Refused(const HttpClientRequest& request, const HttpAnswer& answer) const {
  const std::string text = absl::StrCat(
      "the Kubernetes API server at ", url_, " answers with the status ", answer.status, " to ",
      request.method, " in the namespace ", namespace_, ": ", ErrorMessage(answer.body));
  if (answer.status == 401) {
    return absl::PermissionDeniedError(
        absl::StrCat(text, "; check the token in ", account_folder_, " (--kubernetes-account)"));
  }
  if (answer.status == 403) {
    return absl::PermissionDeniedError(absl::StrCat(
        text,
        "; give the service account the role of docker/kubernetes/access.yaml, or, if the "
        "namespace's quota is exceeded, raise it"));
  }
  if (answer.status == 408 || answer.status == 429 || answer.status >= 500) {
    return absl::UnavailableError(text);
  }
  if (answer.status == 400 || answer.status == 422) return absl::InvalidArgumentError(text);
  return absl::FailedPreconditionError(absl::StrCat(text, "; check --kubernetes-api"));
}

StatusOr<HttpAnswer> ApiServer::Ask(std::string_view method, std::string_view path,
                                    std::string_view body) {
  HttpClientRequest request;
  request.method = method;
  request.body = body;
  request.timeout = kAnswerTimeout;
  request.most_answer_bytes = kMostAnswerBytes;
  return Do(std::move(request), std::string(path));
}

Status ApiServer::Watch(std::string_view path,
                        const std::function<bool(std::string_view line)>& on_line) {
  Lines lines(on_line);
  HttpClientRequest request;
  request.timeout = kWatchTimeout;
  request.most_answer_bytes = kMostLineBytes;
  request.on_bytes = [&](std::string_view bytes) { return lines.Take(bytes); };
  const StatusOr<HttpAnswer> answer =
      Do(std::move(request),
         absl::StrCat(std::string(path),
                      "&watch=1&allowWatchBookmarks=true&timeoutSeconds=", kWatchSeconds));
  MILLRACE_RETURN_IF_ERROR(answer.status());
  if (answer->status == 200) return absl::OkStatus();
  if (answer->status == 410) return absl::OutOfRangeError(ErrorMessage(answer->body));
  return absl::FailedPreconditionError(
      absl::StrCat("the Kubernetes API server at ", url_, " answers with the status ",
                   answer->status, " to a watch of the namespace ", namespace_,
                   "; check --kubernetes-api and --kubernetes-namespace"));
}

}  // namespace millrace
