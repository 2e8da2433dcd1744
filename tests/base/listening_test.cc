#include "base/listening.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "tests/base/listener.h"

namespace millrace {
namespace {

TEST(CheckCanListen, RefusesAPortThatAnotherProgramHas) {
  uint32_t port = 0;
  {
    const Listener listener;
    port = listener.port();
    const Status used = CheckCanListen("127.0.0.1", port);
    EXPECT_TRUE(absl::IsFailedPrecondition(used));
    EXPECT_EQ(used.message(), "is in use by another program");
  }
  EXPECT_TRUE(CheckCanListen("127.0.0.1", port).ok());
}

TEST(CheckCanListen, RefusesWhatIsNoAddressOfThisMachine) {
  const Status other = CheckCanListen("192.0.2.1", 7101);  // reserved for documentation
  EXPECT_TRUE(absl::IsFailedPrecondition(other));
  EXPECT_EQ(other.message(), "is no address of this machine");
  EXPECT_TRUE(absl::IsNotFound(CheckCanListen("no.such.host.invalid", 7101)));
}

}  // namespace
}  // namespace millrace
