#include "durability/replicas/replica_client.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "base/printable.h"
#include "durability/replicas/received_folder.h"
#include "messages/replica.grpc.pb.h"
#include "rpc/credentials.h"
#include "rpc/watchdog.h"

namespace millrace {
namespace {

using std::chrono::steady_clock;

constexpr uint32_t kMostFiles = 100'000;  // of one copy

std::unique_ptr<Replicas::Stub> Connect(const std::string& address, const RpcTls& tls) {
  grpc_internal::SendGrpcLogToOurs();
  grpc::ChannelArguments arguments;
  // Each fetch has a connection of its own: one that is broken is nobody else's.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return Replicas::NewStub(
      grpc::CreateCustomChannel(address, grpc_internal::ClientSide(tls), arguments));
}

StatusOr<ReplicaDescription> DescribeReplica(const std::string& address,
                                             const ReplicaRequest& request, const RpcTls& tls,
                                             const ReplicaTimeouts& timeouts) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + timeouts.describe);
  ReplicaDescription description;
  const grpc::Status said = Connect(address, tls)->Describe(&context, request, &description);
  if (said.ok()) return description;
  return grpc_internal::FromGrpc(said.error_code(), said.error_message(), address);
}

// One call, from its begin to the folder's name.
class Fetching {
 public:
  Fetching(const ReplicaFetch& fetch, const RpcTls& tls, const std::atomic<bool>& stop)
      : fetch_(fetch), stop_(stop), stub_(Connect(fetch.address, tls)) {}

  StatusOr<ReplicaTransfer> Run() {
    grpc_internal::Watchdog watchdog(stop_, [this] { context_.TryCancel(); });
    const std::unique_ptr<grpc::ClientReader<ReplicaPiece>> reader =
        stub_->GetReplica(&context_, fetch_.request);
    Status status = absl::OkStatus();
    auto timeout = fetch_.timeouts.first_piece;
    ReplicaPiece piece;
    while (true) {
      const auto before = steady_clock::now();
      watchdog.Set(before + timeout);
      const bool came = reader->Read(&piece);
      watchdog.Clear();
      if (!came) break;
      // What the own disk takes is not the other side's fault.
      waited_ += steady_clock::now() - before;
      status = Take(piece);
      if (status.ok()) status = Judge();
      if (!status.ok()) break;
      timeout = fetch_.timeouts.next_piece;
    }
    if (!status.ok()) context_.TryCancel();
    const grpc::Status said = reader->Finish();
    if (stop_) return absl::CancelledError("stopped");
    if (!status.ok()) return Named(status);
    if (watchdog.barked()) {
      return absl::DeadlineExceededError(fetch_.address + ": no data for " +
                                         std::to_string(timeout.count()) + " ms, after " +
                                         std::to_string(transfer_.bytes) + " bytes");
    }
    if (!said.ok()) {
      return grpc_internal::FromGrpc(said.error_code(), said.error_message(), fetch_.address);
    }
    const Status finished = Finish();
    if (!finished.ok()) return Named(finished);
    transfer_.seconds = Seconds(steady_clock::now() - begin_);
    return transfer_;
  }

 private:
  static double Seconds(steady_clock::duration duration) {
    return std::chrono::duration<double>(duration).count();
  }

  Status Named(const Status& status) const {
    return {status.code(), fetch_.address + ": " + std::string(status.message())};
  }

  Status Take(const ReplicaPiece& piece) {
    if (piece.has_begin() == announced_.has_value()) {
      return absl::DataLossError(
          "the first message does not describe the copy, or a later one describes it again: run "
          "the same version on all servers");
    }
    switch (piece.kind_case()) {
      case ReplicaPiece::kBegin:
        return Begin(piece.begin());
      case ReplicaPiece::kFile:
        if (++files_ > announced_->files()) {
          return absl::DataLossError("the sender sent more files than it announced");
        }
        if (piece.file().bytes() > announced_->bytes() - transfer_.bytes) {
          return absl::DataLossError("the sender sent a file larger than all that it announced");
        }
        return folder_->BeginFile(piece.file().name(), piece.file().bytes());
      case ReplicaPiece::kData:
        transfer_.bytes += piece.data().size();
        if (fetch_.on_progress) {
          transfer_.seconds = Seconds(steady_clock::now() - begin_);
          fetch_.on_progress(transfer_);
        }
        return folder_->Append(piece.data());
      case ReplicaPiece::kFileEnd:
        return folder_->EndFile(piece.file_end().crc32c());
      case ReplicaPiece::KIND_NOT_SET:
        break;
    }
    return absl::DataLossError(
        "the sender sent a message of an unknown kind; run the same version of Millrace on all "
        "servers");
  }

  Status Begin(const ReplicaPiece::Begin& begin) {
    const ReplicaDescription& copy = begin.copy();
    const ReplicaRequest& wanted = fetch_.request;
    if (copy.job() != wanted.job() || copy.epoch() != wanted.epoch() ||
        copy.shard() != wanted.shard() || copy.parameters_offset() <= 0) {
      return absl::DataLossError(
          "it offers job " + Printable(copy.job()) + ", epoch " + std::to_string(copy.epoch()) +
          ", shard " + std::to_string(copy.shard()) + ", up to offset " +
          std::to_string(copy.parameters_offset()) + ", which was not requested");
    }
    if (begin.files() > kMostFiles) {
      return absl::DataLossError("it offers " + std::to_string(begin.files()) +
                                 " files, but no store has more than " +
                                 std::to_string(kMostFiles));
    }
    MILLRACE_RETURN_IF_ERROR(CheckRoom(begin.bytes()));
    announced_ = begin;
    transfer_.bytes_total = begin.bytes();
    MILLRACE_ASSIGN_OR_RETURN(folder_, ReceivedFolder::Begin(fetch_.folder));
    return absl::OkStatus();
  }

  // That the disk has room for the copy, and for what else a server writes meanwhile.
  Status CheckRoom(uint64_t bytes) const {
    constexpr uint64_t kRoomForOthers = uint64_t{64} << 20;
    std::error_code error;
    const std::filesystem::path parent = std::filesystem::path(fetch_.folder).parent_path();
    const auto space = std::filesystem::space(parent.empty() ? "." : parent, error);
    if (error) return absl::OkStatus();  // writing will say what is wrong
    if (space.available > kRoomForOthers && bytes <= space.available - kRoomForOthers) {
      return absl::OkStatus();
    }
    return absl::ResourceExhaustedError("its copy has " + std::to_string(bytes) +
                                        " bytes, but only " + std::to_string(space.available) +
                                        " are free in " + parent.string());
  }

  Status Judge() const {
    if (waited_ < fetch_.timeouts.before_judging) return absl::OkStatus();
    const double rate = static_cast<double>(transfer_.bytes) / Seconds(waited_);
    if (rate >= fetch_.timeouts.least_bytes_per_second) return absl::OkStatus();
    return absl::DeadlineExceededError(
        "the transfer is too slow: " + std::to_string(transfer_.bytes) + " bytes in " +
        std::to_string(Seconds(waited_)) + " s");
  }

  Status Finish() {
    if (!announced_)
      return absl::DataLossError("it closed the connection without sending anything");
    if (files_ != announced_->files() || transfer_.bytes != announced_->bytes()) {
      return absl::DataLossError(std::to_string(files_) + " of " +
                                 std::to_string(announced_->files()) + " files received, " +
                                 std::to_string(transfer_.bytes) + " of " +
                                 std::to_string(announced_->bytes()) + " bytes");
    }
    if (fetch_.check) {
      MILLRACE_RETURN_IF_ERROR(fetch_.check(folder_->path(), announced_->copy()));
    }
    return folder_->Commit();
  }

  const ReplicaFetch& fetch_;
  const std::atomic<bool>& stop_;
  const std::unique_ptr<Replicas::Stub> stub_;
  grpc::ClientContext context_;
  const steady_clock::time_point begin_ = steady_clock::now();
  steady_clock::duration waited_{0};
  std::optional<ReplicaPiece::Begin> announced_;
  std::unique_ptr<ReceivedFolder> folder_;
  uint32_t files_ = 0;
  ReplicaTransfer transfer_;
};

}  // namespace

std::vector<StatusOr<ReplicaDescription>> DescribeReplicas(
    const std::vector<std::string>& addresses, const ReplicaRequest& request, const RpcTls& tls,
    const ReplicaTimeouts& timeouts) {
  std::vector<StatusOr<ReplicaDescription>> described(addresses.size(),
                                                      absl::UnknownError("no request was sent"));
  std::vector<std::thread> threads;
  for (size_t i = 0; i < addresses.size(); ++i) {
    threads.emplace_back(
        [&, i] { described[i] = DescribeReplica(addresses[i], request, tls, timeouts); });
  }
  for (std::thread& thread : threads) thread.join();
  return described;
}

StatusOr<ReplicaTransfer> FetchReplica(const ReplicaFetch& fetch, const RpcTls& tls,
                                       const std::atomic<bool>& stop) {
  return Fetching(fetch, tls, stop).Run();
}

}  // namespace millrace
