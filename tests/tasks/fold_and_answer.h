// Gives a shard's task a record as the programs do.
#pragma once

#include "base/check.h"
#include "base/status.h"
#include "tasks/shard_feed.h"
#include "tasks/shard_task.h"
#include "topics/outgoing_record.h"

namespace millrace {

// With answers at once, as when no more records wait. REQUIRES that the task is at no cut.
inline Status FoldAndAnswer(ShardTask& task, const GradientRecord& record, const RecordSink& out) {
  ShardFeed feed(task);
  MILLRACE_CHECK(!feed.at_cut());
  MILLRACE_RETURN_IF_ERROR(feed.Take(record, out));
  return feed.AnswerDue(out);
}

}  // namespace millrace
