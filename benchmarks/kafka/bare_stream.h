// Answers of a floor by streams: gRPC as bare as it comes. A message is bytes that nobody decodes,
// and whoever sends or waits drives the sockets itself: no thread passes anything on to another.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/server.h>
#include <grpcpp/support/byte_buffer.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace millrace::bare {

// Copies the bytes once; buffers that are copied share them.
grpc::ByteBuffer ToMessage(const std::string& bytes);

// The server's side, for one thread.
class AnswerStreams {
 public:
  // Listens on a free port of the loopback.
  AnswerStreams();

  int port() const { return port_; }
  // Waits until so many streams are there.
  void Accept(size_t count);
  // Begins to send to one of them. REQUIRES: nothing is being sent to it.
  void Begin(size_t stream, const grpc::ByteBuffer& message);
  // Waits until gRPC has taken all that was begun.
  void Finish();

 private:
  struct Stream {
    grpc::GenericServerContext context;
    grpc::GenericServerAsyncReaderWriter call{&context};
  };

  grpc::AsyncGenericService service_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
  std::vector<std::unique_ptr<Stream>> streams_;
  size_t begun_ = 0;
};

// A worker's side, for one thread.
class AnswerStream {
 public:
  // To the server of this machine that listens there.
  explicit AnswerStream(int port);

  // Waits for the next message.
  void Receive();

 private:
  grpc::CompletionQueue queue_;
  std::shared_ptr<grpc::Channel> channel_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
  grpc::ByteBuffer message_;
};

}  // namespace millrace::bare
