// The bytes of a sum that several members compute.
#include "collective/ordered_all_reduce.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "tests/collective/gatherer.h"

namespace millrace {
namespace {

using Numbers = std::vector<float>;

// Numbers of very different sizes, so that each order has a sum of its own.
std::vector<Numbers> SomeContributions(uint32_t seed, size_t workers, size_t length) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> mantissa(-1, 1);
  std::uniform_int_distribution<int> exponent(-12, 12);
  std::vector<Numbers> contributions(workers, Numbers(length));
  for (Numbers& numbers : contributions) {
    for (float& number : numbers) number = std::ldexp(mantissa(random), exponent(random));
  }
  return contributions;
}

Numbers SumInOrder(const std::vector<Numbers>& contributions, size_t length) {
  Numbers sum(length, 0.0f);
  for (const Numbers& numbers : contributions) {
    for (size_t i = 0; i < length; ++i) sum[i] += numbers[i];
  }
  return sum;
}

std::vector<Contribution> Of(uint32_t member, const std::vector<uint32_t>& owners,
                             const std::vector<Numbers>& contributions) {
  std::vector<Contribution> own;
  for (uint32_t worker = 0; worker < owners.size(); ++worker) {
    if (owners[worker] == member) own.push_back({worker, contributions[worker]});
  }
  std::ranges::reverse(own);  // their order is of no importance
  return own;
}

bool HaveTheSameBytes(const Numbers& left, const Numbers& right) {
  return left.size() == right.size() &&
         (left.empty() || std::memcmp(left.data(), right.data(), left.size() * sizeof(float)) == 0);
}

TEST(OrderedAllReduce, HasTheBytesOfTheSumInOrderWhoeverHostsWhom) {
  constexpr size_t kWorkers = 7;
  for (const uint32_t members : {1, 2, 3, 5}) {
    RunMembers(members, [&](size_t i, const Gather& gather) {
      StatusOr<World> world = World::Join({}, "m" + std::to_string(i), gather);
      ASSERT_EQ(world.status(), absl::OkStatus());
      for (uint32_t seed = 0; seed < 20; ++seed) {
        std::mt19937 random(seed);
        const size_t length = std::vector<size_t>{0, 1, 3, 4, 1000, 4099, 20'011}[random() % 7];
        std::vector<uint32_t> owners(kWorkers);
        for (uint32_t& owner : owners) owner = static_cast<uint32_t>(random() % members);
        const std::vector<Numbers> contributions = SomeContributions(seed, kWorkers, length);
        OrderedAllReduce reduce(*world, owners, length);
        for (int times = 0; times < 2; ++times) {
          Numbers sum(length, -1.0f);
          ASSERT_EQ(reduce.Run(Of(world->position(), owners, contributions), sum),
                    absl::OkStatus());
          ASSERT_TRUE(HaveTheSameBytes(sum, SumInOrder(contributions, length)))
              << members << " members, seed " << seed;
        }
      }
    });
  }
}

// The test above could not fail for the order otherwise.
TEST(OrderedAllReduce, DependsOnTheOrder) {
  std::vector<Numbers> contributions = SomeContributions(1, 7, 1000);
  const Numbers sum = SumInOrder(contributions, 1000);
  std::ranges::reverse(contributions);
  EXPECT_FALSE(HaveTheSameBytes(sum, SumInOrder(contributions, 1000)));
}

TEST(OrderedAllReduce, BeginsWithZeroAsAShardDoes) {
  RunMembers(2, [&](size_t i, const Gather& gather) {
    StatusOr<World> world = World::Join({}, "m" + std::to_string(i), gather);
    ASSERT_EQ(world.status(), absl::OkStatus());
    OrderedAllReduce reduce(*world, {0}, 2);
    const std::vector<Numbers> contributions = {{-0.0f, -0.0f}};
    Numbers sum(2, 1.0f);
    ASSERT_EQ(reduce.Run(Of(world->position(), {0}, contributions), sum), absl::OkStatus());
    EXPECT_TRUE(HaveTheSameBytes(sum, {0.0f, 0.0f}));
  });
}

TEST(OrderedAllReduce, FailsForAllWhenOneDoesSomethingElse) {
  RunMembers(3, [&](size_t i, const Gather& gather) {
    MeshOptions options;
    options.timeout = std::chrono::milliseconds(500);
    StatusOr<World> world = World::Join(options, "m" + std::to_string(i), gather);
    ASSERT_EQ(world.status(), absl::OkStatus());
    const std::vector<uint32_t> owners = {0, 1, 2};
    const size_t length = i == 1 ? 1000 : 100;
    const std::vector<Numbers> contributions = SomeContributions(1, 3, length);
    OrderedAllReduce reduce(*world, owners, length);
    Numbers sum(length);
    const Status status = reduce.Run(Of(world->position(), owners, contributions), sum);
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  });
}

}  // namespace
}  // namespace millrace
