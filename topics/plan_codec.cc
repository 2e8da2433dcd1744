#include "topics/plan_codec.h"

#include "base/check.h"
#include "topics/frame.h"
#include "topics/message_codec.h"
#include "topics/process_name.h"

namespace millrace {

std::string ProcessPlanKey(const ProcessName& process) {
  return std::string(kPlanProcessKey) + ToText(process);
}

std::string EncodePlanValue(const google::protobuf::MessageLite& message) {
  std::string value = WholeFrameHeader();
  MILLRACE_CHECK(message.AppendToString(&value) && value.size() <= kMaxFrameBytes);
  return value;
}

Status DecodePlanValue(std::string_view value, google::protobuf::MessageLite& message) {
  MILLRACE_ASSIGN_OR_RETURN(const Frame frame, ParseFrame(value));
  if (frame.is_chunk)
    return absl::InvalidArgumentError("a part of a message, which is never split");
  return ParseMessage(frame.body, message);
}

}  // namespace millrace
