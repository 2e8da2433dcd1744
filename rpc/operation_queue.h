// Calls of gRPC that are begun by any thread, and whose ends one thread waits for. (gRPC's
// callbacks have threads of their own, at least two, which wake each other whenever an operation
// ends.) For those who may include gRPC.
#pragma once

#include <grpcpp/completion_queue.h>

#include <functional>

namespace millrace::grpc_internal {

// What may be begun on a queue, whose tag it is then. It lives until it has ended.
struct Operation {
  std::function<void(bool ok)> react;  // `ok` as grpc::CompletionQueue::Next says of its kind
};

// Calls the reactions, until the queue has been shut down and all that was begun has ended.
inline void RunQueue(grpc::CompletionQueue& queue) {
  void* tag = nullptr;
  bool ok = false;
  while (queue.Next(&tag, &ok)) static_cast<const Operation*>(tag)->react(ok);
}

}  // namespace millrace::grpc_internal
