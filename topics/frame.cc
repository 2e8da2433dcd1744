#include "topics/frame.h"

#include <algorithm>

#include "base/big_endian.h"
#include "base/check.h"

namespace millrace {
namespace {

constexpr size_t kHeaderBytes = 2;
constexpr size_t kChunkHeaderBytes = kHeaderBytes + 8 + 4 + 4;
constexpr char kWhole = 0;
constexpr char kChunk = 1;

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
    std::string& frame = frames.emplace_back();
    frame.push_back(static_cast<char>(kFormatVersion));
    frame.push_back(kChunk);
    frame.append(EncodeBigEndian64(message_id));
    frame.append(EncodeBigEndian32(static_cast<uint32_t>(index)));
    frame.append(EncodeBigEndian32(static_cast<uint32_t>(count)));
    frame.append(message.substr(index * chunk_bytes, chunk_bytes));
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

std::optional<std::string> ChunkJoiner::Add(const Frame& frame) {
  if (!frame.is_chunk) return std::string(frame.body);
  auto partial = std::find_if(partials_.begin(), partials_.end(), [&](const Partial& p) {
    return p.message_id == frame.message_id && p.count == frame.count;
  });
  if (frame.index == 0) {
    if (partial != partials_.end()) partials_.erase(partial);
    if (partials_.size() == kKept) partials_.erase(partials_.begin());
    partials_.push_back({frame.message_id, frame.count, {std::string(frame.body)}});
    return std::nullopt;
  }
  if (partial == partials_.end() || frame.index != partial->chunks.size()) return std::nullopt;
  partial->chunks.emplace_back(frame.body);
  if (partial->chunks.size() < partial->count) return std::nullopt;
  std::string message;
  for (const std::string& chunk : partial->chunks) message += chunk;
  partials_.erase(partial);
  return message;
}

}  // namespace millrace
