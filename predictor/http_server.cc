#include "predictor/http_server.h"

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <microhttpd.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "predictor/request_head.h"

namespace millrace {
namespace {

using Now = std::chrono::steady_clock;

constexpr std::chrono::seconds kMostWaitToStop(5);

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&&) = delete;
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  int fd() const { return fd_; }
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

Status CannotListen(const std::string& address, std::string_view why) {
  return absl::UnavailableError(absl::StrCat("cannot listen on ", address, ": ",
                                             absl::string_view(why.data(), why.size()),
                                             "; give another --listen HOST:PORT"));
}

StatusOr<Socket> ListenOn(const std::string& address) {
  const size_t colon = address.rfind(':');
  MILLRACE_CHECK(colon != std::string::npos);
  std::string host = address.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), address.substr(colon + 1).c_str(), &hints, &found);
  if (error != 0) return CannotListen(address, gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> addresses(found, &freeaddrinfo);
  int failed = 0;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    Socket socket(::socket(each->ai_family, each->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int on = 1;
    if (socket.fd() >= 0 &&
        setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
        bind(socket.fd(), each->ai_addr, each->ai_addrlen) == 0 &&
        listen(socket.fd(), SOMAXCONN) == 0) {
      return socket;
    }
    failed = errno;
  }
  return CannotListen(address, std::strerror(failed));
}

// Whether there are certificates in the text, if there is one.
Status CheckAuthority(const std::string& pem) {
  if (pem.empty()) return absl::OkStatus();
  // (The library takes a pointer to what it only reads.)
  const gnutls_datum_t text{.data = reinterpret_cast<unsigned char*>(
                                const_cast<char*>(pem.data())),  // NOLINT(*-const-cast)
                            .size = static_cast<unsigned>(pem.size())};
  gnutls_x509_crt_t* found = nullptr;
  unsigned count = 0;
  const int error = gnutls_x509_crt_list_import2(&found, &count, &text, GNUTLS_X509_FMT_PEM, 0);
  if (error < 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the authority (--tls-ca) is no certificate in PEM: ", gnutls_strerror(error)));
  }
  for (unsigned i = 0; i < count; ++i) gnutls_x509_crt_deinit(found[i]);
  gnutls_free(static_cast<void*>(found));
  return absl::OkStatus();
}

// A request, from its head to the end of its answer.
struct OpenRequest {
  std::string body;
  std::optional<HttpResponse> refused;  // what is still to come of it is not kept
};

HttpResponse ErrorOf(int status, std::string_view message) {
  return {.status = status, .body = "{\"error\":\"" + std::string(message) + "\"}\n"};
}

// `closes`: the connection, since what comes next on it is not known to be a request.
MHD_Result Send(MHD_Connection* connection, HttpResponse answer, bool closes = false) {
  // (The library frees the text when it has been sent.)
  auto body = std::make_unique<std::string>(std::move(answer.body));
  MHD_Response* response = MHD_create_response_from_buffer_with_free_callback_cls(
      body->size(), body->data(), [](void* text) { delete static_cast<std::string*>(text); },
      body.get());
  if (response != nullptr) (void)body.release();
  if (response == nullptr) return MHD_NO;
  MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE,
                          std::string(answer.content_type).c_str());
  if (closes) MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
  if (!answer.allow.empty()) {
    MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, std::string(answer.allow).c_str());
  }
  if (answer.status == MHD_HTTP_UNAUTHORIZED) {
    MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
  }
  const MHD_Result queued =
      MHD_queue_response(connection, static_cast<unsigned>(answer.status), response);
  MHD_destroy_response(response);
  return queued;
}

std::string_view HeaderOf(MHD_Connection* connection, const char* name) {
  const char* value = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

MHD_Result AddParameter(void* query, MHD_ValueKind /*kind*/, const char* name, size_t name_size,
                        const char* value, size_t value_size) {
  if (name_size == 0 && value_size == 0) return MHD_YES;  // A=1&&B=2
  static_cast<std::vector<HttpParameter>*>(query)->push_back(
      {.name = {name, name_size},
       .value = value == nullptr ? std::string_view() : std::string_view(value, value_size)});
  return MHD_YES;
}

MHD_Result AddHeader(void* head, MHD_ValueKind /*kind*/, const char* name, size_t name_size,
                     const char* value, size_t value_size) {
  static_cast<RequestHead*>(head)->Add(
      {name, name_size},
      value == nullptr ? std::string_view() : std::string_view(value, value_size));
  return MHD_YES;
}

// What does not change while its body comes.
HttpRequest HeadOf(MHD_Connection* connection, const char* url, const char* method) {
  HttpRequest request{
      .method = method,
      .path = url,
      .content_type = HeaderOf(connection, MHD_HTTP_HEADER_CONTENT_TYPE),
      .authorization = HeaderOf(connection, MHD_HTTP_HEADER_AUTHORIZATION),
  };
  MHD_get_connection_values_n(connection, MHD_GET_ARGUMENT_KIND, &AddParameter, &request.query);
  return request;
}

// Empty, or why another server may see another request here.
std::string_view WhyEndIsUnclear(MHD_Connection* connection, const char* version) {
  RequestHead head(version);
  MHD_get_connection_values_n(connection, MHD_HEADER_KIND, &AddHeader, &head);
  return head.WhyEndIsUnclear();
}

int FdOf(MHD_Connection* connection) {
  return MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
}

// The library asks for a certificate, and leaves it to us whether it is one of the authority.
bool HasShownCertificate(MHD_Connection* connection) {
  const MHD_ConnectionInfo* info =
      MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
  unsigned wrong = 0;
  return info != nullptr &&
         gnutls_certificate_verify_peers2(static_cast<gnutls_session_t>(info->tls_session),
                                          &wrong) == GNUTLS_E_SUCCESS &&
         wrong == 0;
}

}  // namespace

// Cuts off connections whose next request does not come to its end in time. (The library closes
// those on which nothing moves; whoever sends a byte now and then could stay for ever.)
// Thread-safe.
class HttpServer::Waiting {
 public:
  explicit Waiting(std::chrono::seconds limit) : limit_(limit) {}

  // A request is waited for on the connection with this socket, from now on.
  void Begin(int fd) {
    const std::lock_guard lock(mutex_);
    since_[fd] = Now::now();
  }
  // It has come, or the connection is about to be closed.
  void End(int fd) {
    const std::lock_guard lock(mutex_);
    since_.erase(fd);
  }

 private:
  void Run(const std::stop_token& stop) {
    constexpr std::chrono::milliseconds kLook(200);
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, stop, kLook, [&stop] { return stop.stop_requested(); })) {
      const Now::time_point now = Now::now();
      for (const auto& [fd, since] : since_) {
        if (now - since > limit_) (void)shutdown(fd, SHUT_RDWR);
      }
    }
  }

  const std::chrono::seconds limit_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::map<int, Now::time_point> since_;  // guarded by mutex_
  // Last: it uses the others.
  std::jthread thread_{[this](const std::stop_token& stop) { Run(stop); }};
};

// What the library calls. (It knows functions and pointers only.)
struct HttpServer::Callbacks {
  static void Notify(void* server, MHD_Connection* connection, void** /*state*/,
                     MHD_ConnectionNotificationCode what) {
    Waiting& waiting = *static_cast<HttpServer*>(server)->waiting_;
    const int fd = FdOf(connection);
    what == MHD_CONNECTION_NOTIFY_STARTED ? waiting.Begin(fd) : waiting.End(fd);
  }

  // Called at the head of a request, then for each part of its body, then at its end.
  static MHD_Result Access(void* server, MHD_Connection* connection, const char* url,
                           const char* method, const char* version, const char* data, size_t* size,
                           void** state) {
    HttpServer& self = *static_cast<HttpServer*>(server);
    if (*state == nullptr) {
      *state = Begin(self, connection, HeadOf(connection, url, method)).release();
      const std::string_view unclear = WhyEndIsUnclear(connection, version);
      if (unclear.empty()) return MHD_YES;
      // Nothing more is read: it may be a request that somebody has hidden in this one.
      self.waiting_->End(FdOf(connection));
      return Send(connection, ErrorOf(MHD_HTTP_BAD_REQUEST, unclear), /*closes=*/true);
    }
    OpenRequest& open = *static_cast<OpenRequest*>(*state);
    if (*size > 0) {
      Take(self, {data, std::exchange(*size, 0)}, open);
      return MHD_YES;
    }
    self.waiting_->End(FdOf(connection));
    if (open.refused) return Send(connection, *std::exchange(open.refused, std::nullopt));
    HttpRequest request = HeadOf(connection, url, method);
    request.body = open.body;
    return Send(connection, self.handler_(request));
  }

  static void Completed(void* server, MHD_Connection* connection, void** state,
                        MHD_RequestTerminationCode how) {
    HttpServer& self = *static_cast<HttpServer*>(server);
    if (how == MHD_REQUEST_TERMINATED_COMPLETED_OK) self.waiting_->Begin(FdOf(connection));
    if (*state == nullptr) return;
    const std::unique_ptr<OpenRequest> request(static_cast<OpenRequest*>(*state));
    *state = nullptr;
    self.held_bytes_ -= request->body.size();
    --self.open_requests_;
  }

 private:
  static std::unique_ptr<OpenRequest> Begin(HttpServer& self, MHD_Connection* connection,
                                            const HttpRequest& head) {
    auto request = std::make_unique<OpenRequest>();
    ++self.open_requests_;
    if (!self.options_.client_ca.empty() && !HasShownCertificate(connection)) {
      Refuse(self, MHD_HTTP_FORBIDDEN, "show a certificate of the server's authority", *request);
    } else if (self.refuse_) {
      request->refused = self.refuse_(head);
    }
    return request;
  }

  // The rest of a refused request is read, and forgotten: who sends looks for an answer at the end.
  static void Refuse(HttpServer& self, int status, std::string_view message, OpenRequest& request) {
    self.held_bytes_ -= request.body.size();
    request.body = std::string();
    request.refused = ErrorOf(status, message);
  }

  static void Take(HttpServer& self, std::string_view data, OpenRequest& request) {
    if (request.refused) return;
    const HttpServerOptions& options = self.options_;
    if (data.size() > options.most_body_bytes - request.body.size()) {
      return Refuse(self, MHD_HTTP_CONTENT_TOO_LARGE,
                    absl::StrCat("a request may have ", options.most_body_bytes,
                                 " bytes; send its rows as several"),
                    request);
    }
    request.body += data;
    const size_t held = self.held_bytes_ += data.size();
    if (held > options.most_bytes) {
      Refuse(self, MHD_HTTP_SERVICE_UNAVAILABLE, "there are too many requests; try again", request);
    }
  }
};

void HttpServer::StopDaemon::operator()(MHD_Daemon* daemon) const { MHD_stop_daemon(daemon); }

HttpServer::HttpServer(HttpServerOptions options, Handler handler, Refuse refuse)
    : options_(std::move(options)),
      handler_(std::move(handler)),
      refuse_(std::move(refuse)),
      waiting_(std::make_unique<Waiting>(options_.timeout)) {}

HttpServer::~HttpServer() {
  if (daemon_ == nullptr) return;
  const int socket = MHD_quiesce_daemon(daemon_.get());
  if (socket != MHD_INVALID_SOCKET) close(socket);
  const Now::time_point latest = Now::now() + kMostWaitToStop;
  while (open_requests_ > 0 && Now::now() < latest) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(const HttpServerOptions& options,
                                                        Handler handler, Refuse refuse) {
  MILLRACE_RETURN_IF_ERROR(CheckAuthority(options.client_ca));
  auto server =
      std::unique_ptr<HttpServer>(new HttpServer(options, std::move(handler), std::move(refuse)));
  MILLRACE_RETURN_IF_ERROR(server->Listen());
  return server;
}

Status HttpServer::Listen() {
  MILLRACE_ASSIGN_OR_RETURN(Socket socket, ListenOn(options_.address));
  std::vector<MHD_OptionItem> more;
  unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_ITC;
  const auto add_text = [&more](MHD_OPTION option, const std::string& text) {
    // (As before: it is only read.)
    more.push_back({option, 0, const_cast<char*>(text.c_str())});  // NOLINT(*-const-cast)
  };
  if (!options_.certificate.empty()) {
    flags |= MHD_USE_TLS;
    add_text(MHD_OPTION_HTTPS_MEM_CERT, options_.certificate);
    add_text(MHD_OPTION_HTTPS_MEM_KEY, options_.key);
    if (!options_.client_ca.empty()) add_text(MHD_OPTION_HTTPS_MEM_TRUST, options_.client_ca);
  }
  more.push_back({MHD_OPTION_END, 0, nullptr});
  daemon_.reset(MHD_start_daemon(flags, 0, nullptr, nullptr, &Callbacks::Access, this,            //
                                 MHD_OPTION_LISTEN_SOCKET, static_cast<MHD_socket>(socket.fd()),  //
                                 MHD_OPTION_THREAD_POOL_SIZE, options_.threads,                   //
                                 MHD_OPTION_CONNECTION_LIMIT, options_.most_connections,          //
                                 MHD_OPTION_CONNECTION_TIMEOUT,
                                 static_cast<unsigned>(options_.timeout.count()),
                                 MHD_OPTION_NOTIFY_COMPLETED, &Callbacks::Completed, this,  //
                                 MHD_OPTION_NOTIFY_CONNECTION, &Callbacks::Notify, this,    //
                                 MHD_OPTION_STRICT_FOR_CLIENT, 1,                           //
                                 MHD_OPTION_ARRAY, more.data(), MHD_OPTION_END));
  if (daemon_ == nullptr) {
    if (options_.certificate.empty()) return CannotListen(options_.address, std::strerror(errno));
    return absl::FailedPreconditionError(
        "certificate and key (--tls-cert, --tls-key) make no TLS server: look whether both are "
        "PEM, "
        "and whether the key is the certificate's");
  }
  (void)socket.Release();  // the daemon closes it
  return absl::OkStatus();
}

uint16_t HttpServer::port() const {
  const MHD_DaemonInfo* info = MHD_get_daemon_info(daemon_.get(), MHD_DAEMON_INFO_BIND_PORT);
  MILLRACE_CHECK(info != nullptr);
  return info->port;
}

}  // namespace millrace
