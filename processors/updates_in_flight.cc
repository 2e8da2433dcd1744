#include "processors/updates_in_flight.h"

#include <utility>

#include "base/check.h"

namespace millrace {

UpdatesInFlight::UpdatesInFlight(size_t most) : most_(most) { MILLRACE_CHECK(most >= 1); }

Progress UpdatesInFlight::Next(const Progress& told) const {
  return updates_.empty() ? told : updates_.back().after;
}

void UpdatesInFlight::Add(Update update) {
  MILLRACE_CHECK(!full() && update.after.clock == update.before.clock + 1);
  MILLRACE_CHECK(update.after.rows_end >= update.before.rows_end);
  MILLRACE_CHECK(updates_.empty() || (updates_.back().after.clock == update.before.clock &&
                                      updates_.back().after.rows_end == update.before.rows_end));
  updates_.push_back(std::move(update));
}

void UpdatesInFlight::Settle(const Progress& told) {
  while (!updates_.empty() && updates_.front().before.clock < told.clock) updates_.pop_front();
  if (updates_.empty() || most_ == 1) return;
  const Progress& next = updates_.front().before;
  if (next.clock == told.clock && next.rows_end != told.rows_end) updates_.clear();
}

void UpdatesInFlight::AppendTo(std::vector<WorkerMessage>& messages) const {
  for (const Update& update : updates_) {
    messages.insert(messages.end(), update.messages.begin(), update.messages.end());
  }
}

std::vector<uint64_t> UpdatesInFlight::RowsFrom(Clock clock) const {
  std::vector<uint64_t> rows;
  for (const Update& update : updates_) {
    if (update.before.clock == clock + rows.size()) rows.push_back(update.after.rows_end);
  }
  return rows;
}

}  // namespace millrace
