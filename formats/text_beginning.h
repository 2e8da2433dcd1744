// The beginning of a text that cannot be read, as a part of the error that says so.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace millrace {

// The error with the first 30 bytes of `text` behind it, control characters and what is not ASCII
// as \xNN: enough to see what it is (a page of HTML, Avro, a row that was cut), and no whole row.
// REQUIRES: it is an error.
Status WithBeginning(const Status& error, std::string_view text);

// A reason that may be the message of such an error, without what the text began with.
std::string_view WithoutBeginning(std::string_view reason);

}  // namespace millrace
