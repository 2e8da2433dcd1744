#include "topics/message_bytes.h"

#include <bit>
#include <iterator>

#include "base/check.h"

namespace millrace {

void MessageBytes::AppendView(std::span<const std::byte> bytes) {
  static_assert(std::endian::native == std::endian::little);
  pieces_.push_back({.view = {reinterpret_cast<const char*>(bytes.data()), bytes.size()}});
}

void MessageBytes::AppendAll(MessageBytes more) {
  MILLRACE_CHECK(more.owner_ == nullptr);
  pieces_.insert(pieces_.end(), std::make_move_iterator(more.pieces_.begin()),
                 std::make_move_iterator(more.pieces_.end()));
}

size_t MessageBytes::size() const {
  size_t size = 0;
  for (const Piece& piece : pieces_) size += piece.own.size() + piece.view.size();
  return size;
}

std::vector<std::string_view> MessageBytes::Pieces() const {
  std::vector<std::string_view> views;
  views.reserve(pieces_.size());
  for (const Piece& piece : pieces_) {
    views.push_back(piece.own.empty() ? piece.view : std::string_view(piece.own));
  }
  return views;
}

std::string MessageBytes::Joined() const {
  std::string bytes;
  bytes.reserve(size());
  for (const std::string_view piece : Pieces()) bytes.append(piece);
  return bytes;
}

}  // namespace millrace
