#include "base/check.h"

#include <cstdio>
#include <cstdlib>

#include "base/check_context.h"

namespace millrace {

void CheckFailed(const char* file, int line, const char* condition) {
  std::fprintf(stderr, "%s:%d: broken invariant: %s (a bug in Millrace: see docs/failures.md)\n",
               file, line, condition);
  CheckContext::Print(stderr);
  std::abort();
}

}  // namespace millrace
