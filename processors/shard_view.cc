#include "processors/shard_view.h"

#include <algorithm>
#include <utility>

#include "topics/weights_codec.h"

namespace millrace {
namespace {

// Shared records of a shard that are kept until the answer comes that names one of them.
constexpr size_t kRecentShared = 4;

}  // namespace

ShardView::Effect ShardView::Take(Weights answer, std::shared_ptr<const SharedWeights> shared,
                                  bool is_ours) {
  is_lost = false;
  // A zombie's server answers late: what is older than what is known says nothing new. Unless the
  // shard says it to what was repeated since: then somebody has made up what is known.
  const bool is_to_repeated = std::ranges::count(repeated, answer.answers_to()) > 0;
  if (is_to_repeated) repeated.clear();
  const bool denies_leave = left && !left_is_sure && !answer.left();
  const bool corrects =
      is_to_repeated && known &&
      (answer.clock() < clock ||
       (answer.clock() == clock && (denies_leave || answer.rows().end() != message->rows().end())));
  if (corrects) rows.Clear();
  const bool newer = !known || answer.clock() > clock || corrects;
  const Effect effect = {.corrects = corrects, .denies_leave = newer && denies_leave};
  const bool better = known && answer.clock() == clock &&
                      ((answer.released() && !released) || (answer.left() && !left) ||
                       (answer.released() && asked_for_embeddings.has_value()) ||
                       (LacksValues() && HasWeights(answer)) || HasMoreParameters(answer));
  // A server that says all again may have lost what it was asked for besides.
  asked_for_previous = false;
  asked_for_embeddings.reset();
  asked_in_doubt = false;
  const bool is_older = answer.clock() < clock || (left && !answer.left());
  is_set_back = known && !newer && is_older;
  const bool is_same =
      known && answer.clock() == clock && answer.rows().end() == message->rows().end();
  if (newer || better || is_same) {
    is_reply = (is_same && is_reply) || is_ours;
  }
  const bool says_left_surely = answer.left() && (is_ours || leave_sent == Clock(answer.clock()));
  left_is_sure |= says_left_surely && is_same && left;
  if (!newer && !better) return effect;
  if (newer) previous_round.reset();
  // A reply to what was sent before would say where the worker was.
  if (newer || answer.left()) repeated.clear();
  left_is_sure = says_left_surely;
  known = true;
  clock = Clock(answer.clock());
  released = answer.released();
  left = answer.left();
  const bool has_rows = !answer.embeddings().id().empty();
  if (has_rows || pipeline == 1) {
    rows.Add(std::move(*answer.mutable_embeddings()), Clock(answer.min_clock()));
  }
  answer.clear_embeddings();
  message = std::make_shared<const Weights>(std::move(answer));
  values = HasWeights(*message) ? std::move(shared) : nullptr;
  return effect;
}

bool ShardView::TakeShared(const std::shared_ptr<const SharedWeights>& shared, bool is_sequential) {
  if (recent.size() == kRecentShared) recent.erase(recent.begin());
  recent.push_back(shared);
  return TakeValues(is_sequential);
}

bool ShardView::TakeValues(bool is_sequential) {
  if (!LacksValues()) return false;
  const uint64_t wanted = message->shared();
  auto found = std::ranges::find(recent, wanted, &SharedWeights::version);
  if (found == recent.end() && !is_sequential) {  // those of a later step serve to learn, too
    found = std::ranges::find_if(
        recent, [wanted](const auto& shared) { return shared->version() > wanted; });
  }
  if (found == recent.end()) return false;
  values = *found;
  recent.erase(recent.begin(), found);  // of steps that are over
  return true;
}

// (Somebody else has put one meanwhile: of a sequential job, between steps only.)
bool ShardView::HasMoreParameters(const Weights& answer) const {
  return HasWeights(answer) && answer.left() == left &&
         answer.has_values_size() > message->has_values_size();
}

bool ShardView::LacksValues() const {
  return HasWeights(*message) && message->has_shared() && values == nullptr;
}

const Slice& SliceOf(const Weights& message, const SharedWeights* shared) {
  return message.has_shared() ? shared->slice() : message.slice();
}

std::shared_ptr<const Slice> SliceOf(const std::shared_ptr<const Weights>& message,
                                     const std::shared_ptr<const SharedWeights>& shared) {
  if (message->has_shared()) return {shared, &shared->slice()};
  return {message, &message->slice()};
}

const MomentsMessage& MomentsOf(const Weights& message, const SharedWeights* shared) {
  return message.has_shared() ? shared->moments() : message.moments();
}

}  // namespace millrace
