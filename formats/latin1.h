// windows-1252, the western encoding of older files, of which ISO 8859-1 (latin-1) is a part.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace millrace {

// Bytes that one byte of windows-1252 may become.
inline constexpr size_t kMostUtf8OfLatin1 = 3;

// Writes `text` in UTF-8 to `out`, which has room for kMostUtf8OfLatin1 bytes for each of its
// bytes, and returns their number. The five bytes that windows-1252 does not define become the
// control characters of ISO 8859-1, as in browsers.
size_t Latin1ToUtf8(std::string_view text, std::span<char> out);

}  // namespace millrace
