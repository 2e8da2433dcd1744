// Serialises and parses messages; both report failures.
#pragma once

#include <google/protobuf/message_lite.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "base/status.h"

namespace millrace {

// protobuf neither writes nor reads a message that is larger.
inline constexpr size_t kMostMessageBytes = std::numeric_limits<int>::max();

// Parses a message (the body of a frame). InvalidArgument with the reason.
Status ParseMessage(std::string_view body, google::protobuf::MessageLite& message);

// ResourceExhausted when the message would be larger than `most_bytes`. (SerializeAsString would
// return an empty string, which is a valid message.)
StatusOr<std::string> SerializeMessage(const google::protobuf::MessageLite& message,
                                       size_t most_bytes = kMostMessageBytes);
// InvalidArgument, with `what`, when `value` is above `most`.
Status CheckAtMost(std::string_view what, uint64_t value, uint64_t most);
Status TooLarge(const google::protobuf::MessageLite& message, size_t bytes, size_t most_bytes);

}  // namespace millrace
