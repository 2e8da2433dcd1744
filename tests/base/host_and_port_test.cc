#include "base/host_and_port.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

TEST(HostAndPort, TakesNamesAndAddressesWithAPort) {
  for (const char* good : {"host:1", "a.example:65535", "127.0.0.1:0", "[::1]:9000"}) {
    EXPECT_TRUE(IsHostAndPort(good)) << good;
  }
}

TEST(HostAndPort, RefusesWhatLacksAHostOrAPortOrHasATooLargeOne) {
  for (const char* wrong : {"", ":", "9000", "host", "host:", ":9000", "host:65536", "host:9000x",
                            "host:-1", "host:000001", "::1:9000"}) {
    EXPECT_FALSE(IsHostAndPort(wrong)) << wrong;
  }
}

TEST(HostAndPort, TellsAddressesThatOnlyThisMachineReaches) {
  for (const char* inside : {"localhost:1", "127.0.0.1:0", "127.3.2.1:80", "[::1]:9000"}) {
    EXPECT_TRUE(IsLoopback(inside)) << inside;
  }
  for (const char* outside : {"0.0.0.0:1", "[::]:1", "10.0.0.1:1", "127.example:1", "127.0.0.1",
                              "localhost.example:1", "1127.0.0.1:1", "host:1"}) {
    EXPECT_FALSE(IsLoopback(outside)) << outside;
  }
}

}  // namespace
}  // namespace millrace
