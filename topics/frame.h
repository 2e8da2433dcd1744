// The bytes of a record's value: a format version, and the chunks of what is too large for one.
//
//   byte 0      format version (kFormatVersion)
//   byte 1      0: the rest is the message; 1: the rest is a chunk of one
//   chunk only  message id (8 bytes), index (4), count (4), all big-endian; then the chunk's bytes
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace millrace {

inline constexpr uint8_t kFormatVersion = 1;
// Below Kafka's default limit of 1 MiB a record, with room for key and headers. About 1 MB a chunk
// moves most bytes per second.
inline constexpr size_t kMaxFrameBytes = 950'000;

// A frame taken apart; views into the record.
struct Frame {
  bool is_chunk = false;
  uint64_t message_id = 0;
  uint32_t index = 0;
  uint32_t count = 1;
  std::string_view body;
};

// The begin of a frame that is not split; the message is to be appended, which spares a copy.
std::string WholeFrameHeader();
// One frame, or as many chunks as are needed. `message_id` tells apart messages of one sender.
std::vector<std::string> MakeFrames(std::string_view message, uint64_t message_id,
                                    size_t max_frame_bytes = kMaxFrameBytes);
// InvalidArgument: another format version, too short, or chunk numbers that make no sense.
StatusOr<Frame> ParseFrame(std::string_view value);

// Joins the chunks of one sender's messages. Two senders that believe to be the same worker (one
// of them a zombie) may interleave, so it keeps kKept unfinished messages and forgets the oldest:
// the sender repeats what is unanswered. Deterministic; part of the state of whoever folds a log.
class ChunkJoiner {
 public:
  static constexpr size_t kKept = 2;

  // Joined as far as it has come: chunk i ends at ends[i].
  struct Partial {
    uint64_t message_id = 0;
    uint32_t count = 0;
    std::string bytes{};
    std::vector<size_t> ends{};

    void Append(std::string_view chunk);
    std::vector<std::string_view> Chunks() const;
    bool operator==(const Partial&) const = default;
  };

  // The message when `frame` completes it (or is whole); empty when chunks are missing. A chunk
  // that is out of order starts nothing and is forgotten (chunk 0 comes again with the message).
  std::optional<std::string> Add(const Frame& frame);

  const std::vector<Partial>& partials() const { return partials_; }
  void Restore(std::vector<Partial> partials) { partials_ = std::move(partials); }

 private:
  std::vector<Partial> partials_;  // oldest first
};

}  // namespace millrace
