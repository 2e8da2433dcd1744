// Errors of the world (brokers, disks, files, input) are absl::Status values and never exceptions.
// The message names the thing, the place and the remedy, since only main() prints it.
#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace millrace {

using absl::Status;
using absl::StatusOr;

// True for the errors of a call that nobody answered (no broker is reachable): a retry may succeed.
inline bool IsAway(const Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
}

// The status's message; valid for as long as the status. (absl's own string_view is another type
// than the standard library's.)
inline std::string_view TextOf(const Status& status) {
  return {status.message().data(), status.message().size()};
}

}  // namespace millrace

#define MILLRACE_RETURN_IF_ERROR(expression)                                    \
  do {                                                                          \
    if (::absl::Status millrace_status_ = (expression); !millrace_status_.ok()) \
      return millrace_status_;                                                  \
  } while (false)

#define MILLRACE_CONCAT_INNER_(a, b) a##b
#define MILLRACE_CONCAT_(a, b) MILLRACE_CONCAT_INNER_(a, b)

// MILLRACE_ASSIGN_OR_RETURN(auto x, F()) declares x from F()'s value or returns F()'s error.
#define MILLRACE_ASSIGN_OR_RETURN(declaration, expression) \
  MILLRACE_ASSIGN_OR_RETURN_IMPL_(MILLRACE_CONCAT_(millrace_or_, __LINE__), declaration, expression)
#define MILLRACE_ASSIGN_OR_RETURN_IMPL_(result, declaration, expression) \
  auto result = (expression);                                            \
  if (!result.ok()) return result.status();                              \
  declaration = std::move(result).value()
