// Keeps a replica of a shard as the simulator runs it: production code applies what is read; the
// process around it is slow, dies, and comes back. (A process follows several shards, and may host
// one; dying apart from each other is the worse case.)
#pragma once

#include <memory>

#include "tasks/checkpoint_assembler.h"
#include "tests/simulation/world.h"

namespace millrace::simulation {

class ReplicaHost {
 public:
  // Uses the disk until it dies.
  ReplicaHost(World& world, ShardId shard, std::shared_ptr<Disk> disk);
  virtual ~ReplicaHost() = default;
  ReplicaHost(const ReplicaHost&) = delete;
  ReplicaHost& operator=(const ReplicaHost&) = delete;

  // Takes some records. False when there are none.
  bool Step();
  // kill -9.
  void Die();
  bool alive() const { return alive_; }
  // Some are seldom awake, and far behind.
  bool awake() const { return world_.random.Chance(pace_); }
  ShardId shard() const { return shard_; }

  // What it gives to a server that asks for it: whole and durable on that one's disk.
  virtual std::shared_ptr<Disk> Copy() const { return CopyOf(*disk_); }
  static std::shared_ptr<Disk> CopyOf(const Disk& disk);

 protected:
  // The seam: what a planted error may apply otherwise.
  virtual Status Apply(CheckpointAssembler::Part part);

  World& world_;

 private:
  void Take(const LogRecord& record);
  void Flush();

  ShardId shard_;
  std::shared_ptr<Disk> disk_;
  bool alive_ = true;
  double pace_;
  CheckpointAssembler assembler_;
  Offset next_ = 0;
  bool torn_if_it_dies_;  // a crash may undo the end of a checkpoint, and not all of it
};

}  // namespace millrace::simulation
