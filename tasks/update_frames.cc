#include "tasks/update_frames.h"

#include <string>
#include <utility>

#include "base/big_endian.h"
#include "topics/frame.h"

namespace millrace {

void AppendFrames(const std::vector<WorkerMessage>& messages, const WorkerOptions& options,
                  uint64_t& next_message_id, std::vector<OutgoingRecord>& out) {
  for (const WorkerMessage& message : messages) {
    for (std::string& frame :
         MakeFrames(*message.body, next_message_id++, options.max_frame_bytes)) {
      out.push_back({Topic::kGradients, options.PartitionOf(message.shard),
                     EncodeBigEndian32(options.worker), std::move(frame)});
    }
  }
}

}  // namespace millrace
