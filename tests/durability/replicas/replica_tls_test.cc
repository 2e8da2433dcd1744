// Who may fetch from whom, with certificates that openssl makes here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "durability/replicas/replica_client.h"
#include "durability/replicas/replica_server.h"
#include "tests/durability/replicas/endless.h"
#include "tests/durability/replicas/kept_copy.h"
#include "tests/stores/temporary_folder.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

class ReplicaTlsTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder = new TemporaryFolder();
    MakeAuthority("ours");
    MakeAuthority("theirs");
    MakeCertificate("server", "ours");
    MakeCertificate("client", "ours");
    MakeCertificate("stranger", "theirs");
  }
  static void TearDownTestSuite() { delete folder; }

  static void OpenSsl(const std::string& arguments) {
    const std::string command = "cd " + folder->path() + " && openssl " + arguments +
                                " 2>>openssl.log || { cat openssl.log; false; }";
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
  }
  static void MakeAuthority(const std::string& name) {
    OpenSsl("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=" +
            name + " -keyout " + name + ".key -out " + name + ".pem");
  }
  static void MakeCertificate(const std::string& name, const std::string& authority) {
    OpenSsl("req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=" + name +
            " -keyout " + name + ".key -out " + name + ".csr");
    std::ofstream(*folder / (name + ".ext")) << "subjectAltName=DNS:localhost,IP:127.0.0.1\n";
    OpenSsl("x509 -req -days 2 -CA " + authority + ".pem -CAkey " + authority +
            ".key -CAcreateserial -in " + name + ".csr -extfile " + name + ".ext -out " + name +
            ".pem");
  }
  static RpcTls Tls(const std::string& name, const std::string& authority) {
    const auto path = [](const std::string& file, const char* ending) {
      return file.empty() ? std::string() : *folder / (file + ending);
    };
    const StatusOr<RpcTls> tls =
        ReadRpcTls(path(name, ".pem"), path(name, ".key"), path(authority, ".pem"));
    EXPECT_TRUE(tls.ok()) << tls.status();
    return *tls;
  }

  // The status of a description asked for by `client`. (Who is refused may be told so by silence.)
  Status Ask(const RpcTls& server, const RpcTls& client, const ReplicaTimeouts& timeouts = {}) {
    auto started = ReplicaServer::Start(
        {.job = "job", .epoch = 7, .listen = "127.0.0.1:0", .tls = server, .most_streams = 1},
        kept_);
    EXPECT_TRUE(started.ok()) << started.status();
    ReplicaRequest request;
    request.set_job("job");
    request.set_epoch(7);
    request.set_shard(KeptCopy::kShard);
    return DescribeReplicas({"localhost:" + std::to_string((*started)->port())}, request, client,
                            timeouts)[0]
        .status();
  }

  static TemporaryFolder* folder;
  KeptCopy kept_{{{"CURRENT", "x"}}};
};

TemporaryFolder* ReplicaTlsTest::folder = nullptr;

TEST_F(ReplicaTlsTest, ServersOfOneAuthorityServeEachOther) {
  const Status status = Ask(Tls("server", "ours"), Tls("client", "ours"), Endless());
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(ReplicaTlsTest, WhoShowsNoCertificateOrAStrangersIsRefused) {
  EXPECT_FALSE(Ask(Tls("server", "ours"), Tls("", "ours")).ok());
  RpcTls stranger = Tls("stranger", "ours");
  EXPECT_FALSE(Ask(Tls("server", "ours"), stranger).ok());
}

TEST_F(ReplicaTlsTest, AServerOfAnotherAuthorityIsNotBelieved) {
  EXPECT_FALSE(Ask(Tls("stranger", "ours"), Tls("client", "ours")).ok());
  // The same with a server that asks for nothing.
  EXPECT_FALSE(Ask(Tls("stranger", ""), Tls("client", "ours")).ok());
  EXPECT_TRUE(Ask(Tls("server", ""), Tls("client", "ours"), Endless()).ok());
}

TEST_F(ReplicaTlsTest, PlainAndTlsDoNotMix) {
  EXPECT_FALSE(Ask(Tls("server", "ours"), {}).ok());
  EXPECT_FALSE(Ask({}, Tls("client", "ours")).ok());
}

TEST_F(ReplicaTlsTest, AFileThatIsNoPemIsAnErrorThatNamesItAndNotItsContent) {
  std::ofstream(*folder / "secret.key") << "hunter2";
  const Status status = ReadRpcTls("", *folder / "secret.key", "").status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("secret.key is not a PEM file"));
  EXPECT_EQ(status.message().find("hunter2"), absl::string_view::npos);
  EXPECT_EQ(ReadRpcTls("", "", *folder / "missing").status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace millrace
