#include "base/distinct_ids.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <vector>

namespace millrace {
namespace {

TEST(SortDistinct, LeavesEachIdOnceInAscendingOrder) {
  std::mt19937_64 random(3);
  for (const size_t count : {0, 1, 2, 255, 256, 257, 5000}) {
    for (const int bits : {1, 3, 11, 12, 33, 64}) {
      std::vector<EmbeddingId> ids;
      const EmbeddingId same = bits < 60 ? random() << 60 : 0;
      for (size_t i = 0; i < count; ++i) ids.push_back(same | random() >> (64 - bits));
      const std::set<EmbeddingId> expected(ids.begin(), ids.end());
      SortDistinct(ids);
      EXPECT_EQ(ids, std::vector<EmbeddingId>(expected.begin(), expected.end()))
          << count << " of " << bits << " bits";
    }
  }
}

}  // namespace
}  // namespace millrace
