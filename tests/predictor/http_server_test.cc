#include "predictor/http_server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace millrace {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// A connection as a client has it.
class Client {
 public:
  explicit Client(uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    const timeval limit{.tv_sec = 20, .tv_usec = 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  }
  ~Client() { close(fd_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void Send(std::string_view text) {
    while (!text.empty()) {
      const ssize_t sent = send(fd_, text.data(), text.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;
      text.remove_prefix(static_cast<size_t>(sent));
    }
  }
  // Until the server closes.
  std::string ReadAll() {
    std::string text;
    std::array<char, 4096> part{};
    ssize_t got = 0;
    while ((got = recv(fd_, part.data(), part.size(), 0)) > 0) text.append(part.data(), got);
    return text;
  }

 private:
  int fd_;
};

std::unique_ptr<HttpServer> Start(HttpServerOptions options, HttpServer::Handler handler) {
  options.address = "127.0.0.1:0";
  auto server = HttpServer::Start(options, std::move(handler));
  EXPECT_TRUE(server.ok()) << server.status();
  return *std::move(server);
}

HttpResponse Echo(const HttpRequest& request) {
  return {.body = std::string(request.method) + " " + std::string(request.path) + " " +
                  std::string(request.content_type) + " " + std::string(request.authorization) +
                  " " + std::string(request.body)};
}

std::string Ask(const HttpServer& server, const std::string& text) {
  Client client(server.port());
  client.Send(text);
  return client.ReadAll();
}

TEST(HttpServer, HandsOverMethodPathHeadersAndBody) {
  const auto server = Start({}, Echo);
  const std::string answer =
      Ask(*server,
          "POST /predict?x=1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Type: t/u\r\n"
          "Authorization: Bearer z\r\nContent-Length: 5\r\n\r\nhello");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(answer, HasSubstr("Content-Type: application/json"));
  EXPECT_TRUE(answer.ends_with("\r\n\r\nPOST /predict t/u Bearer z hello")) << answer;
}

TEST(HttpServer, TakesABodyInChunksAndSeveralRequestsOnOneConnection) {
  const auto server = Start({}, Echo);
  const std::string answer = Ask(*server,
                                 "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                                 "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
                                 "GET /b HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(answer, HasSubstr("POST /a   abcde"));
  EXPECT_TRUE(answer.ends_with("GET /b   ")) << answer;
}

// What hides in the body of a request, or behind it, is no request of its own.
constexpr char kHidden[] = "GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n";

TEST(HttpServer, RefusesAHeadThatLeavesItOpenWhereTheBodyEnds) {
  std::atomic<int> calls = 0;
  const auto server = Start({}, [&](const HttpRequest& request) {
    ++calls;
    return Echo(request);
  });
  const std::string chunks = "5\r\nhello\r\n0\r\n\r\n";
  const std::string length = "Content-Length: 5\r\n";
  const std::string encoding = "Transfer-Encoding: chunked\r\n";
  const std::vector<std::pair<std::string, std::string>> heads = {
      {length + "Content-Length: 44\r\n", "hello"},
      {"Content-Length: 44\r\n" + length, "hello"},
      {length + "X: y\r\n" + length, "hello"},
      {length + "content-length: 0\r\n", "hello"},
      {length + encoding, chunks},
      {encoding + length, chunks},
      {encoding + encoding, chunks},
      {"Content-Length: 5, 5\r\n", "hello"},
      {"Content-Length: +5\r\n", "hello"},
      {"Content-Length: 5x\r\n", "hello"},
      {"Content-Length: 0x5\r\n", "hello"},
      {"Content-Length: -1\r\n", "hello"},
      {"Content-Length: \r\n", "hello"},
      {"Content-Length: 5 5\r\n", "hello"},
      // (What the library sees in these is another header.)
      {"Content-Length:\r\n 5\r\n", "hello"},
      {"Content-Length: 5\r\n\t0\r\n", "hello"},
      {"Content-Length : 5\r\n", "hello"},
      {"X: y\r\n Content-Length: 5\r\n", "hello"},
      {"X: y\rContent-Length: 5\r\n", "hello"},
      {"Transfer-Encoding:\r\n chunked\r\n", chunks},
      {"Transfer-Encoding : chunked\r\n", chunks},
      {"Transfer-Encoding: gzip, chunked\r\n", chunks},
      {"Transfer-Encoding: xchunked\r\n", chunks},
      {"Transfer-Encoding: identity\r\n" + encoding, chunks},
      {"Transfer-Encoding: identity\r\n", "hello"},
  };
  for (const char* method : {"POST", "GET", "PUT"}) {
    for (const auto& [headers, body] : heads) {
      const std::string answer =
          Ask(*server, std::string(method) + " /predict HTTP/1.1\r\nHost: a\r\n" + headers +
                           "\r\n" + body + kHidden);
      EXPECT_THAT(answer, StartsWith("HTTP/1.1 400 ")) << method << "\n" << headers;
      EXPECT_THAT(answer, HasSubstr("Connection: close")) << headers;
      EXPECT_EQ(answer.find("hidden"), std::string::npos) << method << "\n" << headers << answer;
    }
  }
  EXPECT_THAT(Ask(*server, "POST / HTTP/1.0\r\nHost: a\r\n" + encoding + "\r\n" + chunks),
              HasSubstr("HTTP/1.0 has no Transfer-Encoding"));
  EXPECT_THAT(
      Ask(*server, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999999\r\n\r\n"),
      StartsWith("HTTP/1.1 413 "));
  EXPECT_EQ(calls, 0);
  EXPECT_THAT(Ask(*server, "POST / HTTP/1.1\r\nHost: a\r\n" + length + length + "\r\nhello"),
              HasSubstr("{\"error\":\"Content-Length is given twice\"}"));
  EXPECT_THAT(Ask(*server, "POST / HTTP/1.1\r\nHost: a\r\n" + length + encoding + "\r\n"),
              HasSubstr("{\"error\":\"Content-Length stands beside Transfer-Encoding\"}"));
}

TEST(HttpServer, HandsOverTheParametersOfTheQueryDecoded) {
  const auto server = Start({}, [](const HttpRequest& request) {
    HttpResponse answer;
    for (const HttpParameter& each : request.query) {
      answer.body += "[" + std::string(each.name) + "=" + std::string(each.value) + "]";
    }
    return answer;
  });
  EXPECT_TRUE(Ask(*server,
                  "POST /predict?a=1%202&b&&c=&%64%00=e HTTP/1.1\r\nHost: a\r\n"
                  "Connection: close\r\nContent-Length: 5\r\n\r\nhello")
                  .ends_with(std::string("[a=1 2][b=][c=][d\0=e]", 21)));
}

TEST(HttpServer, RefusesALargerBodyThanItTakes) {
  HttpServerOptions options;
  options.most_body_bytes = 10;
  const auto server = Start(options, Echo);
  const auto ask = [&](const std::string& body) {
    return Ask(*server, "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: " +
                            std::to_string(body.size()) + "\r\n\r\n" + body);
  };
  EXPECT_THAT(ask("0123456789"), StartsWith("HTTP/1.1 200 "));
  const std::string refused = ask("0123456789x");
  EXPECT_THAT(refused, StartsWith("HTTP/1.1 413 "));
  EXPECT_THAT(refused, HasSubstr("a request may have 10 bytes"));
}

TEST(HttpServer, HoldsNoMoreBytesOfAllRequestsThanItMay) {
  HttpServerOptions options;
  options.most_bytes = 1000;
  std::atomic<int> calls = 0;
  const auto server = Start(options, [&](const HttpRequest& request) {
    ++calls;
    return Echo(request);
  });
  const std::string head = "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: ";
  Client first(server->port());
  first.Send(head + "900\r\n\r\n" + std::string(899, 'x'));
  // (What the first has sent may come later than what another sends.)
  std::string second;
  do {
    second = Ask(*server, head + "200\r\n\r\n" + std::string(200, 'y'));
  } while (second.starts_with("HTTP/1.1 200 "));
  EXPECT_THAT(second, StartsWith("HTTP/1.1 503 "));
  first.Send("x");
  EXPECT_THAT(first.ReadAll(), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(Ask(*server, head + "200\r\n\r\n" + std::string(200, 'y')),
              StartsWith("HTTP/1.1 200 "));
}

TEST(HttpServer, ClosesAConnectionOnWhichNothingMoves) {
  HttpServerOptions options;
  options.timeout = std::chrono::seconds(1);
  const auto server = Start(options, Echo);
  Client client(server->port());
  client.Send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab");
  EXPECT_EQ(client.ReadAll().find("200"), std::string::npos);  // and it returns
}

TEST(HttpServer, ClosesAConnectionWhoseRequestDrips) {
  HttpServerOptions options;
  options.timeout = std::chrono::seconds(1);
  const auto server = Start(options, Echo);
  for (const char* begin :
       {"POST / HT", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n"}) {
    Client client(server->port());
    client.Send(begin);
    for (int i = 0; i < 40; ++i) {
      client.Send("x");
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    EXPECT_EQ(client.ReadAll(), "");  // it is closed
  }
}

TEST(HttpServer, GivesEachRequestOfAConnectionThatIsKeptItsTime) {
  HttpServerOptions options;
  options.timeout = std::chrono::seconds(1);
  const auto server = Start(options, Echo);
  // (A busy machine may be late with one of them.)
  bool has_answered_all = false;
  for (int tries = 0; tries < 20 && !has_answered_all; ++tries) {
    Client client(server->port());
    for (int i = 0; i < 3; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(600));
      client.Send(i < 2 ? "GET /a HTTP/1.1\r\nHost: a\r\n\r\n"
                        : "GET /b HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    }
    has_answered_all = client.ReadAll().ends_with("GET /b   ");
  }
  EXPECT_TRUE(has_answered_all);
}

TEST(HttpServer, KeepsNoBodyOfARequestThatIsRefusedByItsHead) {
  HttpServerOptions options;
  options.address = "127.0.0.1:0";
  options.most_body_bytes = 10;
  const auto server = HttpServer::Start(options, Echo, [](const HttpRequest& head) {
    return head.authorization.empty() ? std::optional(HttpResponse{.status = 401, .body = "no"})
                                      : std::nullopt;
  });
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string body(100, 'x');
  EXPECT_THAT(
      Ask(**server,
          "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 100\r\n\r\n" + body),
      StartsWith("HTTP/1.1 401 "));
  EXPECT_THAT(Ask(**server,
                  "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAuthorization: b\r\n"
                  "Content-Length: 100\r\n\r\n" +
                      body),
              StartsWith("HTTP/1.1 413 "));
}

TEST(HttpServer, SaysWhichMethodsThereAre) {
  const auto server = Start({}, [](const HttpRequest&) {
    return HttpResponse{.status = 405, .body = "{}", .allow = "POST"};
  });
  EXPECT_THAT(Ask(*server, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"),
              HasSubstr("Allow: POST"));
}

TEST(HttpServer, FinishesARequestThatHasBegunWhenItIsStopped) {
  std::atomic<bool> begun = false;
  auto server = Start({}, [&](const HttpRequest& request) {
    begun = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    return Echo(request);
  });
  Client client(server->port());
  client.Send("GET /slow HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  while (!begun) std::this_thread::yield();
  server.reset();
  EXPECT_TRUE(client.ReadAll().ends_with("GET /slow   "));
}

TEST(HttpServer, CannotListenWhereAnotherDoes) {
  const auto server = Start({}, Echo);
  HttpServerOptions options;
  options.address = "127.0.0.1:" + std::to_string(server->port());
  const auto second = HttpServer::Start(options, Echo);
  EXPECT_THAT(std::string(second.status().message()),
              HasSubstr("cannot listen on " + options.address));
  options.address = "no-such-host.invalid:1";
  EXPECT_THAT(std::string(HttpServer::Start(options, Echo).status().message()),
              HasSubstr("no-such-host.invalid:1"));
}

TEST(HttpServer, WithoutAUsableCertificateDoesNotStart) {
  HttpServerOptions options;
  options.address = "127.0.0.1:0";
  options.certificate = options.key = "nonsense";
  EXPECT_THAT(std::string(HttpServer::Start(options, Echo).status().message()),
              HasSubstr("(--tls-cert, --tls-key) make no TLS server"));
  options.client_ca = "nonsense";
  EXPECT_THAT(std::string(HttpServer::Start(options, Echo).status().message()),
              HasSubstr("the authority (--tls-ca) is no certificate"));
}

}  // namespace
}  // namespace millrace
