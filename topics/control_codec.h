// Records of `control`: a master's commands and reports, encoded and checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "messages/master.pb.h"
#include "topics/process_name.h"

namespace millrace {

inline constexpr size_t kMostCommandBytes = 16'384;  // of one process, all arguments
inline constexpr size_t kMostPlanBytes = 262'144;
inline constexpr size_t kMostEndDetailBytes = 4'096;

// InvalidArgument, which says what is wrong and where: a plan without a group, a group twice, a
// name, a count (1 to kMostProcesses in all), a command, `least`, most_failures, logical_workers or
// slots that cannot be; or so few slots that a group of which the job needs processes would wait
// for ever: who starts before it is not known to end.
Status CheckPlan(const ProcessPlan& plan);
// InvalidArgument: another cause than those that are known, or a detail that is too long.
Status CheckProcessEnd(const ProcessEnd& end);

// In the command of a process they stand for its numbers.
inline constexpr char kRankPlaceholder[] = "{rank}";
inline constexpr char kIncarnationPlaceholder[] = "{incarnation}";

// The command of the process of that rank: kRankPlaceholder replaced. (Its incarnation is known in
// an order for it only.)
std::vector<std::string> CommandOf(const ProcessGroup& group, uint32_t rank);
// The text with each `placeholder` replaced by the number.
std::string WithNumber(std::string text, std::string_view placeholder, uint64_t number);

// The value of a record of `control`, which is never split. REQUIRES a plan that CheckPlan takes,
// or none.
std::string EncodeControl(const ControlRecord& record);
// InvalidArgument with the reason why it is none of this job epoch.
StatusOr<ControlRecord> DecodeControl(std::string_view value, uint64_t epoch);

}  // namespace millrace
