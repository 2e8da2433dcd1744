// gzip and zstd of any bytes: what was compressed comes back, and pieces of any size change
// nothing.
#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

#include "base/check.h"
#include "formats/decompressor.h"
#include "tests/formats/compress.h"
#include "tests/fuzz/mutate_message.h"
#include "tests/fuzz/target.h"

namespace millrace::fuzz {
namespace {

// A few bytes can stand for gigabytes: no more than this is asked for.
constexpr size_t kMostText = size_t{1} << 18;

struct Result {
  std::string text;
  bool is_good = false;  // no error in what was read
  bool is_complete = false;
};

// Reads `packed` in pieces of `in_bytes` into pieces of `out_bytes`.
Result Decompress(Compression compression, std::string_view packed, size_t in_bytes,
                  size_t out_bytes) {
  const auto decompressor = Decompressor::Create(compression);
  Result result;
  std::string out(out_bytes, '\0');
  while (result.text.size() < kMostText) {
    std::string_view piece = packed.substr(0, in_bytes);
    const size_t given = piece.size();
    const StatusOr<size_t> written = decompressor->Run(&piece, out);
    MILLRACE_CHECK(piece.size() <= given);
    if (!written.ok()) return result;
    MILLRACE_CHECK(*written <= out.size());
    packed.remove_prefix(given - piece.size());
    result.text.append(out, 0, *written);
    if (*written > 0) continue;
    MILLRACE_CHECK(piece.empty());
    if (packed.empty()) break;
  }
  result.is_good = true;
  result.is_complete = decompressor->is_complete();
  return result;
}

bool AgreeAsFarAsBothGo(std::string_view a, std::string_view b) {
  const size_t both = std::min(a.size(), b.size());
  return a.substr(0, both) == b.substr(0, both);
}

std::string SomeText(ByteSource& bytes) {
  std::string text;
  for (size_t parts = bytes.Below(4); parts > 0; --parts) {
    const std::string_view part = bytes.Text(60);
    for (size_t times = bytes.Below(300) + 1; times > 0; --times) text += part;
  }
  return text;
}

}  // namespace

void FuzzOne(ByteSource& bytes) {
  const Compression compression = bytes.Chance(128) ? Compression::kZstd : Compression::kGzip;
  const size_t in_bytes = 1 + bytes.Below(5000);
  const size_t out_bytes = 1 + bytes.Below(5000);
  const std::string text = SomeText(bytes);
  std::string packed = compression == Compression::kGzip ? Gzip(text) : Zstd(text);
  bool needs_more = false;
  MILLRACE_CHECK(CompressionOf(packed, &needs_more) == compression && !needs_more);
  const Result back = Decompress(compression, packed, in_bytes, out_bytes);
  MILLRACE_CHECK(back.is_good && back.is_complete && back.text == text);

  while (!bytes.empty()) {
    Mutate(packed, bytes);
    const Result whole = Decompress(compression, packed, packed.size() + 1, kMostText);
    const Result pieces = Decompress(compression, packed, in_bytes, out_bytes);
    MILLRACE_CHECK(AgreeAsFarAsBothGo(whole.text, pieces.text));
    const bool is_whole = whole.text.size() < kMostText && pieces.text.size() < kMostText;
    if (!is_whole) continue;
    // (The library of zstd decodes a frame in another way where there is room for all of it, and
    // may find less wrong with one that is damaged and has no checksum.)
    MILLRACE_CHECK(compression == Compression::kZstd || whole.is_good == pieces.is_good);
    if (!whole.is_good || !pieces.is_good) continue;
    MILLRACE_CHECK(whole.text == pieces.text && whole.is_complete == pieces.is_complete);
  }
}

}  // namespace millrace::fuzz
