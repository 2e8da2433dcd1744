#include "launcher/kubernetes/api_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>

#include "tests/stores/child_process.h"
#include "tests/stores/temporary_folder.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

class ApiServerTest : public testing::Test {
 protected:
  ApiServerTest() : cluster_({"/usr/bin/python3", API_SERVER, folder_.path(), "--no-kubelet"}) {
    setenv("no_proxy", "127.0.0.1", 1);
    options_.url = cluster_.ReadLine().value_or("");
    options_.account_folder = folder_ / "account";
    options_.kube_namespace = "training";
  }
  ~ApiServerTest() override { EXPECT_EQ(Tell("quit"), "ok"); }

  std::string Tell(const std::string& command) {
    cluster_.WriteLine(command);
    return cluster_.ReadLine().value_or("no answer");
  }
  std::unique_ptr<ApiServer> Client() {
    auto client = ApiServer::Create(options_, nullptr);
    EXPECT_TRUE(client.ok()) << client.status();
    return client.ok() ? *std::move(client) : nullptr;
  }

  const TemporaryFolder folder_;
  ChildProcess cluster_;
  ApiServerOptions options_;
};

TEST_F(ApiServerTest, TakesARefusalForOneThatPassesWhenTheServerHasJustBegun) {
  const auto client = Client();
  Tell("away");
  EXPECT_TRUE(IsAway(client->Ask("GET", "pods").status()));
  Tell("forbid list");
  Tell("back");
  const Status refused = client->Ask("GET", "pods").status();
  EXPECT_TRUE(IsAway(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("403"));
}

TEST_F(ApiServerTest, BelievesARefusalInTheEnd) {
  Tell("forbid list");
  EXPECT_TRUE(absl::IsPermissionDenied(Client()->Ask("GET", "pods").status()));
  options_.roles_known_after = std::chrono::milliseconds(0);
  const auto client = Client();
  Tell("away");
  EXPECT_TRUE(IsAway(client->Ask("GET", "pods").status()));
  Tell("back");
  const Status refused = client->Ask("GET", "pods").status();
  EXPECT_TRUE(absl::IsPermissionDenied(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("give the service account the role"));
}

}  // namespace
}  // namespace millrace
