// Frames: any bytes are parsed or refused, and what was split is joined, whatever comes between.
#include <optional>
#include <string>
#include <vector>

#include "base/check.h"
#include "tests/fuzz/mutate_message.h"
#include "tests/fuzz/target.h"
#include "topics/frame.h"

namespace millrace::fuzz {
namespace {

using Joined = std::optional<std::string>;

// Frames of one sender with foreign ones in between, of the same sender (a zombie) or of another.
void JoinAmongOthers(const std::vector<std::string>& frames, const std::string& message,
                     ByteSource& bytes) {
  ChunkJoiner joiner;
  Joined joined;
  for (const std::string& value : frames) {
    std::string foreign = value;
    Mutate(foreign, bytes);
    const auto sender = static_cast<uint32_t>(bytes.Below(2));
    const StatusOr<Frame> other = ParseFrame(foreign);
    const StatusOr<Frame> frame = ParseFrame(value);
    MILLRACE_CHECK(frame.ok() && !joined);
    // Of a sender one unfinished message is kept beside this one.
    if (other.ok() && (sender != 0 || other->message_id != frame->message_id)) {
      MILLRACE_CHECK(joiner.Add(sender, *other).ok());
    }
    MILLRACE_CHECK(joiner.partials().size() <= 2 * ChunkJoiner::kKept);
    joined = *joiner.Add(0, *frame);
  }
  if (frames.size() == 1) MILLRACE_CHECK(joined == message);
  if (joined) MILLRACE_CHECK(*joined == message);
}

// Always whole, also from a joiner that was saved in between.
void JoinAlone(const std::vector<std::string>& frames, const std::string& message) {
  ChunkJoiner joiner;
  Joined joined;
  for (const std::string& value : frames) {
    ChunkJoiner restored;
    restored.Restore(joiner.partials());
    joined = *joiner.Add(0, *ParseFrame(value));
    MILLRACE_CHECK(*restored.Add(0, *ParseFrame(value)) == joined);
    MILLRACE_CHECK(restored.partials() == joiner.partials());
  }
  MILLRACE_CHECK(joined == message);
  MILLRACE_CHECK(joiner.partials().empty() && joiner.bytes() == 0);
}

// Any frames of any senders, good and bad, by a joiner that keeps little.
void JoinAny(ByteSource& bytes) {
  const ChunkLimits limits{.sender_bytes = bytes.Below(64), .bytes = bytes.Below(128)};
  ChunkJoiner joiner(limits);
  while (!bytes.empty()) {
    const auto sender = static_cast<uint32_t>(bytes.Below(3));
    std::string value(bytes.Text(60));
    if (bytes.Chance(200)) {
      const std::string body(bytes.Text(40));
      std::vector<std::string> frames = MakeFrames(body, bytes.Below(2), 19 + bytes.Below(8));
      value = frames[bytes.Below(frames.size())];
    }
    const StatusOr<Frame> frame = ParseFrame(value);
    if (!frame.ok()) continue;
    MILLRACE_CHECK(frame->index < frame->count);
    const StatusOr<Joined> joined = joiner.Add(sender, *frame);
    if (!frame->is_chunk) MILLRACE_CHECK(joined.ok() && *joined == frame->body);
    size_t kept = 0;
    size_t of_sender = 0;
    for (const ChunkJoiner::Partial& partial : joiner.partials()) {
      MILLRACE_CHECK(partial.ends.size() < partial.count);
      MILLRACE_CHECK(partial.Chunks().size() == partial.ends.size());
      kept += partial.bytes.size();
      if (partial.sender == sender) of_sender += partial.bytes.size();
    }
    MILLRACE_CHECK(kept == joiner.bytes() && kept <= limits.bytes);
    MILLRACE_CHECK(of_sender <= limits.sender_bytes);
  }
}

}  // namespace

void FuzzOne(ByteSource& bytes) {
  const std::string message(bytes.Text(1000));
  const size_t most = 19 + bytes.Below(200);  // a header, and a byte at least
  const std::vector<std::string> frames = MakeFrames(message, bytes.Number(), most);
  for (const std::string& value : frames) MILLRACE_CHECK(value.size() <= most);
  JoinAlone(frames, message);
  JoinAmongOthers(frames, message, bytes);
  JoinAny(bytes);
}

}  // namespace millrace::fuzz
