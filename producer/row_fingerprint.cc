#include "producer/row_fingerprint.h"

#include <bit>

namespace millrace {

void RowFingerprint::Add(const Row& row) {
  AddWord(row.label | uint64_t{std::bit_cast<uint32_t>(row.target)} << 32);
  for (const double number : row.numeric) AddWord(std::bit_cast<uint64_t>(number));
  AddWord(row.index.size());
  for (size_t i = 0; i < row.index.size(); ++i) {
    AddWord(row.index[i] | uint64_t{std::bit_cast<uint32_t>(row.value[i])} << 32);
  }
  for (const EmbeddingId id : row.ids) AddWord(id);
}

}  // namespace millrace
