#include "stores/arrival_rate.h"

#include <algorithm>
#include <limits>

#include "base/big_endian.h"

namespace millrace {
namespace {

// 35,000 years: timestamps are anybody's numbers, and a window of such gaps still has a sum.
constexpr uint64_t kMaxGapMs = uint64_t{1} << 50;

// Seven bits a byte, the lowest first, the high bit set in all but the last.
void AppendVarint(uint64_t value, std::string& bytes) {
  for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<char>(value | 0x80));
  bytes.push_back(static_cast<char>(value));
}

std::optional<uint64_t> TakeVarint(std::string_view& bytes) {
  uint64_t value = 0;
  for (int shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

}  // namespace

void ArrivalRate::AddGap(int64_t gap_ms) {
  gaps_sum_ms_ += gap_ms;
  if (gaps_ms_.size() < kWindow) {
    gaps_ms_.push_back(gap_ms);
    return;
  }
  gaps_sum_ms_ -= gaps_ms_[oldest_];
  gaps_ms_[oldest_] = gap_ms;
  if (++oldest_ == kWindow) oldest_ = 0;
}

void ArrivalRate::Add(int64_t timestamp_ms) {
  if (last_ms_) {
    // Unsigned, since the difference of two timestamps may be larger than any timestamp.
    const uint64_t gap = timestamp_ms <= *last_ms_ ? 0
                                                   : static_cast<uint64_t>(timestamp_ms) -
                                                         static_cast<uint64_t>(*last_ms_);
    AddGap(static_cast<int64_t>(std::min(gap, kMaxGapMs)));
  }
  // Not the latest so far: one wrong clock would make the rate depend on a row long gone.
  last_ms_ = timestamp_ms;
}

std::optional<double> ArrivalRate::RowsPerMinute() const {
  if (gaps_ms_.empty()) return std::nullopt;
  if (gaps_sum_ms_ == 0) return std::numeric_limits<double>::infinity();
  return 60'000.0 * static_cast<double>(gaps_ms_.size()) / static_cast<double>(gaps_sum_ms_);
}

void ArrivalRate::AppendTo(std::string& bytes) const {
  if (!last_ms_) return;
  bytes += EncodeBigEndian64(static_cast<uint64_t>(*last_ms_));
  for (size_t i = 0; i < gaps_ms_.size(); ++i) {
    AppendVarint(static_cast<uint64_t>(gaps_ms_[(oldest_ + i) % gaps_ms_.size()]), bytes);
  }
}

bool ArrivalRate::ParseFrom(std::string_view bytes) {
  ArrivalRate parsed;
  if (!bytes.empty()) {
    const std::optional<uint64_t> last = DecodeBigEndian64(bytes.substr(0, sizeof(uint64_t)));
    if (!last) return false;
    parsed.last_ms_ = static_cast<int64_t>(*last);
    bytes.remove_prefix(sizeof(uint64_t));
    while (!bytes.empty()) {
      const std::optional<uint64_t> gap = TakeVarint(bytes);
      if (!gap || *gap > kMaxGapMs || parsed.gaps_ms_.size() == kWindow) return false;
      parsed.AddGap(static_cast<int64_t>(*gap));
    }
  }
  *this = std::move(parsed);
  return true;
}

}  // namespace millrace
