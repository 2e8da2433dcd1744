// Records by somebody who should not write, and updates whose bits have flipped.
#include <limits>
#include <string>
#include <utility>

#include "base/big_endian.h"
#include "tests/simulation/simulation.h"
#include "tests/simulation/trainers.h"
#include "topics/frame.h"
#include "topics/packed_floats.h"

namespace millrace::simulation {

// A bit flips in a worker's memory.
void Simulation::Poison(OutgoingRecord& record) {
  const double often = world_.scenario.has_rows() ? 0.03 : 0.01;  // such jobs are fewer
  if (record.value.size() < 2 || record.value[1] != 0 || !world_.Fault("poison", often)) return;
  Gradient gradient;
  if (!gradient.ParseFromString(record.value.substr(2)) || !gradient.has_update()) return;
  Gradient::Update& message = *gradient.mutable_update();
  const bool has_rows =
      !message.packed_embeddings().empty() || message.embeddings().value_size() > 0;
  if (has_rows && world_.random.Chance(0.5)) {
    PoisonRow(message);
    record.value = MakeFrames(gradient.SerializeAsString(), 0).front();
    return;
  }
  if (world_.scenario.external()) {
    PoisonPart(message);
    record.value = MakeFrames(gradient.SerializeAsString(), 0).front();
    return;
  }
  if (!message.packed_slice().empty()) {
    message.mutable_packed_slice()->replace(0, 2, "\xff\x7f");  // NaN, in both formats of 16 bits
    record.value = MakeFrames(gradient.SerializeAsString(), 0).front();
    return;
  }
  Slice& slice = *message.mutable_slice();
  const float poison = world_.random.Chance(0.5) ? std::numeric_limits<float>::quiet_NaN()
                                                 : std::numeric_limits<float>::infinity();
  if (slice.dense_size() > 0) {
    slice.set_dense(static_cast<int>(world_.random.Below(slice.dense_size())), poison);
  } else if (slice.sparse_value_size() > 0) {
    slice.set_sparse_value(0, poison);
  } else {
    message.set_weight_sum(std::numeric_limits<double>::quiet_NaN());
  }
  record.value = MakeFrames(gradient.SerializeAsString(), 0).front();
}

void Simulation::PoisonPart(Gradient::Update& message) {
  if (message.put_size() + message.part_size() == 0) {
    return message.set_weight_sum(std::numeric_limits<double>::quiet_NaN());
  }
  world_.Count("poison in a named parameter");
  const bool in_put =
      message.part_size() == 0 || (message.put_size() > 0 && world_.random.Chance(0.5));
  auto& parts = in_put ? *message.mutable_put() : *message.mutable_part();
  ParameterPart& part = parts[static_cast<int>(world_.random.Below(parts.size()))];
  const float poison = world_.random.Chance(0.5) ? std::numeric_limits<float>::quiet_NaN() : 2e18f;
  part.set_value(static_cast<int>(world_.random.Below(part.value_size())), poison);
}

void Simulation::PoisonRow(Gradient::Update& message) {
  world_.Count("poison in an embedding row");
  if (!message.packed_embeddings().empty()) {
    message.mutable_packed_embeddings()->replace(0, 2, "\xff\x7f");
    return;
  }
  EmbeddingBlock& rows = *message.mutable_embeddings();
  const float poison = world_.random.Chance(0.5) ? std::numeric_limits<float>::quiet_NaN()
                                                 : -std::numeric_limits<float>::infinity();
  rows.set_value(static_cast<int>(world_.random.Below(rows.value_size())), poison);
}

// Of another shard, or not as wide as a row is; the rest of the update is well.
void Simulation::SpoilRows(ShardId shard, Gradient::Update& message) {
  message.set_row_count(1);
  message.set_weight_sum(1);
  const Referee::Job& job = inspector_.referee(shard).job();
  if (!world_.scenario.external()) {
    message.mutable_slice()->set_begin(job.begin);
    message.mutable_slice()->set_end(job.begin + job.keys);
  }
  const std::vector<EmbeddingId> ids = AllIds(world_.scenario);
  const EmbeddingId id = ids[world_.random.Below(ids.size())];
  EmbeddingBlock& rows = *message.mutable_embeddings();
  rows.add_id(id);
  const size_t width = inspector_.referee(shard).WidthOf(id);
  if (world_.scenario.external()) message.add_table(TableParameterOf(world_.scenario, id));
  rows.mutable_value()->Resize(static_cast<int>(width), 1.0f);
  if (!job.born_rows.contains(id)) {
    world_.Count("stranger: an embedding row of another shard");
  } else {
    world_.Count("stranger: an embedding row of another width");
    rows.mutable_value()->Truncate(static_cast<int>(world_.random.Below(width)));
  }
  const FloatFormat format = world_.scenario.training.compression().values();
  PackUpdate(format, 0, message);
}

// Records by somebody who should not write here.
void Simulation::Stranger() {
  const auto worker = static_cast<WorkerId>(world_.random.Below(owner_.size()));
  const std::string key = EncodeBigEndian32(worker);
  const auto partition = static_cast<int32_t>(worker);
  const int32_t shared = SharedWeightsPartition(world_.scenario.workers);
  Gradient message;
  message.set_epoch(kEpoch);
  message.set_worker(worker);
  Gradient::Update& update = *message.mutable_update();
  const auto shard = static_cast<ShardId>(world_.random.Below(server_.size()));
  const Referee::Member& member = inspector_.referee(shard).now().members[worker];
  message.set_clock(member.clock);
  update.set_rows_begin(member.rows.end);
  update.set_rows_end(member.rows.end);
  update.set_buffer_rows(member.buffer_rows);
  const auto gradient = [&](const std::string& from, const std::string& value) {
    world_.Append({Topic::kGradients, static_cast<int32_t>(shard), from, value});
  };
  const bool has_buffer = world_.scenario.training.schedule() == Training::BUFFER;
  const bool may_forge = has_buffer && faults_.timer;
  if (may_forge && world_.random.Chance(0.2)) return ForgeCount(worker);
  if (faults_.timer && world_.random.Chance(0.1)) return ForgeLeft(shard, worker);
  if (world_.random.Chance(0.3)) return HostileStranger(shard, std::move(message));
  switch (world_.random.Below(9)) {
    case 0:
      world_.Count("stranger: bytes in gradients");
      return gradient(key, world_.random.Chance(0.5) ? "" : "\x02\x07garbage");
    case 1:
      world_.Count("stranger: a key of nobody");
      return gradient("nobody", MakeFrames(message.SerializeAsString(), 0).front());
    case 2:
      world_.Count("stranger: another epoch");
      message.set_epoch(kEpoch - 1);
      return gradient(key, MakeFrames(message.SerializeAsString(), 0).front());
    case 3:
      if (world_.scenario.has_rows() && world_.random.Chance(0.7)) {
        SpoilRows(shard, update);
        return gradient(key, MakeFrames(message.SerializeAsString(), 0).front());
      }
      world_.Count("stranger: another shape");
      update.set_row_count(1);
      update.set_weight_sum(1);
      update.mutable_slice()->set_end(3);
      update.mutable_slice()->add_dense(1);
      return gradient(key, MakeFrames(message.SerializeAsString(), 0).front());
    case 4: {
      // Who forges updates of a worker's present clock again and again gets any shard anywhere.
      for (ShardId other = 0; other < server_.size(); ++other) {
        if (inspector_.referee(other).now().members[worker].clock < member.clock) return;
      }
      world_.Count("stranger: poison");
      update.set_weight_sum(std::numeric_limits<double>::infinity());
      world_.forged = true;
      return gradient(key, MakeFrames(message.SerializeAsString(), 0).front());
    }
    case 5: {
      if (!faults_.timer) return;
      world_.Count("stranger: a chunk that is never finished");
      const std::string body(100, 'x');
      return gradient(key, MakeFrames(body, world_.random.Next(), 60).front());
    }
    case 6:
      world_.Count("stranger: a key of no row");
      return world_.Append({Topic::kInputData, partition, "nobody", "?"}, now_ms_[worker]);
    case 7:
      world_.Count("stranger: bytes in weights");
      return world_.Append({Topic::kWeights, world_.random.Chance(0.3) ? shared : partition,
                            EncodeBigEndian32(0), "?"});
    default: {
      if (world_.random.Chance(0.3)) {
        world_.Count("stranger: shared weights of another epoch");
        SharedWeights weights;
        weights.set_epoch(kEpoch + 1);
        weights.set_version(1000);
        return world_.Append({Topic::kWeights, shared, EncodeBigEndian32(0),
                              MakeFrames(weights.SerializeAsString(), 0).front()});
      }
      world_.Count("stranger: weights of another epoch");
      Weights weights;
      weights.set_epoch(kEpoch + 1);
      weights.set_clock(1000);
      weights.set_released(true);
      return world_.Append({Topic::kWeights, partition, EncodeBigEndian32(0),
                            MakeFrames(weights.SerializeAsString(), 0).front()});
    }
  }
}

// That rows are counted which have not come; it is corrected when the worker asks.
void Simulation::ForgeCount(WorkerId worker) {
  world_.Count("stranger: weights that count rows to come");
  Weights weights;
  weights.set_epoch(kEpoch);
  weights.set_clock(inspector_.referee(ShardId(0)).now().members[worker].clock +
                    world_.random.Between(1, 3));
  weights.mutable_rows()->set_end(1'000'000);
  world_.Append({Topic::kWeights, static_cast<int32_t>(worker), EncodeBigEndian32(0),
                 MakeFrames(weights.SerializeAsString(), 0).front()});
}

// That a worker has left the shard, which the shard denies when the worker asks.
void Simulation::ForgeLeft(ShardId shard, WorkerId worker) {
  world_.Count("stranger: weights that say that a worker has left");
  const Referee::Member& member = inspector_.referee(shard).now().members[worker];
  Weights weights;
  weights.set_epoch(kEpoch);
  weights.set_shard(shard);
  weights.set_clock(member.clock + (world_.random.Chance(0.5) ? world_.random.Between(1, 3) : 0));
  weights.set_released(true);
  weights.set_left(true);
  weights.mutable_rows()->set_end(member.rows.end);
  world_.Append({Topic::kWeights, static_cast<int32_t>(worker), EncodeBigEndian32(shard),
                 MakeFrames(weights.SerializeAsString(), 0).front()});
}

// What a worker, a server or somebody who wants a snapshot may say, but at another time.
void Simulation::HostileStranger(ShardId shard, Gradient message) {
  const WorkerId worker(message.worker());
  const Clock clock(message.clock());
  const auto send = [&] {
    world_.Append({Topic::kGradients, static_cast<int32_t>(shard), EncodeBigEndian32(worker),
                   MakeFrames(message.SerializeAsString(), 0).front()});
  };
  switch (world_.random.Below(6)) {
    case 0: {
      world_.Count("stranger: an update of a clock to come");
      const uint64_t ahead = world_.random.Between(1, 3);
      message.set_clock(clock + ahead);
      // It is taken in the place of one in flight.
      if (ahead < inspector_.referee(shard).Pipeline()) world_.forged = true;
      return send();
    }
    case 1:
      if (clock == 0) return;
      world_.Count("stranger: another update of a clock that is over");
      message.set_clock(clock - 1);
      message.mutable_update()->set_rows_end(1'000'000);
      return send();
    case 2:
      world_.Count("stranger: a leave of another clock");
      message.mutable_leave();
      message.set_clock(clock + world_.random.Between(1, 3));
      return send();
    case 3:
      world_.Count("stranger: weights for a shard that has lost none");
      message.mutable_restore()->set_left(world_.random.Chance(0.5));
      return send();
    case 4:
      world_.Count("stranger: a snapshot to come is given up");
      return CancelSnapshot(shard, last_snapshot_ + world_.random.Between(1, 3));
    default: {
      world_.Count("stranger: weights of another shape");
      Weights weights;
      weights.set_epoch(kEpoch);
      weights.set_shard(shard);
      weights.set_clock(clock);
      weights.set_released(true);
      const Referee::Job& job = inspector_.referee(shard).job();
      weights.mutable_slice()->set_begin(job.begin);
      weights.mutable_slice()->set_end(job.begin + job.keys);
      weights.mutable_slice()->mutable_dense()->Resize(static_cast<int>(job.keys) + 1, 1.0f);
      return world_.Append({Topic::kWeights, static_cast<int32_t>(worker), EncodeBigEndian32(shard),
                            MakeFrames(weights.SerializeAsString(), 0).front()});
    }
  }
}

}  // namespace millrace::simulation
