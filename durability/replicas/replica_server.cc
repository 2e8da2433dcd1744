#include "durability/replicas/replica_server.h"

#include <grpcpp/server_context.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <utility>
#include <vector>

#include "base/crc32c.h"
#include "base/printable.h"
#include "messages/replica.grpc.pb.h"
#include "rpc/listener.h"
#include "rpc/watchdog.h"

namespace millrace {
namespace {

constexpr size_t kPieceBytes = size_t{256} << 10;
// A receiver that has vanished is noticed after so long, and its files are let go.
constexpr int kKeepaliveMs = 10'000;
constexpr int kKeepaliveTimeoutMs = 5'000;

grpc::Status ToGrpc(const Status& status) {
  return {static_cast<grpc::StatusCode>(status.code()), std::string(status.message())};
}

// A folder that goes with its owner.
class FrozenFolder {
 public:
  explicit FrozenFolder(std::string path) : path_(std::move(path)) {}
  ~FrozenFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  FrozenFolder(const FrozenFolder&) = delete;
  FrozenFolder& operator=(const FrozenFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

struct StoredFile {
  std::string name;
  uint64_t bytes = 0;
};

StatusOr<std::vector<StoredFile>> ListFiles(const std::string& folder) {
  std::vector<StoredFile> files;
  std::error_code error;
  for (std::filesystem::directory_iterator file(folder, error), end; !error && file != end;
       file.increment(error)) {
    const uint64_t bytes = file->file_size(error);
    if (!error) files.push_back({file->path().filename().string(), bytes});
  }
  if (error) return absl::UnavailableError("cannot list " + folder + ": " + error.message());
  std::ranges::sort(files, {}, &StoredFile::name);
  return files;
}

class Service final : public Replicas::Service {
 public:
  Service(const ReplicaServerOptions& options, ReplicaSource& source)
      : options_(options), source_(source) {}

  grpc::Status Describe(grpc::ServerContext*, const ReplicaRequest* request,
                        ReplicaDescription* description) override {
    return ToGrpc(DescribeCopy(*request, *description));
  }

  grpc::Status GetReplica(grpc::ServerContext* context, const ReplicaRequest* request,
                          grpc::ServerWriter<ReplicaPiece>* writer) override {
    const int streams = ++streams_;
    const Status status = streams > options_.most_streams
                              ? absl::ResourceExhaustedError("this server sends replicas to " +
                                                             std::to_string(streams - 1) +
                                                             " servers already; ask another one")
                              : Serve(*context, *request, *writer, options_.piece_timeout);
    --streams_;
    if (!status.ok()) {
      spdlog::warn("replica of shard {}, for {}: {}", request->shard(), Printable(context->peer()),
                   TextOf(status));
    }
    return ToGrpc(status);
  }

 private:
  Status DescribeCopy(const ReplicaRequest& request, ReplicaDescription& description) {
    if (request.job() != options_.job || request.epoch() != options_.epoch) {
      return absl::NotFoundError("this server belongs to job " + options_.job + ", epoch " +
                                 std::to_string(options_.epoch) + ", not to " +
                                 Printable(request.job()) + ", epoch " +
                                 std::to_string(request.epoch()));
    }
    MILLRACE_ASSIGN_OR_RETURN(const Offset offset, source_.OffsetOf(ShardId(request.shard())));
    description.set_job(options_.job);
    description.set_epoch(options_.epoch);
    description.set_shard(request.shard());
    description.set_parameters_offset(offset);
    return absl::OkStatus();
  }

  // A receiver that stops taking pieces must not keep one of the few streams, and its frozen copy.
  Status Serve(grpc::ServerContext& context, const ReplicaRequest& request,
               grpc::ServerWriter<ReplicaPiece>& writer, std::chrono::milliseconds piece_timeout) {
    grpc_internal::Watchdog watchdog(never_, [&context] { context.TryCancel(); });
    const PieceWriter pieces{writer, watchdog, piece_timeout};
    Status served = SendCopy(context, request, pieces);
    if (!watchdog.barked()) return served;
    return absl::DeadlineExceededError("the receiving server accepted no data for " +
                                       std::to_string(piece_timeout.count()) + " ms");
  }

  struct PieceWriter {
    grpc::ServerWriter<ReplicaPiece>& writer;
    grpc_internal::Watchdog& watchdog;
    std::chrono::milliseconds timeout;

    Status Send(const ReplicaPiece& piece) const {
      watchdog.Set(std::chrono::steady_clock::now() + timeout);
      const bool sent = writer.Write(piece);
      watchdog.Clear();
      if (sent) return absl::OkStatus();
      return absl::CancelledError(
          "the receiving server closed the connection, or this server is stopping");
    }
  };

  Status SendCopy(grpc::ServerContext& context, const ReplicaRequest& request,
                  const PieceWriter& writer) {
    const auto begin = std::chrono::steady_clock::now();
    ReplicaPiece piece;
    // Asked before the copy is frozen: then it is at least that far on.
    MILLRACE_RETURN_IF_ERROR(DescribeCopy(request, *piece.mutable_begin()->mutable_copy()));
    MILLRACE_ASSIGN_OR_RETURN(std::string path, source_.Freeze(ShardId(request.shard())));
    const FrozenFolder folder(std::move(path));
    MILLRACE_ASSIGN_OR_RETURN(const std::vector<StoredFile> files, ListFiles(folder.path()));
    uint64_t bytes = 0;
    for (const StoredFile& file : files) bytes += file.bytes;
    piece.mutable_begin()->set_files(static_cast<uint32_t>(files.size()));
    piece.mutable_begin()->set_bytes(bytes);
    MILLRACE_RETURN_IF_ERROR(writer.Send(piece));
    for (const StoredFile& file : files) {
      MILLRACE_RETURN_IF_ERROR(SendFile(folder.path(), file, piece, writer));
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    spdlog::info("shard {}: sent its replica, {} bytes, to {} in {:.2f} s", request.shard(), bytes,
                 Printable(context.peer()), took.count());
    return absl::OkStatus();
  }

  static Status SendFile(const std::string& folder, const StoredFile& file, ReplicaPiece& piece,
                         const PieceWriter& writer) {
    std::ifstream stream(folder + "/" + file.name, std::ios::binary);
    piece.mutable_file()->set_name(file.name);
    piece.mutable_file()->set_bytes(file.bytes);
    MILLRACE_RETURN_IF_ERROR(writer.Send(piece));
    uint32_t crc = 0;
    for (uint64_t left = file.bytes; left > 0;) {
      const size_t size = std::min<uint64_t>(left, kPieceBytes);
      std::string& data = *piece.mutable_data();
      data.resize(size);
      if (!stream.read(data.data(), static_cast<std::streamsize>(size))) {
        return absl::UnavailableError("cannot read " + folder + "/" + file.name);
      }
      crc = Crc32c(data, crc);
      left -= size;
      MILLRACE_RETURN_IF_ERROR(writer.Send(piece));
    }
    piece.mutable_file_end()->set_crc32c(crc);
    return writer.Send(piece);
  }

  const ReplicaServerOptions& options_;
  ReplicaSource& source_;
  const std::atomic<bool> never_ = false;
  std::atomic<int> streams_ = 0;
};

class GrpcReplicaServer final : public ReplicaServer {
 public:
  GrpcReplicaServer(const ReplicaServerOptions& options, ReplicaSource& source)
      : options_(options), service_(options_, source) {}

  Status Listen() {
    grpc::ServerBuilder builder;
    // Two threads wait for calls, and each call that runs has one.
    builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::NUM_CQS, 1);
    return listener_.Start(builder, service_,
                           {.address = options_.listen,
                            .tls = options_.tls,
                            .keepalive_ms = kKeepaliveMs,
                            .keepalive_timeout_ms = kKeepaliveTimeoutMs,
                            .what = "replicas",
                            .flags = "--replica"});
  }

  int port() const override { return listener_.port(); }

 private:
  const ReplicaServerOptions options_;
  Service service_;
  grpc_internal::Listener listener_;  // after what it serves
};

}  // namespace

StatusOr<std::unique_ptr<ReplicaServer>> ReplicaServer::Start(const ReplicaServerOptions& options,
                                                              ReplicaSource& source) {
  auto server = std::make_unique<GrpcReplicaServer>(options, source);
  MILLRACE_RETURN_IF_ERROR(server->Listen());
  return std::unique_ptr<ReplicaServer>(std::move(server));
}

}  // namespace millrace
