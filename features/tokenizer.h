// Words of a text, as scikit-learn's HashingVectorizer finds them by default: str.lower() of
// Python 3, then every match of r"(?u)\b\w\w+\b", that is every maximal run of two or more word
// characters. For all of Unicode, in the version of features/unicode_tables.h.
//
// Two passes over blocks of 64 bytes: the first lower-cases into a buffer and makes a bitmap of the
// bytes that belong to word characters, the second reads the words off the bitmap.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace millrace {

// Not thread-safe. Keeps its memory from text to text.
class Tokenizer {
 public:
  // So many bytes after a token may be read.
  static constexpr size_t kPadding = 64;

  // Reads a text, which may go afterwards. False if it is not valid UTF-8; there are no tokens
  // then.
  bool Read(std::string_view text);

  // The text has no more tokens than this: they take two bytes, and one between them.
  size_t MaxTokens() const { return (size_ + 1) / 3; }

  // Calls visit(const char* token, size_t size) for each token of the text in its order, in UTF-8
  // and lower case. The bytes are valid until the next Read().
  template <typename Visit>
  void ForEachToken(Visit visit) const;

 private:
  static bool IsOneCharacter(const char* token, size_t size);

  void ReadAsciiBlock(const char* block);
  bool ReadCharacters(std::string_view text, size_t begin, size_t end, size_t* next);
  void AppendCharacter(char32_t c, bool word);

  std::vector<char> lower_;               // the text in lower case, and padding
  size_t size_ = 0;                       // of it
  std::vector<uint64_t> words_ = {0, 0};  // a bit for each byte of it: part of a word character
  bool ascii_ = true;
};

template <typename Visit>
void Tokenizer::ForEachToken(Visit visit) const {
  uint64_t last = 0;       // 1 if the byte before the block is in a word
  uint64_t last_long = 0;  // the same, but words of one byte do not count
  size_t begin = 0;        // of the word that is open
  for (size_t block = 0; 64 * block <= size_; ++block) {
    const uint64_t word = words_[block];
    const uint64_t neighbours = (word << 1 | last) | (word >> 1 | words_[block + 1] << 63);
    last = word >> 63;
    // Leaving out words of one byte here saves a branch that nothing can predict.
    const uint64_t long_word = word & neighbours;
    const uint64_t previous = long_word << 1 | last_long;
    uint64_t begins = long_word & ~previous;
    uint64_t ends = ~long_word & previous;
    const auto open_next = [&] {
      if (begins == 0) return;
      begin = 64 * block + static_cast<size_t>(std::countr_zero(begins));
      begins &= begins - 1;
    };
    if (last_long == 0) open_next();
    last_long = long_word >> 63;
    for (; ends != 0; ends &= ends - 1) {
      const char* token = lower_.data() + begin;
      const size_t size = 64 * block + static_cast<size_t>(std::countr_zero(ends)) - begin;
      if (ascii_ || !IsOneCharacter(token, size)) visit(token, size);
      open_next();
    }
  }
}

}  // namespace millrace
