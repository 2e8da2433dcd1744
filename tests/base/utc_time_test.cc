#include "base/utc_time.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

// By `date -u -d @SECONDS`.
TEST(UtcTime, WritesTheSecondInUtc) {
  EXPECT_EQ(UtcTime(0), "1970-01-01T00:00:00Z");
  EXPECT_EQ(UtcTime(951'782'399'999), "2000-02-28T23:59:59Z");
  EXPECT_EQ(UtcTime(951'782'400'000), "2000-02-29T00:00:00Z");
  EXPECT_EQ(UtcTime(253'402'300'799'999), "9999-12-31T23:59:59Z");
}

}  // namespace
}  // namespace millrace
