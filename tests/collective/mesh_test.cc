// Connections, and what goes over them.
#include "collective/mesh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"

namespace millrace {
namespace {

using testing::HasSubstr;

std::span<const std::byte> BytesOf(const std::string& text) {
  return std::as_bytes(std::span(text));
}
std::span<std::byte> BytesOf(std::string& text) { return std::as_writable_bytes(std::span(text)); }

// Two that are connected; how, by world ids.
struct Pair {
  explicit Pair(std::chrono::milliseconds timeout, uint64_t left_world = 7,
                uint64_t right_world = 7,
                const std::function<Status()>& on_wait_of_left = nullptr) {
    MeshOptions options;
    options.timeout = timeout;
    options.on_wait = on_wait_of_left;
    left = *Mesh::Listen(options, 0, 2);
    options.on_wait = nullptr;
    right = *Mesh::Listen(options, 1, 2);
    const std::vector<MeshAddress> of_right = {{}, right->addresses()[0]};
    const std::vector<MeshAddress> of_left = {left->addresses()[1], {}};
    std::thread other([&] { right_status = right->Connect(of_left, right_world); });
    left_status = left->Connect(of_right, left_world);
    other.join();
  }
  std::unique_ptr<Mesh> left;
  std::unique_ptr<Mesh> right;
  Status left_status;
  Status right_status;
};

TEST(Mesh, CarriesBytesByTheirTags) {
  Pair pair(std::chrono::seconds(30));
  ASSERT_EQ(pair.left_status, absl::OkStatus());
  ASSERT_EQ(pair.right_status, absl::OkStatus());
  const std::string first = "first";
  const std::string second = "2nd";
  std::string got_first(5, ' ');
  std::string got_second(3, ' ');
  Transfers sends(*pair.left);
  sends.Send(1, 1, BytesOf(first));
  sends.Send(1, 2, BytesOf(second));
  sends.Send(1, 3, {});
  Transfers receipts(*pair.right);
  receipts.Receive(0, 2, BytesOf(got_second));
  receipts.Receive(0, 1, BytesOf(got_first));
  receipts.Receive(0, 3, {});
  EXPECT_EQ(receipts.WaitReceived(), absl::OkStatus());
  EXPECT_EQ(sends.WaitSent(), absl::OkStatus());
  EXPECT_EQ(got_first, first);
  EXPECT_EQ(got_second, second);
}

TEST(Mesh, RefusesAMemberOfAnotherWorld) {
  const Pair pair(std::chrono::seconds(60), 7, 8);
  EXPECT_TRUE(absl::IsUnavailable(pair.left_status)) << pair.left_status;
  EXPECT_TRUE(absl::IsUnavailable(pair.right_status)) << pair.right_status;
  // Who notices it first leaves, so the other may only see that.
  const std::string both = absl::StrCat(pair.left_status.message(), pair.right_status.message());
  EXPECT_THAT(both, HasSubstr("is not that member of this world"));
}

TEST(Mesh, IsBrokenForBothWhenOneBreaksIt) {
  Pair pair(std::chrono::seconds(60));
  std::string bytes(10, ' ');
  std::thread other([&] { pair.right->Break(absl::UnavailableError("it has had enough")); });
  Transfers receipts(*pair.left);
  receipts.Receive(1, 1, BytesOf(bytes));
  const Status status = receipts.WaitReceived();
  other.join();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("the exchange with member 1 (of 0 to 1) has failed"));
  Transfers later(*pair.left);
  later.Receive(1, 2, BytesOf(bytes));
  EXPECT_EQ(later.WaitReceived(), status);
  Transfers own(*pair.right);
  own.Send(0, 2, BytesOf(std::as_const(bytes)));
  EXPECT_THAT(own.WaitSent().message(), HasSubstr("it has had enough"));
}

TEST(Mesh, IsBrokenWhenAMemberTakesTooLong) {
  Pair pair(std::chrono::milliseconds(200));
  std::string bytes(10, ' ');
  Transfers receipts(*pair.left);
  receipts.Receive(1, 1, BytesOf(bytes));
  EXPECT_TRUE(absl::IsUnavailable(receipts.WaitReceived()));
  EXPECT_FALSE(pair.left->broken().ok());
}

TEST(Mesh, AsksWhetherToWaitOnAndThenTakesWhatComes) {
  std::atomic<int> times = 0;
  Pair pair(std::chrono::seconds(60), 7, 7, [&] {
    ++times;
    return absl::OkStatus();
  });
  times = 0;
  std::string bytes(10, ' ');
  std::thread other([&] {
    while (times < 3) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    Transfers sends(*pair.right);
    const std::string sent = "0123456789";
    sends.Send(0, 1, BytesOf(sent));
    EXPECT_EQ(sends.WaitSent(), absl::OkStatus());
  });
  Transfers receipts(*pair.left);
  receipts.Receive(1, 1, BytesOf(bytes));
  EXPECT_EQ(receipts.WaitReceived(), absl::OkStatus());
  other.join();
  EXPECT_EQ(bytes, "0123456789");
}

TEST(Mesh, IsBrokenByWhoWaitsNoLonger) {
  std::atomic<bool> waits = true;
  Pair pair(std::chrono::seconds(60), 7, 7,
            [&] { return waits ? absl::OkStatus() : absl::UnavailableError("nobody is there"); });
  waits = false;
  std::string bytes(10, ' ');
  Transfers receipts(*pair.left);
  receipts.Receive(1, 1, BytesOf(bytes));
  EXPECT_EQ(receipts.WaitReceived(), absl::UnavailableError("nobody is there"));
  Transfers other(*pair.right);
  other.Receive(0, 1, BytesOf(bytes));
  EXPECT_TRUE(absl::IsUnavailable(other.WaitReceived()));
}

TEST(Mesh, IsBrokenByWhoLeavesAnExchangeUnfinished) {
  Pair pair(std::chrono::seconds(60));
  std::string bytes(10, ' ');
  { Transfers(*pair.left).Receive(1, 1, BytesOf(bytes)); }
  EXPECT_FALSE(pair.left->broken().ok());
  Transfers other(*pair.right);
  other.Receive(0, 1, BytesOf(bytes));
  EXPECT_TRUE(absl::IsUnavailable(other.WaitReceived()));
}

}  // namespace
}  // namespace millrace
