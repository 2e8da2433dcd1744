// What a status's code does not tell, and its reader must know: marks on it.
#pragma once

#include <string_view>

#include "base/status.h"

namespace millrace {

// Returns the error, marked: another process has taken this one's place (Kafka calls it fenced).
Status MarkFenced(Status status);
bool IsFenced(const Status& status);

// Returns the error, marked: no repetition mends it (a missing permission, a record that the broker
// never takes).
Status MarkPermanent(Status status);
bool IsPermanent(const Status& status);

// An error of this text with the code and the marks of `status`.
Status WithText(const Status& status, std::string_view text);

}  // namespace millrace
