#include "benchmarks/kafka/bare_stream.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/support/channel_arguments.h>
#include <grpcpp/support/slice.h>

#include "benchmarks/kafka/bare.h"

namespace millrace::bare {
namespace {

// Whatever was begun on the queue is waited for, so it need not be told apart.
void* const kTag = nullptr;

void WaitForOne(grpc::CompletionQueue& queue) {
  void* tag = nullptr;
  bool ok = false;
  if (!queue.Next(&tag, &ok) || !ok) Fail("a stream of answers has ended");
}

}  // namespace

grpc::ByteBuffer ToMessage(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return {&slice, 1};
}

AnswerStreams::AnswerStreams() {
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
  builder.RegisterAsyncGenericService(&service_);
  queue_ = builder.AddCompletionQueue();
  server_ = builder.BuildAndStart();
  if (server_ == nullptr || port_ == 0) Fail("answers cannot be served on a port of the loopback");
}

void AnswerStreams::Accept(size_t count) {
  while (streams_.size() < count) {
    Stream& stream = *streams_.emplace_back(std::make_unique<Stream>());
    service_.RequestCall(&stream.context, &stream.call, queue_.get(), queue_.get(), kTag);
    WaitForOne(*queue_);
  }
}

void AnswerStreams::Begin(size_t stream, const grpc::ByteBuffer& message) {
  streams_[stream]->call.Write(message, kTag);
  ++begun_;
}

void AnswerStreams::Finish() {
  for (; begun_ > 0; --begun_) WaitForOne(*queue_);
}

AnswerStream::AnswerStream(int port) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a connection for each stream, as ours
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetMaxReceiveMessageSize(-1);
  channel_ = grpc::CreateCustomChannel("127.0.0.1:" + std::to_string(port),
                                       grpc::InsecureChannelCredentials(), arguments);
  call_ = grpc::GenericStub(channel_).PrepareCall(&context_, "/Answers/Open", &queue_);
  call_->StartCall(kTag);
  WaitForOne(queue_);
}

void AnswerStream::Receive() {
  call_->Read(&message_, kTag);
  WaitForOne(queue_);
}

}  // namespace millrace::bare
