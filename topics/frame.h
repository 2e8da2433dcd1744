// The bytes of a record's value: a format version, and the chunks of what is too large for one.
//
//   byte 0      format version (kFormatVersion)
//   byte 1      0: the rest is the message; 1: the rest is a chunk of one
//   chunk only  message id (8 bytes), index (4), count (4), all big-endian; then the chunk's bytes
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace millrace {

inline constexpr uint8_t kFormatVersion = 2;
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

// The header of a frame that is not split; appending the message to it saves a copy.
std::string WholeFrameHeader();
// One frame, or as many chunks as are needed. `message_id` distinguishes the messages of one
// sender.
std::vector<std::string> MakeFrames(std::string_view message, uint64_t message_id,
                                    size_t max_frame_bytes = kMaxFrameBytes);
// The same for a message in several parts, which saves concatenating them.
std::vector<std::string> MakeFrames(std::span<const std::string> parts, uint64_t message_id,
                                    size_t max_frame_bytes = kMaxFrameBytes);
// The same, but each is taken as soon as it is made: the first one may travel while the others are
// copied. The first error of `take` ends it.
using TakeFrame = std::function<Status(std::string frame)>;
Status GiveFrames(std::span<const std::string_view> parts, uint64_t message_id,
                  size_t max_frame_bytes, const TakeFrame& take);
// InvalidArgument: another format version, too short, or chunk numbers that make no sense.
StatusOr<Frame> ParseFrame(std::string_view value);

// How much a joiner keeps. Complete messages are not counted: they are returned at once.
struct ChunkLimits {
  size_t sender_bytes = size_t{1} << 30;  // of a sender's unfinished messages
  size_t bytes = size_t{4} << 30;         // of all
};

// Joins the chunks of senders' messages. Chunks of two instances of a worker (one of them a zombie)
// may interleave, so it keeps kKept unfinished messages of each sender and drops the oldest: the
// sender repeats what is unanswered. Beyond its limits it drops the oldest, too. Deterministic;
// part of the state that is folded from a log.
class ChunkJoiner {
 public:
  static constexpr size_t kKept = 2;

  // The chunks received so far, joined: chunk i ends at ends[i].
  struct Partial {
    uint32_t sender = 0;
    uint64_t message_id = 0;
    uint32_t count = 0;
    std::string bytes{};
    std::vector<size_t> ends{};

    void Append(std::string_view chunk);
    std::vector<std::string_view> Chunks() const;
    // Whether the frame is a chunk of this message.
    bool IsOf(uint32_t of_sender, const Frame& frame) const;
    bool operator==(const Partial&) const = default;
  };

  explicit ChunkJoiner(ChunkLimits limits = {}) : limits_(limits) {}

  // The message when `frame` completes it (or is not a chunk); empty when chunks are missing. A
  // chunk out of order is dropped (the sender repeats the message from chunk 0). ResourceExhausted
  // when a message exceeds what may be kept of its sender; it is dropped.
  StatusOr<std::optional<std::string>> Add(uint32_t sender, const Frame& frame);
  // Drops all messages of that sender.
  void Forget(uint32_t sender);

  const std::vector<Partial>& partials() const { return partials_; }  // oldest first
  size_t bytes() const { return bytes_; }
  void Restore(std::vector<Partial> partials);

 private:
  using Place = std::vector<Partial>::iterator;

  Place Find(uint32_t sender, const Frame& frame);
  void Begin(uint32_t sender, const Frame& frame);
  Place OldestOf(uint32_t sender);
  size_t CountOf(uint32_t sender) const;
  size_t BytesOf(uint32_t sender) const;
  void Erase(Place place);
  // Makes room for a chunk of the newest or any partial message, by dropping others.
  Status MakeRoom(uint32_t sender, const Frame& frame);

  ChunkLimits limits_;
  std::vector<Partial> partials_;
  size_t bytes_ = 0;
};

}  // namespace millrace
