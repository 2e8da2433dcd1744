#include "topics/frame.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/big_endian.h"
#include "base/check.h"

namespace millrace {
namespace {

constexpr size_t kHeaderBytes = 2;
constexpr size_t kChunkHeaderBytes = kHeaderBytes + 8 + 4 + 4;
constexpr char kWhole = 0;
constexpr char kChunk = 1;
constexpr size_t kMostReserved = size_t{64} << 20;

// Reads parts one after the other.
class PartsReader {
 public:
  explicit PartsReader(std::span<const std::string_view> parts) : parts_(parts) {}

  // Appends the next `size` bytes. REQUIRES: there are so many.
  void AppendNext(size_t size, std::string& to) {
    while (size > 0) {
      MILLRACE_CHECK(part_ < parts_.size());
      const std::string_view piece = parts_[part_].substr(at_, size);
      to.append(piece);
      size -= piece.size();
      at_ += piece.size();
      if (at_ < parts_[part_].size()) continue;
      ++part_;
      at_ = 0;
    }
  }

 private:
  std::span<const std::string_view> parts_;
  size_t part_ = 0;
  size_t at_ = 0;
};

std::vector<std::string> FramesOf(std::span<const std::string_view> parts, uint64_t message_id,
                                  size_t max_frame_bytes) {
  std::vector<std::string> frames;
  const Status taken = GiveFrames(parts, message_id, max_frame_bytes, [&](std::string frame) {
    frames.push_back(std::move(frame));
    return absl::OkStatus();
  });
  MILLRACE_CHECK(taken.ok());
  return frames;
}

}  // namespace

Status GiveFrames(std::span<const std::string_view> parts, uint64_t message_id,
                  size_t max_frame_bytes, const TakeFrame& take) {
  MILLRACE_CHECK(max_frame_bytes > kChunkHeaderBytes);
  size_t size = 0;
  for (const std::string_view part : parts) size += part.size();
  PartsReader reader(parts);
  if (size + kHeaderBytes <= max_frame_bytes) {
    std::string frame;
    frame.reserve(kHeaderBytes + size);
    frame.append(WholeFrameHeader());
    reader.AppendNext(size, frame);
    return take(std::move(frame));
  }
  const size_t chunk_bytes = max_frame_bytes - kChunkHeaderBytes;
  const size_t count = (size + chunk_bytes - 1) / chunk_bytes;
  MILLRACE_CHECK(count <= std::numeric_limits<uint32_t>::max());
  for (size_t index = 0; index < count; ++index) {
    const size_t bytes = std::min(chunk_bytes, size - index * chunk_bytes);
    std::string frame;
    frame.reserve(kChunkHeaderBytes + bytes);
    frame.push_back(static_cast<char>(kFormatVersion));
    frame.push_back(kChunk);
    frame.append(EncodeBigEndian64(message_id));
    frame.append(EncodeBigEndian32(static_cast<uint32_t>(index)));
    frame.append(EncodeBigEndian32(static_cast<uint32_t>(count)));
    reader.AppendNext(bytes, frame);
    MILLRACE_RETURN_IF_ERROR(take(std::move(frame)));
  }
  return absl::OkStatus();
}

std::string WholeFrameHeader() { return {static_cast<char>(kFormatVersion), kWhole}; }

std::vector<std::string> MakeFrames(std::string_view message, uint64_t message_id,
                                    size_t max_frame_bytes) {
  return FramesOf({&message, 1}, message_id, max_frame_bytes);
}

std::vector<std::string> MakeFrames(std::span<const std::string> parts, uint64_t message_id,
                                    size_t max_frame_bytes) {
  const std::vector<std::string_view> views(parts.begin(), parts.end());
  return FramesOf(views, message_id, max_frame_bytes);
}

StatusOr<Frame> ParseFrame(std::string_view value) {
  if (value.size() < kHeaderBytes) {
    return absl::InvalidArgumentError("the record is shorter than its header");
  }
  const auto version = static_cast<uint8_t>(value[0]);
  if (version != kFormatVersion) {
    return absl::InvalidArgumentError("format version " + std::to_string(version) +
                                      ", but this program reads " + std::to_string(kFormatVersion));
  }
  Frame frame;
  if (value[1] == kWhole) {
    frame.body = value.substr(kHeaderBytes);
    return frame;
  }
  if (value[1] != kChunk || value.size() < kChunkHeaderBytes) {
    return absl::InvalidArgumentError("its chunk header is damaged");
  }
  frame.is_chunk = true;
  frame.message_id = *DecodeBigEndian64(value.substr(2, 8));
  frame.index = *DecodeBigEndian32(value.substr(10, 4));
  frame.count = *DecodeBigEndian32(value.substr(14, 4));
  frame.body = value.substr(kChunkHeaderBytes);
  if (frame.count < 2 || frame.index >= frame.count) {
    return absl::InvalidArgumentError("chunk " + std::to_string(frame.index) + " of " +
                                      std::to_string(frame.count) +
                                      ": there are at least 2, numbered from 0");
  }
  return frame;
}

void ChunkJoiner::Partial::Append(std::string_view chunk) {
  // As if the others were as large; but a count that somebody made up takes no memory.
  if (ends.empty()) bytes.reserve(std::min(chunk.size() * count, kMostReserved));
  bytes.append(chunk);
  ends.push_back(bytes.size());
}

std::vector<std::string_view> ChunkJoiner::Partial::Chunks() const {
  std::vector<std::string_view> chunks;
  size_t begin = 0;
  for (const size_t end : ends) {
    chunks.push_back(std::string_view(bytes).substr(begin, end - begin));
    begin = end;
  }
  return chunks;
}

bool ChunkJoiner::Partial::IsOf(uint32_t of_sender, const Frame& frame) const {
  return sender == of_sender && message_id == frame.message_id && count == frame.count;
}

ChunkJoiner::Place ChunkJoiner::Find(uint32_t sender, const Frame& frame) {
  return std::ranges::find_if(partials_,
                              [&](const Partial& partial) { return partial.IsOf(sender, frame); });
}

ChunkJoiner::Place ChunkJoiner::OldestOf(uint32_t sender) {
  return std::ranges::find(partials_, sender, &Partial::sender);
}

size_t ChunkJoiner::CountOf(uint32_t sender) const {
  return static_cast<size_t>(std::ranges::count(partials_, sender, &Partial::sender));
}

size_t ChunkJoiner::BytesOf(uint32_t sender) const {
  size_t bytes = 0;
  for (const Partial& partial : partials_) {
    if (partial.sender == sender) bytes += partial.bytes.size();
  }
  return bytes;
}

void ChunkJoiner::Erase(Place place) {
  MILLRACE_CHECK(place != partials_.end() && bytes_ >= place->bytes.size());
  bytes_ -= place->bytes.size();
  partials_.erase(place);
}

void ChunkJoiner::Forget(uint32_t sender) {
  for (Place oldest = OldestOf(sender); oldest != partials_.end(); oldest = OldestOf(sender)) {
    Erase(oldest);
  }
}

void ChunkJoiner::Restore(std::vector<Partial> partials) {
  partials_ = std::move(partials);
  bytes_ = 0;
  for (const Partial& partial : partials_) bytes_ += partial.bytes.size();
}

// What the frame belongs to goes last: there is nothing else to be forgotten then.
Status ChunkJoiner::MakeRoom(uint32_t sender, const Frame& frame) {
  const size_t size = frame.body.size();
  while (BytesOf(sender) + size > limits_.sender_bytes) {
    const Place other = std::ranges::find_if(partials_, [&](const Partial& partial) {
      return partial.sender == sender && !partial.IsOf(sender, frame);
    });
    if (other == partials_.end()) break;
    Erase(other);
  }
  while (bytes_ + size > limits_.bytes) {
    const Place other = std::ranges::find_if(
        partials_, [&](const Partial& partial) { return !partial.IsOf(sender, frame); });
    if (other == partials_.end()) break;
    Erase(other);
  }
  const size_t most = std::min(limits_.sender_bytes, limits_.bytes);
  if (BytesOf(sender) + size <= most && bytes_ + size <= limits_.bytes) return absl::OkStatus();
  if (const Place place = Find(sender, frame); place != partials_.end()) Erase(place);
  return absl::ResourceExhaustedError("a message of " + std::to_string(frame.count) +
                                      " chunks, but at most " + std::to_string(most) +
                                      " bytes are kept for incomplete messages");
}

void ChunkJoiner::Begin(uint32_t sender, const Frame& frame) {
  if (const Place same = Find(sender, frame); same != partials_.end()) Erase(same);
  while (CountOf(sender) >= kKept) Erase(OldestOf(sender));
  partials_.push_back({sender, frame.message_id, frame.count});
}

StatusOr<std::optional<std::string>> ChunkJoiner::Add(uint32_t sender, const Frame& frame) {
  if (!frame.is_chunk) return std::optional<std::string>(frame.body);
  if (frame.index == 0) Begin(sender, frame);
  const Place place = Find(sender, frame);
  if (place == partials_.end() || frame.index != place->ends.size()) {
    return std::optional<std::string>();
  }
  MILLRACE_RETURN_IF_ERROR(MakeRoom(sender, frame));
  Partial& partial = *Find(sender, frame);
  partial.Append(frame.body);
  bytes_ += frame.body.size();
  MILLRACE_CHECK(partial.ends.size() <= partial.count && bytes_ <= limits_.bytes);
  if (partial.ends.size() < partial.count) return std::optional<std::string>();
  std::string message = std::move(partial.bytes);
  bytes_ -= message.size();
  partial.bytes.clear();
  Erase(Find(sender, frame));
  return std::optional<std::string>(std::move(message));
}

}  // namespace millrace
