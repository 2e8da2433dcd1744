// gzip and zstd, decompressed as a stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "base/status.h"

namespace millrace {

enum class Compression : uint8_t { kGzip, kZstd };

std::string_view NameOf(Compression compression);  // "gzip", "zstd"

// By the magic bytes that a file starts with; none: it is not compressed. The file starts with
// `start`. `needs_more`: whether some more bytes may change the answer.
std::optional<Compression> CompressionOf(std::string_view start, bool* needs_more);

// Not thread-safe.
class Decompressor {
 public:
  static std::unique_ptr<Decompressor> Create(Compression compression);
  virtual ~Decompressor() = default;

  // Decompresses from the front of *in, which it shortens, into `out`, and returns the number of
  // bytes written. 0: *in is empty, more is needed. Members (frames) that follow one another are
  // one text; zero bytes after the last one are padding. kDataLoss: the bytes at the front of *in
  // or some before are damaged; kResourceExhausted: too much memory is needed. The message is the
  // reason.
  virtual StatusOr<size_t> Run(std::string_view* in, std::span<char> out) = 0;

  // Whether the input may end here.
  virtual bool is_complete() const = 0;
};

}  // namespace millrace
