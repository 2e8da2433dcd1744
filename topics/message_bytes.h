// A message's bytes in pieces, so that its large parts are copied once: into the frames that
// travel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace millrace {

// Pieces of its own, and views of floats that stand elsewhere, in the order in which they are
// appended. Not thread-safe.
class MessageBytes {
 public:
  MessageBytes() = default;
  // All of them. Implicit: most messages are small.
  MessageBytes(std::string bytes) {  // NOLINT(google-explicit-constructor)
    Append(std::move(bytes));
  }

  void Append(std::string bytes) { pieces_.push_back({.own = std::move(bytes)}); }
  // The pieces of `more`, which has no owner.
  void AppendAll(MessageBytes more);
  // As they are on the wire, four bytes each or eight, the lowest first. The values are as they are
  // now for as long as this object is used; Keep may see to that.
  void AppendView(std::span<const float> values) { AppendView(std::as_bytes(values)); }
  void AppendView(std::span<const uint64_t> values) { AppendView(std::as_bytes(values)); }
  // Keeps `owner` as long as this object, or a copy of it, is there.
  void Keep(std::shared_ptr<const void> owner) { owner_ = std::move(owner); }

  size_t size() const;
  // Views of the pieces, until this object changes.
  std::vector<std::string_view> Pieces() const;
  // A copy of all.
  std::string Joined() const;

 private:
  void AppendView(std::span<const std::byte> bytes);

  struct Piece {
    std::string own{};
    std::string_view view{};  // instead; none: it has bytes of its own
  };

  std::vector<Piece> pieces_;
  std::shared_ptr<const void> owner_;
};

}  // namespace millrace
