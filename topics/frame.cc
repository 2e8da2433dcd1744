#include "topics/frame.h"

#include <algorithm>
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

}  // namespace

std::string WholeFrameHeader() { return {static_cast<char>(kFormatVersion), kWhole}; }

std::vector<std::string> MakeFrames(std::string_view message, uint64_t message_id,
                                    size_t max_frame_bytes) {
  MILLRACE_CHECK(max_frame_bytes > kChunkHeaderBytes);
  std::vector<std::string> frames;
  if (message.size() + kHeaderBytes <= max_frame_bytes) {
    std::string& frame = frames.emplace_back();
    frame.reserve(kHeaderBytes + message.size());
    frame.append(WholeFrameHeader()).append(message);
    return frames;
  }
  const size_t chunk_bytes = max_frame_bytes - kChunkHeaderBytes;
  const size_t count = (message.size() + chunk_bytes - 1) / chunk_bytes;
  for (size_t index = 0; index < count; ++index) {
    const std::string_view chunk = message.substr(index * chunk_bytes, chunk_bytes);
    std::string& frame = frames.emplace_back();
    frame.reserve(kChunkHeaderBytes + chunk.size());
    frame.push_back(static_cast<char>(kFormatVersion));
    frame.push_back(kChunk);
    frame.append(EncodeBigEndian64(message_id));
    frame.append(EncodeBigEndian32(static_cast<uint32_t>(index)));
    frame.append(EncodeBigEndian32(static_cast<uint32_t>(count)));
    frame.append(chunk);
  }
  return frames;
}

StatusOr<Frame> ParseFrame(std::string_view value) {
  if (value.size() < kHeaderBytes) {
    return absl::InvalidArgumentError("the record is shorter than its header");
  }
  const auto version = static_cast<uint8_t>(value[0]);
  if (version != kFormatVersion) {
    return absl::InvalidArgumentError("format version " + std::to_string(version) +
                                      " where this program knows " +
                                      std::to_string(kFormatVersion));
  }
  Frame frame;
  if (value[1] == kWhole) {
    frame.body = value.substr(kHeaderBytes);
    return frame;
  }
  if (value[1] != kChunk || value.size() < kChunkHeaderBytes) {
    return absl::InvalidArgumentError("a damaged chunk header");
  }
  frame.is_chunk = true;
  frame.message_id = *DecodeBigEndian64(value.substr(2, 8));
  frame.index = *DecodeBigEndian32(value.substr(10, 4));
  frame.count = *DecodeBigEndian32(value.substr(14, 4));
  frame.body = value.substr(kChunkHeaderBytes);
  if (frame.count < 2 || frame.index >= frame.count) {
    return absl::InvalidArgumentError("chunk " + std::to_string(frame.index) + " of " +
                                      std::to_string(frame.count));
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

std::optional<std::string> ChunkJoiner::Add(const Frame& frame) {
  if (!frame.is_chunk) return std::string(frame.body);
  auto partial = std::find_if(partials_.begin(), partials_.end(), [&](const Partial& p) {
    return p.message_id == frame.message_id && p.count == frame.count;
  });
  if (frame.index == 0) {
    if (partial != partials_.end()) partials_.erase(partial);
    if (partials_.size() == kKept) partials_.erase(partials_.begin());
    partials_.push_back({.message_id = frame.message_id, .count = frame.count});
    partials_.back().Append(frame.body);
    return std::nullopt;
  }
  if (partial == partials_.end() || frame.index != partial->ends.size()) return std::nullopt;
  partial->Append(frame.body);
  if (partial->ends.size() < partial->count) return std::nullopt;
  std::string message = std::move(partial->bytes);
  partials_.erase(partial);
  return message;
}

}  // namespace millrace
