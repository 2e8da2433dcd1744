// Who waits for the answer to a call of gRPC.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>
#include <grpcpp/support/status.h>

#include <functional>
#include <string>
#include <utility>

#include "base/status.h"
#include "master/call_desk.h"

namespace millrace {

inline grpc::Status AsGrpcStatus(const Status& status) {
  return {static_cast<grpc::StatusCode>(status.code()), std::string(status.message())};
}

// It, its context and its response go when it is finished.
template <typename Answered>
class GrpcCaller final : public DeskCaller<Answered> {
 public:
  using Fill = std::function<void(const Answered&)>;  // the response

  GrpcCaller(const grpc::CallbackServerContext* context, grpc::ServerUnaryReactor* reactor,
             Fill fill)
      : context_(context), reactor_(reactor), fill_(std::move(fill)) {}
  bool HasGone() override { return context_->IsCancelled(); }
  void Answer(const StatusOr<Answered>& answer) override {
    if (answer.ok() && fill_) fill_(*answer);
    reactor_->Finish(answer.ok() ? grpc::Status::OK : AsGrpcStatus(answer.status()));
  }

 private:
  const grpc::CallbackServerContext* context_;
  grpc::ServerUnaryReactor* reactor_;
  Fill fill_;
};

}  // namespace millrace
