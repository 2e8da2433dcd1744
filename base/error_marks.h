// Marks on a status, for what its code does not express.
#pragma once

#include <string_view>

#include "base/status.h"

namespace millrace {

// Returns the error, marked as fenced: another process has taken over from this one.
Status MarkFenced(Status status);
bool IsFenced(const Status& status);

// Returns the error, marked as permanent: a retry cannot succeed (a missing permission, a record
// that the broker never accepts).
Status MarkPermanent(Status status);
bool IsPermanent(const Status& status);

// Returns the error, marked as pending: nothing has failed so far, and a later call knows more.
Status MarkPending(Status status);
bool IsPending(const Status& status);

// An error of this text with the code and the marks of `status`.
Status WithText(const Status& status, std::string_view text);

}  // namespace millrace
