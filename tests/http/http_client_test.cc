#include "http/http_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "tests/http/one_answer.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class HttpClientTest : public testing::Test {
 protected:
  HttpClientTest() { setenv("no_proxy", "127.0.0.1", 1); }

  std::unique_ptr<HttpClient> Client() {
    HttpClient::Options options;
    options.is_cancelled = [this] { return is_cancelled_.load(); };
    return HttpClient::Create(options).value();
  }

  std::atomic<bool> is_cancelled_ = false;
  HttpClientRequest request_;
};

TEST_F(HttpClientTest, SendsItsMethodItsHeadersAndItsBody) {
  OneAnswer server(Http("409 Conflict", "why"));
  request_.method = "PATCH";
  request_.url = server.url() + "/a?b=c";
  request_.headers = {"Content-Type: application/json", "X-Other: 1"};
  request_.body = "{\"a\": 1}";
  const auto answer = Client()->Do(request_);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->status, 409);
  EXPECT_EQ(answer->body, "why");
  EXPECT_THAT(server.request(),
              AllOf(StartsWith("PATCH /a?b=c HTTP/1.1\r\n"), HasSubstr("X-Other: 1\r\n"),
                    HasSubstr("Content-Type: application/json\r\n"),
                    HasSubstr("Content-Length: 8\r\n"), Not(HasSubstr("x-www-form-urlencoded"))));
}

TEST_F(HttpClientTest, RemembersNothingOfTheRequestBefore) {
  const auto client = Client();
  OneAnswer first(Http("200 OK", "1"));
  request_.method = "DELETE";
  request_.headers = {"X-Other: 1"};
  request_.body = "{}";
  request_.url = first.url();
  EXPECT_TRUE(client->Do(request_).ok());
  OneAnswer second(Http("200 OK", "2"));
  HttpClientRequest plain;
  plain.url = second.url() + "/";
  EXPECT_EQ(client->Do(plain)->body, "2");
  EXPECT_THAT(second.request(),
              AllOf(StartsWith("GET / "), Not(HasSubstr("X-Other")), EndsWith("\r\n\r\n")));
}

TEST_F(HttpClientTest, HandsOutAnAnswerAsItComes) {
  const std::string body(200'000, 'x');
  OneAnswer server(Http("200 OK", body));
  std::string got;
  request_.url = server.url();
  request_.most_answer_bytes = 10;  // of an answer that is kept
  request_.on_bytes = [&](std::string_view bytes) {
    got.append(bytes);
    return true;
  };
  const auto answer = Client()->Do(request_);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(got, body);
  EXPECT_EQ(answer->body, "");
  // That of an error is in the answer.
  OneAnswer failing(Http("410 Gone", "too old"));
  request_.url = failing.url();
  got.clear();
  EXPECT_EQ(Client()->Do(request_)->body, "too old");
  EXPECT_EQ(got, "");
}

TEST_F(HttpClientTest, EndsARequestWhenItsBytesAreNotWanted) {
  OneAnswer server(Http("200 OK", "line"));
  request_.url = server.url();
  request_.on_bytes = [](std::string_view) { return false; };
  EXPECT_TRUE(absl::IsCancelled(Client()->Do(request_).status()));
}

TEST_F(HttpClientTest, EndsARequestThatIsCancelledWhileNobodyAnswers) {
  const Listener silent;
  request_.url = silent.url();
  request_.timeout = std::chrono::hours(1);
  int asked = 0;
  HttpClient::Options options;
  options.is_cancelled = [&] { return ++asked > 3; };
  const auto client = HttpClient::Create(options).value();
  EXPECT_TRUE(absl::IsCancelled(client->Do(request_).status()));
  // The next one is another.
  OneAnswer server(Http("200 OK", "2"));
  asked = -1'000'000;
  request_.url = server.url();
  EXPECT_EQ(client->Do(request_)->body, "2");
}

TEST_F(HttpClientTest, EndsAnAnswerThatIsTooLong) {
  OneAnswer server(Http("200 OK", std::string(101, 'x')));
  request_.url = server.url();
  request_.most_answer_bytes = 100;
  const Status status = Client()->Do(request_).status();
  EXPECT_TRUE(absl::IsOutOfRange(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("more than 100 bytes"));
}

TEST(UrlEscaped, LeavesOnlyWhatMeansNothingInAUrl) {
  EXPECT_EQ(UrlEscaped("Az09-._~"), "Az09-._~");
  EXPECT_EQ(UrlEscaped("a/b c%?\xC3\xBC"), "a%2Fb%20c%25%3F%C3%BC");
}

}  // namespace
}  // namespace millrace
