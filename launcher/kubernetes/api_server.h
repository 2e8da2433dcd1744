// The REST interface of a Kubernetes cluster's API server: objects of one namespace.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "http/http_client.h"

namespace millrace {

struct ApiServerOptions {
  // https://HOST[:PORT], or http:// to this machine; empty: that of the cluster in which this
  // process runs (KUBERNETES_SERVICE_HOST and _PORT).
  std::string url;
  // Of the service account: the files token, ca.crt and namespace. One that is missing is not used.
  std::string account_folder = "/var/run/secrets/kubernetes.io/serviceaccount";
  std::string kube_namespace;  // empty: that of the service account
  // A server that was away refuses for a moment what nobody has forbidden (403): it answers before
  // it has read the roles. So such an answer counts as "not now" for so long after it was away.
  std::chrono::milliseconds roles_known_after{30'000};
  bool has_been_away = false;  // just before the client is created
};

// Used by one thread.
class ApiServer {
 public:
  // Connects to nobody. `is_cancelled`: HttpClient's. InvalidArgument: the URL or the namespace is
  // none, or is not known; FailedPrecondition: of a file.
  static StatusOr<std::unique_ptr<ApiServer>> Create(const ApiServerOptions& options,
                                                     std::function<bool()> is_cancelled);

  // `path`: below the namespace, "pods/NAME?query". The body is JSON, that of PATCH a strategic
  // merge patch. The answer has one of the statuses 200, 201, 202, 404, 409 (also for a patch that
  // names another uid) and 410. Errors, which
  // name the server: Unavailable: no answer, or not now; PermissionDenied: the account lacks a
  // right, or its token is not accepted; InvalidArgument: the object is refused; Cancelled;
  // FailedPrecondition: any other answer, which is none of an API server. A right that is lacking
  // is Unavailable while ApiServerOptions.roles_known_after goes on.
  StatusOr<HttpAnswer> Ask(std::string_view method, std::string_view path,
                           std::string_view body = {});
  // The lines of a watch, as they come, until the server ends it, or `on_line` returns false.
  // Errors: those of Ask; OutOfRange: the version is too old (410).
  Status Watch(std::string_view path, const std::function<bool(std::string_view line)>& on_line);

  const std::string& kube_namespace() const { return namespace_; }
  // So that refusals may be those of a server that has just begun.
  bool has_been_away() const { return std::chrono::steady_clock::now() < roles_known_at_; }

 private:
  ApiServer(std::string url, const ApiServerOptions& options, std::string kube_namespace,
            std::unique_ptr<HttpClient> client);

  StatusOr<HttpAnswer> Do(HttpClientRequest request, const std::string& path);
  // Of an answer that is an error, or of none.
  StatusOr<HttpAnswer> Judge(const HttpClientRequest& request, StatusOr<HttpAnswer> answer) const;
  Status Refused(const HttpClientRequest& request, const HttpAnswer& answer) const;

  const std::string url_;
  const std::string account_folder_;
  const std::string namespace_;
  const std::chrono::milliseconds roles_known_after_;
  // Until then a refusal may be that of a server that has just begun.
  std::chrono::steady_clock::time_point roles_known_at_{};
  const std::unique_ptr<HttpClient> client_;
};

}  // namespace millrace
