#include "features/tokenizer.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/utf8.h"
#include "features/unicode_tables.h"
#include "formats/byte_mask.h"

namespace millrace {
namespace {

constexpr size_t kBlock = 64;

// No code point's lower case takes more than 3/2 of its bytes (generate_unicode_tables.py checks).
size_t MaxLowerSize(size_t size) { return size + size / 2 + 1; }

Bytes16 LowerAscii(Bytes16 c) {
  const Bytes16 upper = reinterpret_cast<Bytes16>((c >= 'A') & (c <= 'Z'));
  return c | (upper & 0x20);
}

bool IsAscii(const char* block) {
  Bytes16 any = {};
  for (size_t i = 0; i < kBlock; i += 16) any |= LoadBytes16(block + i);
  return HighBits(any) == 0;
}

// Whether the first code point of `text`, read in the direction that `next` goes, that is not
// case-ignorable is cased.
bool CasedBefore(std::string_view text) {
  while (!text.empty()) {
    size_t size = 1;
    while (size < text.size() && (static_cast<uint8_t>(text[text.size() - size]) & 0xC0) == 0x80) {
      ++size;
    }
    const Utf8Char c = DecodeUtf8(text.substr(text.size() - size));
    const UnicodeProperties& properties = FindProperties(c.code_point);
    if (!properties.case_ignorable) return properties.cased;
    text.remove_suffix(size);
  }
  return false;
}

bool CasedAfter(std::string_view text) {
  while (!text.empty()) {
    const Utf8Char c = DecodeUtf8(text);
    if (c.size == 0) return false;  // the text will be refused when it is read up to here
    const UnicodeProperties& properties = FindProperties(c.code_point);
    if (!properties.case_ignorable) return properties.cased;
    text.remove_prefix(c.size);
  }
  return false;
}

}  // namespace

bool Tokenizer::Read(std::string_view text) {
  const size_t room = MaxLowerSize(text.size());
  if (lower_.size() < room + kPadding) lower_.resize(room + kPadding);
  // One word more than a token can end in, and one that ForEachToken() looks ahead to.
  if (words_.size() < room / 64 + 3) words_.resize(room / 64 + 3);
  size_ = 0;
  words_[0] = 0;
  ascii_ = true;

  size_t at = 0;
  while (at < text.size()) {
    const size_t left = text.size() - at;
    char padded[kBlock];
    const char* block = text.data() + at;
    if (left < kBlock) {
      std::memset(padded, 0, kBlock);
      std::memcpy(padded, block, left);
      block = padded;
    }
    if (IsAscii(block)) {
      ReadAsciiBlock(block);
      size_ += std::min(left, kBlock);
      at += kBlock;
      continue;
    }
    ascii_ = false;
    if (!ReadCharacters(text, at, at + std::min(left, kBlock), &at)) {
      size_ = 0;
      words_[0] = words_[1] = 0;
      return false;
    }
  }
  words_[size_ / 64 + 1] = 0;
  return true;
}

// Appends 64 bytes, after which the buffer may hold padding that is overwritten later; the bitmap
// after size_ is all 0 up to the end of its block, and stays so.
void Tokenizer::ReadAsciiBlock(const char* block) {
  char* out = lower_.data() + size_;
  for (size_t i = 0; i < kBlock; i += 16) {
    StoreBytes16(LowerAscii(LoadBytes16(block + i)), out + i);
  }
  const uint64_t word = ByteMask(out, [](Bytes16 c) {
    return ((c >= 'a') & (c <= 'z')) | ((c >= '0') & (c <= '9')) | (c == '_');
  });
  const size_t shift = size_ % 64;
  words_[size_ / 64] |= word << shift;
  words_[size_ / 64 + 1] = shift == 0 ? 0 : word >> (64 - shift);
}

// Appends the characters that start in text[begin, end).
bool Tokenizer::ReadCharacters(std::string_view text, size_t begin, size_t end, size_t* next) {
  size_t at = begin;
  while (at < end) {
    const Utf8Char c = DecodeUtf8(text.substr(at));
    if (c.size == 0) return false;
    if (c.code_point == kCapitalSigma) {
      const bool final = CasedBefore(text.substr(0, at)) && !CasedAfter(text.substr(at + c.size));
      AppendCharacter(final ? kSmallFinalSigma : kSmallSigma, true);
    } else {
      const UnicodeProperties& properties = FindProperties(c.code_point);
      AppendCharacter(c.code_point + static_cast<char32_t>(properties.to_lower), properties.word);
      if (c.code_point == kCapitalDottedI) AppendCharacter(kCombiningDotAbove, false);
    }
    at += c.size;
  }
  *next = at;
  return true;
}

void Tokenizer::AppendCharacter(char32_t c, bool word) {
  const size_t bytes = EncodeUtf8(c, lower_.data() + size_);
  const size_t shift = size_ % 64;
  const uint64_t bits = word ? (uint64_t{1} << bytes) - 1 : 0;
  words_[size_ / 64] |= bits << shift;
  if (shift + bytes >= 64) words_[size_ / 64 + 1] = bits >> (64 - shift);
  size_ += bytes;
}

bool Tokenizer::IsOneCharacter(const char* token, size_t size) {
  return size <= 4 && DecodeUtf8({token, size}).size == size;
}

}  // namespace millrace
