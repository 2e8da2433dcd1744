#include "producer/tail_ends.h"

#include "base/check.h"

namespace millrace {

TailEnds::News TailEnds::Take(std::span<const OffsetRange> told) {
  MILLRACE_CHECK(told.size() == known_.size());
  went_back_.reset();
  News news = News::kNone;
  for (size_t i = 0; i < told.size(); ++i) {
    if (told[i].end < known(i)) went_back_ = {.partition = i, .told = told[i].end};
    if (told[i].end > known(i)) news = News::kFurther;
    known_[i].Know(told[i].end);
  }
  return went_back_ ? News::kBack : news;
}

void TailEnds::NoteRead(size_t partition, Offset end) {
  MILLRACE_CHECK(partition < known_.size());
  known_[partition].Know(end);
}

}  // namespace millrace
