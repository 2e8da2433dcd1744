#include "predictor/compared_rows.h"

#include <iterator>

#include "base/check.h"

namespace millrace {
namespace {

absl::string_view KeyOf(std::string_view id) { return {id.data(), id.size()}; }

}  // namespace

// About: what stands in the list, its blocks of memory, and its place in the table.
size_t ComparedRows::BytesOf(const Waiting& waiting) {
  constexpr size_t kAround = 160;
  return kAround + waiting.id.size() + waiting.scores.size() * sizeof(float);
}

void ComparedRows::Forget(std::list<Waiting>::iterator which) {
  bytes_ -= BytesOf(*which);
  by_id_.erase(KeyOf(which->id));
  waiting_.erase(which);
}

void ComparedRows::Keep(std::string_view id, std::span<const float> model,
                        std::span<const float> challenger) {
  MILLRACE_CHECK(model.size() == challenger.size());
  if (const auto found = by_id_.find(KeyOf(id)); found != by_id_.end()) Forget(found->second);
  std::vector<float> scores(model.begin(), model.end());
  scores.insert(scores.end(), challenger.begin(), challenger.end());
  waiting_.push_back({std::string(id), std::move(scores)});
  by_id_.emplace(KeyOf(waiting_.back().id), std::prev(waiting_.end()));
  bytes_ += BytesOf(waiting_.back());
  while (bytes_ > most_bytes_) {
    Forget(waiting_.begin());
    ++forgotten_;
  }
}

bool ComparedRows::AddLabel(std::string_view id, const Row& label, size_t classes) {
  const auto found = by_id_.find(KeyOf(id));
  if (found == by_id_.end()) {
    ++unknown_;
    return false;
  }
  const std::span<const float> scores = found->second->scores;
  const size_t width = scores.size() / 2;
  model_.AddRow(label, scores.first(width), classes);
  challenger_.AddRow(label, scores.last(width), classes);
  Forget(found->second);
  return true;
}

void ComparedRows::Clear() {
  by_id_.clear();
  waiting_.clear();
  bytes_ = 0;
  forgotten_ = 0;
  unknown_ = 0;
  model_ = {};
  challenger_ = {};
}

}  // namespace millrace
