#include "formats/json_text.h"

#include <vector>

namespace millrace {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

bool IsHexDigit(char c) { return IsDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

// Each function passes over what it is called for, and returns false where that is not.
class JsonScanner {
 public:
  explicit JsonScanner(std::string_view text) : text_(text) {}

  size_t at() const { return at_; }

  // Without recursion: foreign texts may be as deep as they are long.
  bool ScanText() {
    while (true) {
      SkipSpace();
      if (Take('{')) {
        SkipSpace();
        if (!Take('}')) {
          is_object_.push_back(true);
          if (!ScanName()) return false;
          continue;
        }
      } else if (Take('[')) {
        SkipSpace();
        if (!Take(']')) {
          is_object_.push_back(false);
          continue;
        }
      } else if (!ScanScalar()) {
        return false;
      }
      if (!ScanEnds()) return false;
      if (is_object_.empty()) return at_ == text_.size();
    }
  }

 private:
  bool Is(char c) const { return at_ < text_.size() && text_[at_] == c; }
  bool Take(char c) {
    if (!Is(c)) return false;
    ++at_;
    return true;
  }
  void SkipSpace() {
    while (Is(' ') || Is('\t') || Is('\n') || Is('\r')) ++at_;
  }

  // What may follow a value: the ends of what it is in, up to the beginning of the next value.
  bool ScanEnds() {
    while (true) {
      SkipSpace();
      if (is_object_.empty()) return true;
      const bool in_object = is_object_.back();
      if (Take(',')) {
        SkipSpace();
        return !in_object || ScanName();
      }
      if (!Take(in_object ? '}' : ']')) return false;
      is_object_.pop_back();
    }
  }

  bool ScanName() {
    if (!ScanString()) return false;
    SkipSpace();
    return Take(':');
  }

  bool ScanScalar() {
    if (Is('"')) return ScanString();
    if (Is('t')) return ScanWord("true");
    if (Is('f')) return ScanWord("false");
    if (Is('n')) return ScanWord("null");
    return ScanNumber();
  }

  bool ScanWord(std::string_view word) {
    for (const char c : word) {
      if (!Take(c)) return false;
    }
    return true;
  }

  bool ScanString() {
    if (!Take('"')) return false;
    while (at_ < text_.size()) {
      if (Take('"')) return true;
      if (static_cast<unsigned char>(text_[at_]) < 0x20) return false;
      if (!Take('\\')) {
        ++at_;
      } else if (!ScanEscape()) {
        return false;
      }
    }
    return false;
  }

  bool ScanEscape() {
    constexpr std::string_view kShort = "\"\\/bfnrt";
    if (at_ < text_.size() && kShort.find(text_[at_]) != std::string_view::npos) {
      ++at_;
      return true;
    }
    if (!Take('u')) return false;
    for (int i = 0; i < 4; ++i) {
      if (at_ == text_.size() || !IsHexDigit(text_[at_])) return false;
      ++at_;
    }
    return true;
  }

  bool ScanDigits() {
    const size_t begin = at_;
    while (at_ < text_.size() && IsDigit(text_[at_])) ++at_;
    return at_ > begin;
  }

  bool ScanNumber() {
    Take('-');
    if (!Take('0') && !ScanDigits()) return false;
    if (Take('.') && !ScanDigits()) return false;
    if (!Take('e') && !Take('E')) return true;
    if (!Take('+')) Take('-');
    return ScanDigits();
  }

  const std::string_view text_;
  size_t at_ = 0;
  std::vector<bool> is_object_;  // or an array: what is open, the innermost last
};

}  // namespace

std::optional<size_t> FindJsonError(std::string_view text) {
  JsonScanner scanner(text);
  if (scanner.ScanText()) return std::nullopt;
  return scanner.at();
}

}  // namespace millrace
