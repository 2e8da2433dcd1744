#include "tasks/update_frames.h"

#include <string>
#include <utility>

#include "base/big_endian.h"
#include "topics/frame.h"

namespace millrace {

Status SendFrames(const std::vector<WorkerMessage>& messages, const WorkerOptions& options,
                  uint64_t& next_message_id, const RecordSink& out) {
  for (const WorkerMessage& message : messages) {
    MILLRACE_RETURN_IF_ERROR(GiveFrames(
        message.body->Pieces(), next_message_id++, options.max_frame_bytes, [&](std::string frame) {
          return out({Topic::kGradients, options.PartitionOf(message.shard),
                      EncodeBigEndian32(options.worker), std::move(frame)});
        }));
  }
  return absl::OkStatus();
}

}  // namespace millrace
