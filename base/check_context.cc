#include "base/check_context.h"

#include <cinttypes>

namespace millrace {
namespace {

thread_local const CheckContext* innermost = nullptr;

}  // namespace

CheckContext::CheckContext(const char* topic, int32_t partition, int64_t offset)
    : topic_(topic), partition_(partition), offset_(offset), outer_(innermost) {
  innermost = this;
}

CheckContext::~CheckContext() { innermost = outer_; }

void CheckContext::Print(std::FILE* file) {
  if (innermost == nullptr) return;
  std::fprintf(file,
               "while processing topic %s, partition %" PRId32 ", offset %" PRId64
               ": each restart reads this record again and fails in the same way; docs/failures.md "
               "says what to do\n",
               innermost->topic_, innermost->partition_, innermost->offset_);
}

}  // namespace millrace
