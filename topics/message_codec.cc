#include "topics/message_codec.h"

#include <algorithm>

namespace millrace {

Status ParseMessage(std::string_view body, google::protobuf::MessageLite& message) {
  if (body.size() <= kMostMessageBytes &&
      message.ParseFromArray(body.data(), static_cast<int>(body.size()))) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError("not a " + message.GetTypeName());
}

Status CheckAtMost(std::string_view what, uint64_t value, uint64_t most) {
  if (value <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(std::string(what) + " " + std::to_string(value) +
                                    " is out of range: " + std::to_string(most) + " is the most");
}

Status TooLarge(const google::protobuf::MessageLite& message, size_t bytes, size_t most_bytes) {
  return absl::ResourceExhaustedError("a " + message.GetTypeName() + " of " +
                                      std::to_string(bytes) + " bytes, but " +
                                      std::to_string(most_bytes) + " is the limit");
}

StatusOr<std::string> SerializeMessage(const google::protobuf::MessageLite& message,
                                       size_t most_bytes) {
  const size_t size = message.ByteSizeLong();
  if (size > std::min(most_bytes, kMostMessageBytes)) return TooLarge(message, size, most_bytes);
  std::string bytes;
  bytes.reserve(size);
  if (!message.AppendToString(&bytes)) {
    return absl::InternalError("a " + message.GetTypeName() + " cannot be serialised");
  }
  return bytes;
}

}  // namespace millrace
