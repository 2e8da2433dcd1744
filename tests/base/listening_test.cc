#include "base/listening.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

namespace millrace {
namespace {

// Listens at a free port of 127.0.0.1.
class Listener {
 public:
  Listener() : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(listen(socket_, 1), 0);
    socklen_t size = sizeof(address);
    EXPECT_EQ(getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
  }
  ~Listener() { close(socket_); }

  uint32_t port() const { return port_; }

 private:
  const int socket_;
  uint32_t port_ = 0;
};

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
