// Where a data set stands, as the text that trainers keep and give back.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "messages/master.pb.h"

namespace millrace {

// A JSON object. REQUIRES CheckTaskPosition.
std::string TaskCheckpointText(const TaskSetPosition& position);
// InvalidArgument: it is no such text.
StatusOr<TaskSetPosition> ParseTaskCheckpoint(std::string_view text);

}  // namespace millrace
