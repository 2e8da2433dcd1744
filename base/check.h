// CHECK for errors of our own (a broken invariant): prints the place and aborts, in every build.
#pragma once

namespace millrace {

[[noreturn]] void CheckFailed(const char* file, int line, const char* condition);

}  // namespace millrace

#define MILLRACE_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::millrace::CheckFailed(__FILE__, __LINE__, #condition))
