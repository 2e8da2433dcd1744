// Streams of answers from servers to processes with workers, as the simulator runs them: production
// AnswerRoutes, and pipes between hosts that break at any time.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "base/types.h"
#include "tasks/answer_routes.h"
#include "tests/simulation/random.h"
#include "topics/outgoing_record.h"

namespace millrace::simulation {

// Hosts are known by numbers. A pipe that has broken is not noticed at once by its server,
// which goes on to send by it; its process may still read what had arrived.
class AnswerPipes {
 public:
  using Host = uint64_t;  // 0: none

  // A server takes streams from now on.
  void Offer(Host server) { servers_.try_emplace(server); }
  // A server has died: its pipes break.
  void EndServer(Host server, Random& random);
  // Gives a record to the pipes that get it. Returns whether it goes to the log.
  bool Send(Host server, const OutgoingRecord& record);
  // Workers whose pipes are noticed to have broken, or to be others now.
  std::vector<WorkerId> TakeLost(Host server, Random& random);
  // A break that the server has not noticed.
  bool IsBroken(Host server) const;

  // A process with these workers opens a pipe to a server that it has none to. False: there is no
  // such server.
  bool Open(Host process, const std::set<WorkerId>& workers, Random& random);
  void Subscribe(Host process, const std::set<WorkerId>& workers);
  void EndProcess(Host process, Random& random);
  // The next record of one of the process's pipes.
  std::optional<OutgoingRecord> Take(Host process);

  // One of them breaks. False: there is none.
  bool BreakOne(Random& random);

 private:
  struct Server {
    AnswerRoutes routes{kMostWaitingBytes};
    std::vector<WorkerId> lost{};  // by subscriptions
  };
  struct Pipe {
    Host server = 0;
    Host process = 0;
    AnswerRoutes::Stream stream = 0;
    std::deque<OutgoingRecord> records{};
    bool is_broken = false;
    bool is_noticed = false;
  };
  static constexpr size_t kMostWaitingBytes = 3000;  // a slow process is not rare

  static void Break(Pipe& pipe, Random& random);
  void Subscribe(const Pipe& pipe, const std::set<WorkerId>& workers);

  std::map<Host, Server> servers_;
  std::vector<Pipe> pipes_;
};

}  // namespace millrace::simulation
