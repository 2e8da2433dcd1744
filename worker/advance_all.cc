#include "worker/advance_all.h"

#include <iterator>
#include <optional>

namespace millrace {

StatusOr<std::vector<bool>> AdvanceAll(const std::vector<WorkerFeed*>& feeds, SideBySide& threads,
                                       std::vector<OutgoingRecord>& out,
                                       const std::function<void()>& after_own) {
  struct Turn {
    size_t place = 0;
    StatusOr<bool> advanced = false;
    std::vector<OutgoingRecord> out{};
  };
  std::vector<Turn> turns;
  for (size_t i = 0; i < feeds.size(); ++i) {
    if (feeds[i]->has_news()) turns.push_back({i});
  }
  const auto advance = [&](size_t i) {
    turns[i].advanced = feeds[turns[i].place]->Advance(turns[i].out);
  };
  threads.Run(turns.size(), advance, after_own);
  std::vector<bool> has_advanced(feeds.size());
  for (Turn& turn : turns) {
    MILLRACE_ASSIGN_OR_RETURN(has_advanced[turn.place], std::move(turn.advanced));
    out.insert(out.end(), std::make_move_iterator(turn.out.begin()),
               std::make_move_iterator(turn.out.end()));
  }
  return has_advanced;
}

}  // namespace millrace
