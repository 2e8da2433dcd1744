#include "producer/schema_registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <string>

#include "tests/http/one_answer.h"
#include "tests/producer/scratch_folder.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class SchemaRegistryTest : public testing::Test {
 protected:
  SchemaRegistryTest() { setenv("no_proxy", "127.0.0.1", 1); }

  StatusOr<std::string> Ask(const std::string& url) { return Ask(url, uint32_t{4'000'000'000}); }
  template <typename IdOrReference>
  StatusOr<std::string> Ask(const std::string& url, const IdOrReference& which) {
    options_.url = url;
    options_.stop = &stop_;
    const auto registry = SchemaRegistry::Create(options_);
    if (!registry.ok()) return registry.status();
    return (*registry)->Schema(which);
  }
  Status StatusOfAnswer(const std::string& status, const std::string& body) {
    OneAnswer server(Http(status, body));
    return Ask(server.url()).status();
  }

  std::atomic<bool> stop_ = false;
  SchemaRegistry::Options options_;
};

TEST_F(SchemaRegistryTest, IsAskedByThePublishedInterface) {
  OneAnswer server(Http("200 OK", "{\"schema\": \"...\"}"));
  EXPECT_EQ(Ask(server.url() + "/base/").value(), "{\"schema\": \"...\"}");
  EXPECT_THAT(server.request(), AllOf(HasSubstr("GET /base/schemas/ids/4000000000 HTTP/1.1\r\n"),
                                      HasSubstr("Accept: application/vnd.schemaregistry.v1+json"),
                                      Not(HasSubstr("Authorization"))));
}

TEST_F(SchemaRegistryTest, IsAskedForAVersionOfASubjectWhateverItsNameIs) {
  OneAnswer server(Http("200 OK", "{\"schema\": \"...\"}"));
  const SchemaReference reference = {"a/b ?c\xC3\xA9", 12};
  EXPECT_EQ(Ask(server.url() + "/base", reference).value(), "{\"schema\": \"...\"}");
  EXPECT_THAT(server.request(),
              HasSubstr("GET /base/subjects/a%2Fb%20%3Fc%C3%A9/versions/12 HTTP/1.1\r\n"));
  for (const char* const code : {"40401", "40402"}) {
    OneAnswer none(Http("404 Not Found", std::string(R"({"error_code": )") + code + "}"));
    EXPECT_TRUE(absl::IsNotFound(Ask(none.url(), reference).status())) << code;
  }
  OneAnswer other(Http("404 Not Found", "{}"));
  const Status status = Ask(other.url(), reference).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("none does to GET /subjects/a%2Fb%20%3Fc%C3%A9/versions/12"));
}

TEST_F(SchemaRegistryTest, GetsTheLoginThatAFileHas) {
  const ScratchFolder folder;
  options_.user_file = folder.Write("user", "Aladdin:open sesame\n");
  OneAnswer server(Http("200 OK", "{}"));
  EXPECT_TRUE(Ask(server.url()).ok());
  // The example of RFC 7617.
  EXPECT_THAT(server.request(), HasSubstr("Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\n"));
  OneAnswer other(Http("401 Unauthorized", "{}"));
  const Status refused = Ask(other.url()).status();
  EXPECT_TRUE(absl::IsPermissionDenied(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("--schema-registry-user-file"), Not(HasSubstr("sesame"))));
}

TEST_F(SchemaRegistryTest, AnswersAreTakenForWhatTheyMean) {
  const std::string unknown = R"({"error_code": 40403, "message": "Schema not found"})";
  EXPECT_TRUE(absl::IsNotFound(StatusOfAnswer("404 Not Found", unknown)));
  // Not of a registry, or not of this place in it: no record can be blamed.
  for (const char* const body : {"", R"({"error_code": 404})", "not found"}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(StatusOfAnswer("404 Not Found", body))) << body;
  }
  EXPECT_TRUE(absl::IsFailedPrecondition(StatusOfAnswer("302 Found", "")));
  EXPECT_TRUE(absl::IsPermissionDenied(StatusOfAnswer("403 Forbidden", "")));
  for (const char* const status : {"500 Error", "503 Away", "429 Too Many", "408 Late"}) {
    EXPECT_TRUE(absl::IsUnavailable(StatusOfAnswer(status, ""))) << status;
  }
}

TEST_F(SchemaRegistryTest, AnswersWithoutEndAreAnError) {
  OneAnswer server(Http("200 OK", std::string(size_t{4} << 20, 'x')));
  const Status status = Ask(server.url()).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("is it a schema registry?"));
}

TEST_F(SchemaRegistryTest, IsAwayWhenNobodyListensOrItBreaksOff) {
  std::string url;
  {
    OneAnswer server("");
    url = server.url();
    EXPECT_TRUE(absl::IsUnavailable(Ask(url).status()));
  }
  const Status status = Ask(url).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("the schema registry at " + url));
  OneAnswer half("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{");
  EXPECT_TRUE(absl::IsUnavailable(Ask(half.url()).status()));
}

TEST_F(SchemaRegistryTest, IsNotWaitedForWhenItIsStopped) {
  stop_ = true;
  const Listener silent;
  EXPECT_TRUE(absl::IsCancelled(Ask(silent.url()).status()));
}

TEST_F(SchemaRegistryTest, IsRefusedWithAReasonBeforeItIsAsked) {
  const auto why_not = [&](const std::string& url) {
    const Status status = Ask(url).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << url << status;
    return std::string(status.message());
  };
  for (const char* const url : {"localhost:8081", "ftp://a", "file:///etc/passwd", ""}) {
    EXPECT_THAT(why_not(url), HasSubstr("give a URL such as"));
  }
  EXPECT_THAT(why_not("https://user:secret@host/x"),
              AllOf(HasSubstr("--schema-registry-user-file"), Not(HasSubstr("secret"))));
  for (const char* const url :
       {"http://", "http:///x", "http://a b", "http://a/?x", "http://a#x"}) {
    EXPECT_THAT(why_not(url), HasSubstr("no host, or characters"));
  }
  const ScratchFolder folder;
  for (const char* const text : {"", "name\n", "a:b\nc:d\n"}) {
    options_.user_file = folder.Write("user", text);
    const Status status = Ask("http://a").status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("must be one line, USER:PASSWORD"));
  }
  options_.user_file = folder.Path("none");
  EXPECT_TRUE(absl::IsFailedPrecondition(Ask("http://a").status()));
  options_.user_file = "";
  options_.ca_file = folder.Path("none");
  EXPECT_THAT(std::string(Ask("https://a").status().message()), HasSubstr("--schema-registry-ca"));
}

}  // namespace
}  // namespace millrace
