#include "formats/decompressor.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "tests/formats/compress.h"

namespace millrace {
namespace {

// All of it, into pieces of `out_bytes`; or the error.
StatusOr<std::string> Unpacked(std::string_view packed, size_t out_bytes) {
  const auto decompressor = Decompressor::Create(Compression::kZstd);
  std::string out(out_bytes, '\0');
  std::string text;
  while (true) {
    MILLRACE_ASSIGN_OR_RETURN(const size_t written, decompressor->Run(&packed, out));
    if (written == 0) return text;
    text.append(out, 0, written);
  }
}

TEST(Decompressor, AZstdFrameOfAnotherLengthThanItsHeaderSaysIsDamaged) {
  // A header that says 198 bytes, and a last block that has none.
  const std::string_view damaged("\x28\xB5\x2F\xFD\x20\xC6\x01\x00\x00", 9);
  for (const size_t out_bytes : {1, 100, 198, 1000}) {
    EXPECT_TRUE(absl::IsDataLoss(Unpacked(damaged, out_bytes).status())) << out_bytes;
  }
  const std::string good = Zstd("a text") + Zstd("") + Zstd(std::string(5000, 'b'));
  for (const size_t out_bytes : {1, 100, 10'000}) {
    const StatusOr<std::string> text = Unpacked(good, out_bytes);
    ASSERT_TRUE(text.ok()) << text.status();
    EXPECT_EQ(*text, "a text" + std::string(5000, 'b'));
  }
}

}  // namespace
}  // namespace millrace
