#include "stores/row_sweep.h"

#include <string_view>
#include <utility>

#include "stores/frozen_rows.h"

namespace millrace {

RowSweep::RowSweep(uint32_t table, int64_t expire_after_ms)
    : expire_after_ms_(expire_after_ms),
      first_(EmbeddingRowKey(table, 0)),
      end_(EmbeddingRowKey(table + 1, 0)) {}

StatusOr<std::vector<std::string>> RowSweep::Next(const OrderedByteMap& store, int64_t now_ms,
                                                  size_t most) {
  std::vector<std::string> expired;
  if (next_.empty()) {
    constexpr int64_t kRounds = 8;  // until what has just not expired has
    if (began_ms_ != INT64_MIN && now_ms - began_ms_ < expire_after_ms_ / kRounds) return expired;
    began_ms_ = now_ms;
    next_ = first_;
  }
  size_t seen = 0;
  std::string begin = std::exchange(next_, {});
  const auto look = [&](std::string_view key, std::string_view value) {
    if (seen++ == most) {
      next_ = key;
      return false;
    }
    // (Who asks for a damaged row is told so; as long as nobody does, nobody needs it.)
    const StatusOr<EmbeddingRowHead> head = DecodeEmbeddingRowHead(value);
    if (head.ok() && HasExpired(*head, now_ms, expire_after_ms_)) expired.emplace_back(key);
    return true;
  };
  MILLRACE_RETURN_IF_ERROR(store.Scan(begin, end_, look));
  return expired;
}

}  // namespace millrace
