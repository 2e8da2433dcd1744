// A checkpoint taken by who follows a shard (ShardImage), against loading the whole shard again
// from a copy to which it was added: what a follower would do that keeps nothing decoded.
//
//   10 million weights        all of them have changed, as in each checkpoint of a dense model; the
//                             optimizer keeps another float for each
//   a million embedding rows  16 values and 16 floats of the optimizer each; ten thousand and all
//   of
//                             them have changed
#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "benchmarks/turns.h"
#include "processors/shard_model.h"
#include "stores/memory_byte_map.h"
#include "tasks/shard_image.h"
#include "tasks/shard_task.h"
#include "tasks/state_codec.h"

namespace millrace {
namespace {

constexpr size_t kWidth = 16;

ServerOptions OptionsFor(uint64_t weights, size_t ids) {
  ServerOptions options;
  options.range = {0, weights};
  options.optimizer.kind = OptimizerOptions::Kind::kAdaGrad;
  if (ids > 0) options.embeddings = {.initial_limit = std::vector<float>(kWidth, 0.1f)};
  return options;
}

// What `changed` of the rows and all blocks are in a checkpoint.
CheckpointAssembler::Part CheckpointOf(const ServerOptions& options,
                                       std::span<const EmbeddingId> changed) {
  CheckpointAssembler::Part part;
  if (options.embeddings) {
    const EmbeddingTableOptions table = TableOptionsOf(options);
    FrozenRows rows(table.table, kWidth, table.slot_floats);
    const std::vector<float> floats(kWidth + table.slot_floats, 0.25f);
    for (const EmbeddingId id : changed) rows.Add(id, 0, {1, 0}, floats);
    rows.Encode(0, [&](std::string_view key, std::string_view value) {
      part.entries.push_back({std::string(key), std::string(value)});
      return true;
    });
  }
  ParameterShard shard(options.range, BlockShapeOf(options).slot_count);
  for (size_t block = 0; block < shard.block_count(); ++block) {
    ParameterShard::Encoded encoded = shard.EncodeBlock(block);
    part.entries.push_back({std::move(encoded.key), std::move(encoded.value)});
  }
  ShardState state;
  ServerProcessor(options, nullptr).SaveState(state);
  state.set_position(1);
  auto entries = EncodeStateEntries(state, options);
  MILLRACE_CHECK(entries.ok());
  for (Checkpoint::Entry& entry : *entries) part.entries.push_back(std::move(entry));
  part.end = Offset(1);
  const StatusOr<std::vector<std::string>> pieces = EncodeState(state);
  MILLRACE_CHECK(pieces.ok());
  for (const std::string& piece : *pieces) part.state += piece;
  return part;
}

struct Followed {
  Followed(const ServerOptions& with, std::vector<EmbeddingId> all)
      : options(with), ids(std::move(all)), image(options, ids) {}

  void Add(const CheckpointAssembler::Part& part) {
    MILLRACE_CHECK(copy.Write(BatchOf(part.entries, part.end)).ok() && copy.Flush().ok());
  }
  double Load(const CheckpointAssembler::Part& part) {
    Add(part);
    ShardTask task(options, copy);
    MILLRACE_CHECK(task.Load().ok());
    const std::span<const float> loaded = task.processor().shard().weights();
    std::vector<float> weights(loaded.begin(), loaded.end());
    std::vector<float> rows(ids.size() * kWidth);
    if (!ids.empty()) MILLRACE_CHECK(task.processor().ReadEmbeddings(ids, rows).ok());
    return weights.front();
  }
  double Show(const CheckpointAssembler::Part& part) {
    MILLRACE_CHECK(image.Take(part).ok() && image.Finish().ok());
    image.Show();
    return image.view().weights.front();
  }

  ServerOptions options;
  std::vector<EmbeddingId> ids;
  ShardImage image;
  MemoryByteMap copy;
};

Comparison Compare(const std::string& name, uint64_t weights, size_t ids, size_t changed) {
  struct State {
    std::unique_ptr<Followed> followed;
    CheckpointAssembler::Part part;
  };
  auto state = std::make_shared<State>();
  // Made when it is first needed: it is large.
  const auto made = [=]() -> State& {
    if (state->followed != nullptr) return *state;
    std::vector<EmbeddingId> all(ids);
    for (size_t i = 0; i < ids; ++i) all[i] = i;
    const ServerOptions options = OptionsFor(weights, ids);
    state->followed = std::make_unique<Followed>(options, all);
    const CheckpointAssembler::Part whole = CheckpointOf(options, all);
    state->followed->Add(whole);
    state->followed->Show(whole);
    state->part = CheckpointOf(options, std::span(all).first(changed));
    return *state;
  };
  return {.name = name,
          .unit = "checkpoints/s",
          .items = 1,
          .ours = [made] { return made().followed->Show(made().part); },
          .floor = [made] { return made().followed->Load(made().part); }};
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  using millrace::Compare;
  return millrace::RunComparisons(
      "A checkpoint taken by a follower of the shard.", argc, argv,
      {Compare("follow 10 million weights, against loading", 10'000'000, 0, 0),
       Compare("follow a million rows, 10 thousand changed", 1000, 1'000'000, 10'000),
       Compare("follow a million rows, all changed", 1000, 1'000'000, 1'000'000)});
}
