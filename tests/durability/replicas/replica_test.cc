#include <gmock/gmock.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/crc32c.h"
#include "durability/replicas/replica_client.h"
#include "durability/replicas/replica_server.h"
#include "messages/replica.grpc.pb.h"
#include "tests/durability/replicas/endless.h"
#include "tests/durability/replicas/kept_copy.h"
#include "tests/stores/temporary_folder.h"

namespace millrace {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using ::testing::HasSubstr;

std::string BytesOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

ReplicaRequest Request(const std::string& job = "job", uint64_t epoch = 7, ShardId shard = 1) {
  ReplicaRequest request;
  request.set_job(job);
  request.set_epoch(epoch);
  request.set_shard(shard);
  return request;
}

class ReplicaTest : public testing::Test {
 protected:
  std::string Start() {
    auto started = ReplicaServer::Start(
        {.job = "job", .epoch = 7, .listen = "127.0.0.1:0", .tls = {}, .most_streams = 1}, kept_);
    EXPECT_TRUE(started.ok()) << started.status();
    server_ = *std::move(started);
    return "127.0.0.1:" + std::to_string(server_->port());
  }

  ReplicaFetch FetchFrom(const std::string& address) {
    ReplicaFetch fetch;
    fetch.address = address;
    fetch.request = Request();
    fetch.folder = folder_ / "store";
    fetch.timeouts = Endless();
    return fetch;
  }

  void ExpectNothingLeft() { EXPECT_TRUE(std::filesystem::is_empty(folder_.path())); }

  const std::string large_ = [] {
    std::string bytes(1'000'003, '\0');
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * i >> 7);
    return bytes;
  }();
  KeptCopy kept_{{{"000007.sst", large_}, {"CURRENT", "MANIFEST-000005\n"}, {"000009.log", ""}}};
  TemporaryFolder folder_;
  std::atomic<bool> stop_ = false;
  std::unique_ptr<ReplicaServer> server_;
};

TEST_F(ReplicaTest, ACopyComesWholeAndNothingOfItStaysWithTheServer) {
  ReplicaFetch fetch = FetchFrom(Start());
  uint64_t most = 0;
  Offset checked = 0;
  fetch.on_progress = [&](const ReplicaTransfer& transfer) {
    EXPECT_GT(transfer.bytes, most);
    EXPECT_EQ(transfer.bytes_total, large_.size() + 16);
    most = transfer.bytes;
  };
  fetch.check = [&](const std::string& files, const ReplicaDescription& copy) {
    EXPECT_EQ(BytesOf(files + "/CURRENT"), "MANIFEST-000005\n");
    EXPECT_FALSE(std::filesystem::exists(folder_ / "store"));
    checked = Offset(copy.parameters_offset());
    return absl::OkStatus();
  };
  const auto got = FetchReplica(fetch, {}, stop_);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->bytes, large_.size() + 16);
  EXPECT_EQ(most, got->bytes);
  EXPECT_EQ(checked, KeptCopy::kOffset);
  EXPECT_EQ(BytesOf(folder_ / "store/000007.sst"), large_);
  EXPECT_EQ(BytesOf(folder_ / "store/CURRENT"), "MANIFEST-000005\n");
  EXPECT_TRUE(std::filesystem::exists(folder_ / "store/000009.log"));
  server_.reset();  // waits for its calls
  EXPECT_EQ(kept_.frozen(), 1);
  EXPECT_TRUE(kept_.cleared());
}

TEST_F(ReplicaTest, ServersSayHowFarTheirCopiesAreOrWhyThereIsNone) {
  const std::string address = Start();
  const auto described = DescribeReplicas({address, "127.0.0.1:1"}, Request(), {}, Endless());
  ASSERT_TRUE(described[0].ok()) << described[0].status();
  EXPECT_EQ(described[0]->parameters_offset(), KeptCopy::kOffset);
  EXPECT_EQ(described[1].status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(described[1].status().message()), HasSubstr("127.0.0.1:1"));
  for (const ReplicaRequest& other : {Request("other"), Request("job", 8), Request("job", 7, 2)}) {
    const auto none = DescribeReplicas({address}, other, {}, Endless());
    EXPECT_EQ(none[0].status().code(), absl::StatusCode::kNotFound) << none[0].status();
    ReplicaFetch fetch = FetchFrom(address);
    fetch.request = other;
    EXPECT_EQ(FetchReplica(fetch, {}, stop_).status().code(), absl::StatusCode::kNotFound);
  }
  EXPECT_EQ(kept_.frozen(), 0) << "of what it does not serve it makes no copy";
  ExpectNothingLeft();
}

TEST_F(ReplicaTest, ACopyThatFailsTheReceiversCheckGetsNoFolder) {
  ReplicaFetch fetch = FetchFrom(Start());
  fetch.check = [](const std::string&, const ReplicaDescription&) {
    return absl::DataLossError("cannot be opened");
  };
  const Status status = FetchReplica(fetch, {}, stop_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr(fetch.address + ": cannot be opened"));
  ExpectNothingLeft();
}

TEST_F(ReplicaTest, AServerHasOnlySoManyStreamsAtATime) {
  const std::string address = Start();
  std::atomic<bool> second_done = false;
  std::atomic<bool> first_began = false;
  ReplicaFetch first = FetchFrom(address);
  first.on_progress = [&](const ReplicaTransfer&) {
    first_began = true;
    while (!second_done) std::this_thread::sleep_for(milliseconds(1));
  };
  // More than what the connection's buffers take.
  KeptCopy large({{"000007.sst", std::string(64 << 20, 'x')}});
  auto server = ReplicaServer::Start(
      {.job = "job", .epoch = 7, .listen = "127.0.0.1:0", .tls = {}, .most_streams = 1}, large);
  ASSERT_TRUE(server.ok()) << server.status();
  first.address = "127.0.0.1:" + std::to_string((*server)->port());
  StatusOr<ReplicaTransfer> got = absl::UnknownError("not yet");
  std::thread thread([&] { got = FetchReplica(first, {}, stop_); });
  while (!first_began) std::this_thread::sleep_for(milliseconds(1));
  ReplicaFetch second = FetchFrom(first.address);
  second.folder = folder_ / "second";
  const Status refused = FetchReplica(second, {}, stop_).status();
  second_done = true;
  thread.join();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;
  EXPECT_TRUE(got.ok()) << got.status();
}

TEST_F(ReplicaTest, AnAddressThatIsTakenIsAnErrorThatNamesTheFlag) {
  const std::string address = Start();
  ReplicaServerOptions options;
  options.listen = address;
  const Status status = ReplicaServer::Start(options, kept_).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("--replica-listen"));
}

// A server that does as it is told by the test.
class CrookedServer final : public Replicas::Service {
 public:
  using Writer = grpc::ServerWriter<ReplicaPiece>;
  using Serve = std::function<grpc::Status(grpc::ServerContext& context, Writer& writer)>;

  explicit CrookedServer(Serve serve) : serve_(std::move(serve)) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~CrookedServer() override { server_->Shutdown(std::chrono::system_clock::now()); }

  grpc::Status GetReplica(grpc::ServerContext* context, const ReplicaRequest*,
                          Writer* writer) override {
    return serve_(*context, *writer);
  }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

  static ReplicaPiece Begin(uint32_t files, uint64_t bytes, ShardId shard = 1) {
    ReplicaPiece piece;
    ReplicaDescription& copy = *piece.mutable_begin()->mutable_copy();
    copy.set_job("job");
    copy.set_epoch(7);
    copy.set_shard(shard);
    copy.set_parameters_offset(5);
    piece.mutable_begin()->set_files(files);
    piece.mutable_begin()->set_bytes(bytes);
    return piece;
  }
  static ReplicaPiece File(const std::string& name, uint64_t bytes) {
    ReplicaPiece piece;
    piece.mutable_file()->set_name(name);
    piece.mutable_file()->set_bytes(bytes);
    return piece;
  }
  static ReplicaPiece Data(const std::string& data) {
    ReplicaPiece piece;
    piece.set_data(data);
    return piece;
  }
  static ReplicaPiece End(const std::string& data) {
    ReplicaPiece piece;
    piece.mutable_file_end()->set_crc32c(Crc32c(data));
    return piece;
  }

 private:
  Serve serve_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(ReplicaTest, ACopyThatWasNotRequestedIsRefusedAndLeavesNothing) {
  using C = CrookedServer;
  const std::vector<std::pair<std::string, std::vector<ReplicaPiece>>> cases = {
      {"is damaged", {C::Begin(1, 4), C::File("CURRENT", 4), C::Data("dato"), C::End("data")}},
      {"is damaged", {C::Begin(1, 4), C::File("CURRENT", 4), C::Data("dat"), C::End("dat")}},
      {"longer", {C::Begin(1, 4), C::File("CURRENT", 4), C::Data("datas"), C::End("datas")}},
      {"1 of 2 files", {C::Begin(2, 4), C::File("CURRENT", 4), C::Data("data"), C::End("data")}},
      {"is incomplete", {C::Begin(1, 4), C::File("CURRENT", 4), C::Data("data")}},
      {"name", {C::Begin(1, 4), C::File("../CURRENT", 4), C::Data("data"), C::End("data")}},
      {"shard 2", {C::Begin(1, 4, 2), C::File("CURRENT", 4), C::Data("data"), C::End("data")}},
      {"first message", {C::File("CURRENT", 4), C::Data("data"), C::End("data")}},
      {"first message", {C::Begin(1, 4), C::Begin(1, 4)}},
      {"before it named a file", {C::Begin(1, 4), C::Data("data")}},
      {"before it ended the last one", {C::Begin(2, 8), C::File("a", 4), C::File("b", 4)}},
      {"more files",
       {C::Begin(1, 4), C::File("a", 2), C::Data("da"), C::End("da"), C::File("b", 2)}},
      {"larger than all", {C::Begin(1, 4), C::File("a", 5)}},
      {"files, but no store", {C::Begin(1'000'000, 4)}},
      {"unknown kind", {C::Begin(1, 4), ReplicaPiece()}},
      {"without sending anything", {}},
  };
  for (const auto& [reason, pieces] : cases) {
    CrookedServer server([&](grpc::ServerContext&, C::Writer& writer) {
      for (const ReplicaPiece& piece : pieces) writer.Write(piece);
      return grpc::Status::OK;
    });
    const Status status = FetchReplica(FetchFrom(server.address()), {}, stop_).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << reason << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(reason));
    ExpectNothingLeft();
  }
}

TEST_F(ReplicaTest, ACopyForWhichTheDiskHasNoRoomIsRefusedBeforeItComes) {
  CrookedServer server([](grpc::ServerContext&, CrookedServer::Writer& writer) {
    writer.Write(CrookedServer::Begin(1, uint64_t{1} << 60));
    return grpc::Status::OK;
  });
  const Status status = FetchReplica(FetchFrom(server.address()), {}, stop_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  ExpectNothingLeft();
}

TEST_F(ReplicaTest, AReceiverThatStopsReadingLosesItsStream) {
  // More than what the connection's buffers take.
  KeptCopy large({{"000007.sst", std::string(64 << 20, 'x')}});
  auto server = ReplicaServer::Start({.job = "job",
                                      .epoch = 7,
                                      .listen = "127.0.0.1:0",
                                      .tls = {},
                                      .most_streams = 1,
                                      .piece_timeout = milliseconds(300)},
                                     large);
  ASSERT_TRUE(server.ok()) << server.status();
  std::atomic<bool> began = false;
  std::atomic<bool> go_on = false;
  ReplicaFetch stuck = FetchFrom("127.0.0.1:" + std::to_string((*server)->port()));
  stuck.on_progress = [&](const ReplicaTransfer&) {
    began = true;
    while (!go_on) std::this_thread::sleep_for(milliseconds(1));
  };
  StatusOr<ReplicaTransfer> got = absl::UnknownError("not yet");
  std::thread thread([&] { got = FetchReplica(stuck, {}, stop_); });
  while (!began) std::this_thread::sleep_for(milliseconds(1));
  ReplicaFetch next = FetchFrom(stuck.address);
  next.folder = folder_ / "next";
  Status status = absl::UnknownError("not yet");
  const auto end = steady_clock::now() + std::chrono::seconds(60);
  while (!status.ok() && steady_clock::now() < end) {
    status = FetchReplica(next, {}, stop_).status();
  }
  go_on = true;
  thread.join();
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_FALSE(got.ok());
}

TEST_F(ReplicaTest, TheTextOfAnotherServersErrorIsPrintable) {
  CrookedServer server([](grpc::ServerContext&, CrookedServer::Writer&) {
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "\x1b[2Jgone\n");
  });
  const Status status = FetchReplica(FetchFrom(server.address()), {}, stop_).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("\\x1b[2Jgone\\x0a"));
}

TEST_F(ReplicaTest, AServerThatGoesInTheMiddleIsAnError) {
  CrookedServer server([](grpc::ServerContext&, CrookedServer::Writer& writer) {
    writer.Write(CrookedServer::Begin(1, 100));
    writer.Write(CrookedServer::File("CURRENT", 100));
    writer.Write(CrookedServer::Data("half"));
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "gone");
  });
  const Status status = FetchReplica(FetchFrom(server.address()), {}, stop_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  ExpectNothingLeft();
}

TEST_F(ReplicaTest, AServerThatIsSilentOrTooSlowIsGivenUpAfterTheTimeout) {
  for (const bool creeps : {false, true}) {
    CrookedServer server([creeps](grpc::ServerContext& context, CrookedServer::Writer& writer) {
      writer.Write(CrookedServer::Begin(1, 1 << 20));
      writer.Write(CrookedServer::File("CURRENT", 1 << 20));
      while (!context.IsCancelled()) {
        if (creeps) writer.Write(CrookedServer::Data("."));
        std::this_thread::sleep_for(milliseconds(10));
      }
      return grpc::Status::CANCELLED;
    });
    ReplicaFetch fetch = FetchFrom(server.address());
    (creeps ? fetch.timeouts.before_judging : fetch.timeouts.next_piece) = milliseconds(300);
    const auto begin = steady_clock::now();
    const Status status = FetchReplica(fetch, {}, stop_).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(creeps ? "too slow" : "no data"));
    EXPECT_GE(steady_clock::now() - begin, milliseconds(300));
    ExpectNothingLeft();
  }
}

TEST_F(ReplicaTest, AStopEndsTheWait) {
  CrookedServer server([this](grpc::ServerContext& context, CrookedServer::Writer& writer) {
    writer.Write(CrookedServer::Begin(1, 1 << 20));
    stop_ = true;
    while (!context.IsCancelled()) std::this_thread::sleep_for(milliseconds(1));
    return grpc::Status::CANCELLED;
  });
  ReplicaFetch fetch = FetchFrom(server.address());
  fetch.timeouts.next_piece = std::chrono::minutes(10);
  EXPECT_EQ(FetchReplica(fetch, {}, stop_).status().code(), absl::StatusCode::kCancelled);
  ExpectNothingLeft();
}

}  // namespace
}  // namespace millrace
