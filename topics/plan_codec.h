// Records of `plan`, as a master writes and others read them.
#pragma once

#include <google/protobuf/message_lite.h>

#include <string>
#include <string_view>

#include "base/status.h"
#include "messages/master.pb.h"

namespace millrace {

inline constexpr std::string_view kPlanProcessKey = "process:";
inline constexpr std::string_view kPlanLeaseKey = "lease:";  // and the worker: WorkerLeases
inline constexpr std::string_view kPlanInputKey = "input:";  // and the partition: InputState

// "process:worker-2", the key of a ProcessState.
std::string ProcessPlanKey(const ProcessName& process);

// The value of a record, which is never split. REQUIRES: it fits into a frame.
std::string EncodePlanValue(const google::protobuf::MessageLite& message);
// InvalidArgument with the reason why it is none.
Status DecodePlanValue(std::string_view value, google::protobuf::MessageLite& message);

}  // namespace millrace
