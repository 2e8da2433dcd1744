// A process: lives, dies, may go on as a zombie, and leaves records on their way behind.
#pragma once

#include <optional>

#include "tests/simulation/sender.h"
#include "tests/simulation/world.h"

namespace millrace::simulation {

class Host {
 public:
  explicit Host(World& world) : world_(world), number_(world.next_host++) {}
  virtual ~Host() = default;
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  // Does one thing. False when there is nothing to do.
  virtual bool Step() = 0;
  // A record has not been delivered, and never will be; or so the client believes.
  virtual void DeliveryFailed() = 0;
  // kill -9. What it had handed to its Kafka client may partly be on its way.
  virtual void Die() = 0;

  bool alive() const { return alive_; }
  Sender& sender() { return sender_; }

  // Replaced by another, but does not know it: goes on for so many steps.
  void MakeZombie(uint64_t steps) { zombie_steps_ = steps; }
  bool zombie() const { return zombie_steps_.has_value(); }
  // Counts down; true when the zombie's time is over.
  bool ZombieIsOver() { return zombie_steps_ && (*zombie_steps_ == 0 || --*zombie_steps_ == 0); }
  void ShortenZombie(uint64_t steps) {
    if (zombie_steps_ && *zombie_steps_ > steps) zombie_steps_ = steps;
  }

 protected:
  void Send(std::vector<OutgoingRecord>& records) {
    for (OutgoingRecord& record : records) sender_.Send(std::move(record));
    records.clear();
  }
  // REQUIRES alive()
  void Stop() {
    alive_ = false;
    if (world_.random.Chance(0.5)) {
      sender_.Clear();
    } else {
      sender_.Cut(world_.random);
    }
  }

  uint64_t number() const { return number_; }

  World& world_;

 private:
  const uint64_t number_;
  bool alive_ = true;
  std::optional<uint64_t> zombie_steps_;
  Sender sender_;
};

}  // namespace millrace::simulation
