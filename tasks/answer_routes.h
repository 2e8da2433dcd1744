// Which answers go by a stream, and which through Kafka.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/types.h"
#include "topics/outgoing_record.h"

namespace millrace {

// A worker's answers go to the stream that has subscribed to it last, and to the log when there is
// none, or when it has not taken what it was sent: a slow process costs no memory. What a stream
// was sent may be lost when it ends, or may have come to a process that has the worker no more. So
// who loses its stream is answered again. Who follows the job reads the log. Not thread-safe.
class AnswerRoutes {
 public:
  using Stream = uint64_t;

  // A stream gets no message while so many bytes, with it, wait for it.
  explicit AnswerRoutes(size_t most_waiting_bytes) : most_waiting_bytes_(most_waiting_bytes) {}

  Stream Open();
  // The stream has these workers from now on, and no others. The workers that it, or another
  // stream, has no more: they are to be answered again.
  std::vector<WorkerId> Subscribe(Stream stream, const std::set<WorkerId>& workers);
  // The stream has ended. The workers whose answers it would have got: they are to be answered
  // again.
  std::vector<WorkerId> Close(Stream stream);

  struct Ways {
    std::vector<Stream> streams{};
    bool log = true;
  };
  // Where a record goes. All chunks of a message go the same ways, but for streams that end
  // meanwhile. REQUIRES: of each shard, the chunks of a message are asked for one after the other.
  // (Shards of one process answer side by side.)
  Ways Route(const OutgoingRecord& record);
  // A record of so many bytes waits no more.
  void Taken(Stream stream, size_t bytes);

  size_t waiting_bytes(Stream stream) const { return waiting_.at(stream); }

 private:
  Ways RouteMessage(const OutgoingRecord& record, size_t bytes) const;

  size_t most_waiting_bytes_;
  Stream last_ = 0;
  std::map<Stream, size_t> waiting_;      // bytes, of each that is open
  std::map<WorkerId, Stream> stream_of_;  // open ones
  // Of each shard's last message, by its number as it stands in the key.
  std::map<std::string, Ways> ways_;
};

}  // namespace millrace
