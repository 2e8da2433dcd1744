// The logical workers of a process compute side by side.
#pragma once

#include <functional>
#include <vector>

#include "base/side_by_side.h"
#include "base/status.h"
#include "tasks/worker_feed.h"
#include "topics/outgoing_record.h"

namespace millrace {

// WorkerFeed::Advance of each; what that appends to `out` stands in the order of `feeds`. What a
// worker computes depends on nothing that another one changes, so the bytes are those of one after
// the other. Returns which of them have advanced. `after_own`: see SideBySide.
StatusOr<std::vector<bool>> AdvanceAll(const std::vector<WorkerFeed*>& feeds, SideBySide& threads,
                                       std::vector<OutgoingRecord>& out,
                                       const std::function<void()>& after_own);

}  // namespace millrace
