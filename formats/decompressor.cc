#include "formats/decompressor.h"

#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace millrace {
namespace {

constexpr std::string_view kGzipMagic = "\x1F\x8B\x08";
constexpr std::string_view kZstdMagic = "\x28\xB5\x2F\xFD";

// Whether `start` agrees, as far as it goes, with the magic of the sixteen frames without data,
// which some programs (pzstd) write first.
bool MayBeSkippable(std::string_view start) {
  constexpr std::string_view kRest = "\x2A\x4D\x18";
  return !start.empty() && (start[0] & 0xF0) == 0x50 &&
         kRest.starts_with(start.substr(1, kRest.size()));
}

// Between members. Whether only padding or nothing is left.
bool SkipPadding(std::string_view* in) {
  in->remove_prefix(std::min(in->find_first_not_of('\0'), in->size()));
  return in->empty();
}

class Gzip final : public Decompressor {
 public:
  Gzip() {
    constexpr int kGzipOnly = 15 + 16;
    MILLRACE_CHECK(inflateInit2(&stream_, kGzipOnly) == Z_OK);
  }
  ~Gzip() override { inflateEnd(&stream_); }
  Gzip(const Gzip&) = delete;
  Gzip& operator=(const Gzip&) = delete;

  StatusOr<size_t> Run(std::string_view* in, std::span<char> out) override {
    constexpr size_t kMost = std::numeric_limits<uInt>::max();
    while (true) {
      if (between_members_ && had_member_ && SkipPadding(in)) return size_t{0};
      if (in->empty() && !has_output_) return size_t{0};
      // (Its type is not const in old interfaces only.)
      stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(in->data()));
      stream_.avail_in = static_cast<uInt>(std::min(in->size(), kMost));
      stream_.next_out = reinterpret_cast<Bytef*>(out.data());
      stream_.avail_out = static_cast<uInt>(std::min(out.size(), kMost));
      between_members_ = false;
      const uInt given = stream_.avail_in;
      const int result = inflate(&stream_, Z_NO_FLUSH);
      in->remove_prefix(given - stream_.avail_in);
      has_output_ = stream_.avail_out == 0;
      const size_t written = std::min(out.size(), kMost) - stream_.avail_out;
      if (result == Z_STREAM_END) {
        between_members_ = had_member_ = true;
        has_output_ = false;
        inflateReset(&stream_);
      } else if (result != Z_OK && result != Z_BUF_ERROR) {
        return absl::DataLossError(stream_.msg != nullptr ? stream_.msg : zError(result));
      }
      if (written > 0) return written;
    }
  }

  bool is_complete() const override { return between_members_; }

 private:
  z_stream stream_{};
  bool between_members_ = true;
  bool had_member_ = false;
  bool has_output_ = false;  // more of it than there was room for
};

class Zstd final : public Decompressor {
 public:
  Zstd() : stream_(ZSTD_createDStream()) { MILLRACE_CHECK(stream_ != nullptr); }
  ~Zstd() override { ZSTD_freeDStream(stream_); }
  Zstd(const Zstd&) = delete;
  Zstd& operator=(const Zstd&) = delete;

  StatusOr<size_t> Run(std::string_view* in, std::span<char> out) override {
    while (true) {
      if (between_frames_ && had_frame_ && SkipPadding(in)) return size_t{0};
      if (in->empty() && !has_output_) return size_t{0};
      if (between_frames_) {
        header_.clear();
        frame_bytes_ = 0;
      }
      ZSTD_inBuffer input = {in->data(), in->size(), 0};
      ZSTD_outBuffer output = {out.data(), out.size(), 0};
      const size_t result = ZSTD_decompressStream(stream_, &output, &input);
      if (ZSTD_isError(result) != 0) return ErrorOf(result);
      header_.append(in->substr(0, std::min(input.pos, kMostHeaderBytes - header_.size())));
      frame_bytes_ += output.pos;
      in->remove_prefix(input.pos);
      between_frames_ = result == 0;
      if (between_frames_) MILLRACE_RETURN_IF_ERROR(CheckFrameBytes());
      had_frame_ = had_frame_ || between_frames_;
      has_output_ = !between_frames_ && output.pos == output.size;
      if (output.pos > 0) return output.pos;
    }
  }

  bool is_complete() const override { return between_frames_; }

 private:
  static constexpr size_t kMostHeaderBytes = 18;  // of a frame (RFC 8878)

  // The library compares them only where there is room for all of them at once.
  Status CheckFrameBytes() const {
    const uint64_t told = ZSTD_getFrameContentSize(header_.data(), header_.size());
    if (told == ZSTD_CONTENTSIZE_UNKNOWN || told == frame_bytes_) return absl::OkStatus();
    return absl::DataLossError("a frame has another length than its header says");
  }
  static Status ErrorOf(size_t result) {
    const char* const reason = ZSTD_getErrorName(result);
    const bool is_long = ZSTD_getErrorCode(result) == ZSTD_error_frameParameter_windowTooLarge;
    return is_long ? absl::ResourceExhaustedError(reason) : absl::DataLossError(reason);
  }

  ZSTD_DStream* const stream_;
  std::string header_;        // of the frame: its first bytes
  uint64_t frame_bytes_ = 0;  // that came out of it
  bool between_frames_ = true;
  bool had_frame_ = false;
  bool has_output_ = false;
};

}  // namespace

std::string_view NameOf(Compression compression) {
  return compression == Compression::kGzip ? "gzip" : "zstd";
}

std::optional<Compression> CompressionOf(std::string_view start, bool* needs_more) {
  *needs_more = kGzipMagic.starts_with(start) || kZstdMagic.starts_with(start) ||
                (start.size() < kZstdMagic.size() && MayBeSkippable(start));
  if (start.starts_with(kGzipMagic)) return Compression::kGzip;
  const bool is_skippable = start.size() >= kZstdMagic.size() && MayBeSkippable(start);
  if (start.starts_with(kZstdMagic) || is_skippable) return Compression::kZstd;
  return std::nullopt;
}

std::unique_ptr<Decompressor> Decompressor::Create(Compression compression) {
  if (compression == Compression::kGzip) return std::make_unique<Gzip>();
  return std::make_unique<Zstd>();
}

}  // namespace millrace
