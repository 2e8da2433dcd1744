#include "topics/dead_letter.h"

#include <utility>

#include "topics/frame.h"

namespace millrace {
namespace {

// A character in UTF-8 is kept or cut as a whole: protobuf refuses parts of one.
void CutText(std::string& text, size_t most) {
  if (text.size() <= most) return;
  const auto continues = [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; };
  while (most > 0 && continues(text[most])) --most;
  text.resize(most);
}

}  // namespace

void CutToOneRecord(DeadLetter& letter) {
  constexpr size_t kMostText = 1024;
  constexpr size_t kMostBytes = kMaxFrameBytes / 3;
  CutText(*letter.mutable_topic(), kMostText);
  CutText(*letter.mutable_reason(), kMostText);
  if (letter.key().size() > kMostBytes) letter.mutable_key()->resize(kMostBytes);
  if (letter.value().size() > kMostBytes) letter.mutable_value()->resize(kMostBytes);
}

DeadLetter MakeDeadLetter(const UnusableRecord& record, std::string reason, bool reasons_only) {
  DeadLetter letter;
  letter.set_topic(std::string(record.topic));
  letter.set_partition(record.partition);
  letter.set_offset(record.offset);
  letter.set_reason(std::move(reason));
  if (!reasons_only) {
    letter.set_key(std::string(record.key));
    letter.set_value(std::string(record.value));
  }
  CutToOneRecord(letter);
  return letter;
}

}  // namespace millrace
