#include "tasks/state_codec.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/big_endian.h"
#include "base/check.h"
#include "topics/frame.h"

namespace millrace {
namespace {

constexpr size_t kLengthBytes = 8;
// Around an element of a repeated field: its tag and its length.
constexpr size_t kMostHeadBytes = 16;

Status DamagedState(const std::string& reason) {
  return absl::DataLossError("it is damaged: " + reason);
}

// Fills pieces with the elements of the state's repeated fields, which are merged by being read one
// after the other.
class PieceWriter {
 public:
  explicit PieceWriter(size_t most_bytes) : most_bytes_(most_bytes) {}

  // `add` makes the next element's place in a piece.
  template <typename Elements, typename Add>
  Status AddAll(Elements& elements, const Add& add) {
    for (auto& element : elements) {
      const size_t bytes = element.ByteSizeLong() + kMostHeadBytes;
      if (bytes_ + bytes > most_bytes_) MILLRACE_RETURN_IF_ERROR(Flush());
      bytes_ += bytes;
      add(piece_)->Swap(&element);
      element.Clear();
    }
    elements.Clear();
    return absl::OkStatus();
  }

  Status Begin(ShardState head) {
    piece_ = std::move(head);
    bytes_ = piece_.ByteSizeLong();
    return absl::OkStatus();
  }

  Status Flush() {
    if (bytes_ == 0) return absl::OkStatus();
    MILLRACE_ASSIGN_OR_RETURN(std::string body, SerializeMessage(piece_, most_bytes_));
    MILLRACE_CHECK(!body.empty());
    pieces_.push_back(EncodeBigEndian64(body.size()));
    pieces_.push_back(std::move(body));
    piece_ = ShardState();
    bytes_ = 0;
    return absl::OkStatus();
  }

  std::vector<std::string> Take() { return std::move(pieces_); }

 private:
  size_t most_bytes_;
  ShardState piece_;
  size_t bytes_ = 0;
  std::vector<std::string> pieces_;
};

}  // namespace

StatusOr<std::vector<std::string>> EncodeState(ShardState state, size_t most_piece_bytes) {
  ShardState head;
  head.Swap(&state);
  state.mutable_members()->Swap(head.mutable_members());
  state.mutable_partial()->Swap(head.mutable_partial());
  state.mutable_restoring()->Swap(head.mutable_restoring());
  PieceWriter writer(most_piece_bytes);
  MILLRACE_RETURN_IF_ERROR(writer.Begin(std::move(head)));
  MILLRACE_RETURN_IF_ERROR(
      writer.AddAll(*state.mutable_members(), [](ShardState& s) { return s.add_members(); }));
  MILLRACE_RETURN_IF_ERROR(
      writer.AddAll(*state.mutable_partial(), [](ShardState& s) { return s.add_partial(); }));
  MILLRACE_RETURN_IF_ERROR(
      writer.AddAll(*state.mutable_restoring(), [](ShardState& s) { return s.add_restoring(); }));
  MILLRACE_RETURN_IF_ERROR(writer.Flush());
  return writer.Take();
}

std::string StateKey(uint32_t chunk) { return kStateKeyPrefix + EncodeBigEndian32(chunk); }

StatusOr<std::vector<Checkpoint::Entry>> EncodeStateEntries(ShardState state,
                                                            const ServerOptions& options) {
  const uint64_t message_id = state.position();
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::string> pieces,
                            EncodeState(std::move(state), options.most_message_bytes));
  std::vector<Checkpoint::Entry> entries;
  uint32_t chunk = 0;
  for (std::string& frame : MakeFrames(pieces, message_id, options.max_frame_bytes)) {
    entries.push_back({StateKey(chunk++), std::move(frame)});
  }
  return entries;
}

StatusOr<ShardState> DecodeState(std::string_view bytes) {
  ShardState state;
  while (!bytes.empty()) {
    const std::optional<uint64_t> length = DecodeBigEndian64(bytes.substr(0, kLengthBytes));
    if (!length || *length > bytes.size() - kLengthBytes) {
      return DamagedState("a part is longer than the bytes that are left");
    }
    const std::string_view body = bytes.substr(kLengthBytes, *length);
    ShardState piece;
    if (!ParseMessage(body, piece).ok()) return DamagedState("a part is not a ShardState");
    state.MergeFrom(piece);
    bytes.remove_prefix(kLengthBytes + *length);
  }
  return state;
}

}  // namespace millrace
