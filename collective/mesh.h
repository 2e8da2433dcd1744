// Connections between all members of a world, over TCP: the one door to Gloo.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"

namespace millrace {

struct MeshOptions {
  // An address of this machine, or a name of one, which the other members reach.
  std::string host = "127.0.0.1";
  std::chrono::milliseconds connect_timeout{10'000};  // of each connection
  std::chrono::milliseconds timeout{30'000};          // of the Transfers that are made together
  // Called ten times a second, by the thread that waits, while it waits for what others send or
  // take: an error ends the exchange, and breaks the mesh. Null: nothing is called.
  std::function<Status()> on_wait;
};

// Where a member waits for another one: an address in numbers, and a port.
struct MeshAddress {
  std::string host;
  uint16_t port = 0;
};

// A member's connections to all others. When one fails all are closed, so that the others notice it
// at once. Used by one thread at a time; Gloo has a thread of its own in each. There is no login
// and no encryption, and whoever connects in a member's place can end the process: for a network
// whose machines trust each other.
class Mesh {
 public:
  // Begins to wait for the others, at a port for each. A process that does nothing about SIGPIPE
  // ignores it from then on, or a write to a member that is gone would end it. FailedPrecondition:
  // it cannot listen at the host. REQUIRES position < size.
  static StatusOr<std::unique_ptr<Mesh>> Listen(const MeshOptions& options, uint32_t position,
                                                uint32_t size);
  // What was sent still arrives, unless the mesh is broken.
  ~Mesh();

  uint32_t position() const { return position_; }  // of this member, from 0
  uint32_t size() const { return size_; }
  // For each member where this one waits for it; of this member itself an empty one.
  const std::vector<MeshAddress>& addresses() const { return addresses_; }

  // Connects to all, each at the address where it waits for this member; those that all of them
  // have in common prove it to each other by `world`. Called once. Unavailable: one of them is not
  // there, or is in another world; the mesh is broken.
  Status Connect(std::span<const MeshAddress> others, uint64_t world);

  // Closes all connections. May be called again.
  void Break(const Status& why);
  // Why it is broken; OK: it is not.
  const Status& broken() const { return broken_; }

 private:
  friend class Transfers;
  class Connections;
  class Ticker;

  Mesh(const MeshOptions& options, uint32_t position, uint32_t size);

  const MeshOptions options_;
  const uint32_t position_;
  const uint32_t size_;
  std::vector<MeshAddress> addresses_;
  Status broken_;
  std::unique_ptr<Connections> connections_;  // null: there are no others
  std::unique_ptr<Ticker> ticker_;            // null: nobody is called while it waits
};

// Sends to other members of a connected mesh, and receipts of what they send: bytes of the same
// number with the same tag. An error is Unavailable and breaks the mesh; so does what was not
// awaited when this ends. The bytes belong to the caller, who keeps them until then.
class Transfers {
 public:
  explicit Transfers(Mesh& mesh);
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;
  ~Transfers();

  // Nothing happens if there are no bytes. Errors are told by the next Wait.
  void Receive(uint32_t from, uint64_t tag, std::span<std::byte> bytes);
  void Send(uint32_t to, uint64_t tag, std::span<const std::byte> bytes);

  // Until all that was begun has come, or has gone.
  Status WaitReceived();
  Status WaitSent();

 private:
  struct Begun;

  std::optional<std::chrono::milliseconds> Left() const;  // none: the time is over
  std::string TooLate() const;
  // Until what was begun has come (or has gone), or the error that ends the exchange.
  Status Wait(const Begun& begun, bool is_receipt);
  Status Fail(uint32_t member, const std::string& what);

  Mesh& mesh_;
  const std::chrono::steady_clock::time_point deadline_;
  std::vector<Begun> received_;  // and not awaited
  std::vector<Begun> sent_;
};

}  // namespace millrace
