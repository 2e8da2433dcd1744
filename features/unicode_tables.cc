#include "features/unicode_tables.h"

namespace millrace {
namespace {
#include "features/unicode_tables.inc"
}  // namespace

const UnicodeProperties& FindProperties(char32_t code_point) {
  const size_t block = kBlockOf[code_point / kBlockSize];
  return kRecords[kRecordOf[block * kBlockSize + code_point % kBlockSize]];
}

std::string_view UnicodeVersion() { return kVersion; }

}  // namespace millrace
