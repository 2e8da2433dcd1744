// Serves a server's answers to workers by streams.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "kafka/wakeup.h"
#include "rpc/tls.h"
#include "topics/outgoing_record.h"

namespace millrace {

struct AnswerServerOptions {
  std::string job;
  uint64_t epoch = 1;
  std::string listen;  // HOST:PORT; port 0: a free one
  RpcTls tls;
  size_t most_waiting_bytes = size_t{32} << 20;  // of a stream (AnswerRoutes)
  size_t most_streams = 4096;
};

// Send, Advance and TakeLost are for one thread at a time.
class AnswerServer {
 public:
  // `wakeup` outlives the server; it is notified when TakeLost has something. Unavailable when it
  // cannot listen there.
  static StatusOr<std::unique_ptr<AnswerServer>> Start(const AnswerServerOptions& options,
                                                       Wakeup* wakeup);
  // Ends the streams.
  virtual ~AnswerServer() = default;

  virtual int port() const = 0;
  // Gives a record of a shard's task to the streams that get it, without waiting. Returns it
  // if it is to go to Kafka, too.
  virtual std::optional<OutgoingRecord> Send(OutgoingRecord record) = 0;
  // To be called when all records of a moment have been given.
  virtual void Advance() = 0;
  // The workers whose streams have ended since the last call: what they were sent may be lost.
  virtual std::vector<WorkerId> TakeLost() = 0;
};

}  // namespace millrace
