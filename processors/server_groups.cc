// ServerProcessor's part in exchanges between groups of servers.
#include "topics/server_groups.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/check.h"
#include "processors/server_processor.h"
#include "topics/dead_letter.h"
#include "topics/message_codec.h"
#include "topics/slice_codec.h"

namespace millrace {
namespace {

Gradient MessageTo(const GroupPeer& group, const ServerOptions& options) {
  Gradient message;
  message.set_job(group.job);
  message.set_epoch(options.epoch);
  message.set_worker(SenderOfGroup(options.group));
  return message;
}

}  // namespace

void ServerProcessor::HandleDelta(const Gradient& message, const GradientRecord& record,
                                  ServerOutput& output) {
  const uint32_t group = kGroupSender - WorkerId(message.worker());
  const GroupSync::Taken taken = sync_.TakeDelta(group, message.delta(), mutable_shard());
  const auto refuse = [&](const char* reason) {
    output.dead_letters.push_back(
        MakeDeadLetter({.topic = "gradients",
                        .partition = static_cast<int32_t>(options_.number()),
                        .offset = record.offset,
                        .key = record.key,
                        .value = record.value},
                       reason, options_.dead_letter_reasons_only));
  };
  switch (taken) {
    case GroupSync::Taken::kNotFinite:
      CountNonFiniteUpdate();
      refuse("a delta that would make a parameter NaN or infinite; it counts as zeros");
      break;
    case GroupSync::Taken::kApplied:
      break;
    case GroupSync::Taken::kRepeated:
      counters_.set_duplicates_ignored(counters_.duplicates_ignored() + 1);
      break;
    case GroupSync::Taken::kOld:
      counters_.set_duplicates_ignored(counters_.duplicates_ignored() + 1);
      return;
    case GroupSync::Taken::kImpossible:
      counters_.set_refused(counters_.refused() + 1);
      refuse("a delta whose number is not due");
      return;
  }
  output.values_for.push_back(group);
}

void ServerProcessor::HandleNeighborValues(const Gradient::NeighborValues& values) {
  std::vector<KeyRange> usable = {options_.range};
  if (model_.parameters() != nullptr) {
    usable = model_.parameters()->KeysOf(
        {values.has_values().data(), static_cast<size_t>(values.has_values_size())});
  }
  if (sync_.TakeValues(values, usable, mutable_shard())) return;
  counters_.set_duplicates_ignored(counters_.duplicates_ignored() + 1);
}

void ServerProcessor::TryExchange(ServerOutput& output) {
  const std::optional<uint64_t> updates = sync_.updates_to_send();
  if (!updates || lost_) return;
  const bool is_wanted =
      *updates > 0 && model_.parameters() != nullptr && model_.parameters()->SyncNow(*updates);
  if (sync_.TryBegin(is_wanted, AllLeft(), mutable_shard())) output.delta = true;
}

StatusOr<std::string> ServerProcessor::Delta() const {
  const std::optional<uint64_t> number = sync_.open();
  MILLRACE_CHECK(number.has_value());
  Gradient message = MessageTo(options_.neighbor->peer, options_);
  Gradient::Delta& delta = *message.mutable_delta();
  delta.set_number(*number);
  delta.set_last(sync_.is_last());
  EncodeDenseSlice(sync_.Delta(shard()), options_.range, *delta.mutable_slice());
  return SerializeMessage(message, options_.most_message_bytes);
}

StatusOr<std::string> ServerProcessor::ValuesFor(const GroupPeer& group) const {
  const uint64_t number = sync_.taken(group.group);
  MILLRACE_CHECK(number > 0);
  Gradient message = MessageTo(group, options_);
  Gradient::NeighborValues& values = *message.mutable_neighbor_values();
  values.set_number(number);
  if (model_.parameters() != nullptr) {
    const std::vector<uint32_t> numbers = model_.parameters()->WithValues();
    values.mutable_has_values()->Assign(numbers.begin(), numbers.end());
  }
  EncodeDenseSlice(shard().weights(), options_.range, *values.mutable_slice());
  return SerializeMessage(message, options_.most_message_bytes);
}

bool HasEnded(const ShardState& state) {
  const auto has_ended = [](const ShardState::Sync::Taken& taken) { return taken.last(); };
  return std::ranges::all_of(state.members(), &ShardState::Member::left) &&
         std::ranges::all_of(state.sync().taken(), has_ended) &&
         (!state.has_sync() || (state.sync().last() && !state.sync().open()));
}

}  // namespace millrace
