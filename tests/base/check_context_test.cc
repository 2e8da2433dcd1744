#include "base/check_context.h"

#include <gtest/gtest.h>

#include "base/check.h"

namespace millrace {
namespace {

TEST(CheckContextDeathTest, AFailedCheckNamesTheRecordThatIsProcessed) {
  EXPECT_DEATH(
      {
        const CheckContext outer("gradients", 1, 5);
        const CheckContext inner("gradients", 2, 77);
        MILLRACE_CHECK(1 + 1 == 3);
      },
      "broken invariant: 1 \\+ 1 == 3.*topic gradients, partition 2, offset 77.*docs/failures.md");
}

TEST(CheckContextDeathTest, OutsideOfARecordNoneIsNamed) {
  { const CheckContext gone("gradients", 2, 77); }
  EXPECT_DEATH(MILLRACE_CHECK(false),
               "broken invariant: false \\(a bug in Millrace: see docs/failures.md\\)\n$");
}

}  // namespace
}  // namespace millrace
