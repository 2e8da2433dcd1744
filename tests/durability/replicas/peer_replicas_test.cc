// Copies of stores, over the loopback.
#include "durability/replicas/peer_replicas.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "durability/checkpoints/shard_store.h"
#include "rpc/address.h"
#include "stores/rocksdb_byte_map.h"
#include "tasks/checkpoint.h"
#include "tests/durability/replicas/endless.h"
#include "tests/stores/temporary_folder.h"

namespace millrace {
namespace {

constexpr ShardId kShard = 1;

// A server that keeps a copy of the shard up to an offset.
class Keeper final : public ReplicaSource {
 public:
  explicit Keeper(Offset offset) {
    auto store = OpenRocksDb(folder_ / "store");
    EXPECT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
    EXPECT_TRUE(store_->Write(BatchOf({{"p", std::string(100'000, 'x')}}, offset)).ok());
    auto server =
        ReplicaServer::Start({.job = "job", .epoch = 1, .listen = "127.0.0.1:0", .tls = {}}, *this);
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  StatusOr<Offset> OffsetOf(ShardId) override {
    return said_ ? *said_ : ReadParametersOffset(*store_);
  }
  StatusOr<std::string> Freeze(ShardId) override {
    std::string frozen = folder_ / std::to_string(++frozen_);
    MILLRACE_RETURN_IF_ERROR(store_->CopyTo(frozen));
    if (damaged_) {
      for (const auto& file : std::filesystem::directory_iterator(frozen)) {
        if (file.path().filename() == "CURRENT") std::ofstream(file.path()) << "MANIFEST-9\n";
      }
    }
    return frozen;
  }

  ReplicaOffer Offer(uint32_t server) const {
    ReplicaOffer offer;
    offer.set_server(server);
    offer.add_shard(kShard);
    offer.set_address("127.0.0.1:" + std::to_string(server_->port()));
    return offer;
  }
  void SayOffset(Offset offset) { said_ = offset; }
  void Damage() { damaged_ = true; }
  int frozen() const { return frozen_; }

 private:
  TemporaryFolder folder_;
  std::unique_ptr<DiskByteMap> store_;
  std::optional<Offset> said_;
  std::atomic<bool> damaged_ = false;
  std::atomic<int> frozen_ = 0;
  std::unique_ptr<ReplicaServer> server_;
};

class PeerReplicasTest : public testing::Test {
 protected:
  PeerReplicasTest() { config_.set_name("job"); }

  std::optional<std::string> Fetch(const std::vector<ReplicaOffer>& offers) {
    PeerReplicas peers(config_, {}, {kShard}, stop_, Endless());
    auto got = peers.Fetch(offers, kShard, folder_ / "store");
    EXPECT_TRUE(got.ok()) << got.status();
    return *got;
  }
  Offset Fetched() {
    auto store = OpenRocksDb(folder_ / "store");
    EXPECT_TRUE(store.ok()) << store.status();
    EXPECT_EQ((*(*store)->Get("p"))->size(), 100'000u);
    return *ReadParametersOffset(**store);
  }

  TemporaryFolder folder_;
  JobConfig config_;
  std::atomic<bool> stop_ = false;
};

TEST_F(PeerReplicasTest, FetchesTheCopyWithTheHighestOffset) {
  Keeper behind(10);
  Keeper ahead(20);
  EXPECT_EQ(Fetch({behind.Offer(0), ahead.Offer(2)}), ahead.Offer(2).address());
  EXPECT_EQ(Fetched(), 20);
  EXPECT_EQ(behind.frozen(), 0);
}

TEST_F(PeerReplicasTest, SkipsPeersThatAreAwayHaveADamagedCopyOrOneThatIsOlderThanOffered) {
  Keeper good(10);
  Keeper damaged(30);
  damaged.Damage();
  Keeper boastful(5);
  boastful.SayOffset(40);
  ReplicaOffer away = good.Offer(5);
  away.set_address("127.0.0.1:1");
  EXPECT_EQ(Fetch({away, boastful.Offer(2), damaged.Offer(3), good.Offer(4)}),
            good.Offer(4).address());
  EXPECT_EQ(Fetched(), 10);
  EXPECT_EQ(damaged.frozen(), 1);
  EXPECT_EQ(boastful.frozen(), 1);
}

TEST_F(PeerReplicasTest, WithoutAnyCopyTheFolderIsNotMade) {
  Keeper boastful(5);
  boastful.SayOffset(40);
  EXPECT_EQ(Fetch({boastful.Offer(2)}), std::nullopt);
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(PeerReplicasTest, SkipsItsOwnOffersThoseOfOtherShardsAndThoseByTls) {
  Keeper own(30);
  Keeper other(40);
  ReplicaOffer of_other = other.Offer(2);
  of_other.set_shard(0, 0);
  ReplicaOffer by_tls = other.Offer(3);
  by_tls.set_tls(true);
  EXPECT_EQ(Fetch({own.Offer(kShard), of_other, by_tls}), std::nullopt);
}

TEST_F(PeerReplicasTest, AnotherMachineIsAskedByMutualTlsOrWhenItIsAllowed) {
  Keeper keeper(10);
  ReplicaOffer outside = keeper.Offer(2);
  // Every address of this machine: reached here as by another machine.
  const std::string loopback = outside.address();
  outside.set_address("0.0.0.0" + loopback.substr(loopback.rfind(':')));
  EXPECT_EQ(Fetch({outside}), std::nullopt);
  config_.mutable_server()->set_replica_insecure(true);
  EXPECT_EQ(Fetch({outside}), outside.address());
}

TEST(AdvertisedAddress, IsWhatOthersDialWithThePortThatIsListenedAt) {
  EXPECT_EQ(AdvertisedAddress("10.0.0.7:0", "", 4711), "10.0.0.7:4711");
  EXPECT_EQ(AdvertisedAddress("10.0.0.7:9000", "", 9000), "10.0.0.7:9000");
  EXPECT_EQ(AdvertisedAddress("0.0.0.0:0", "a.example:0", 4711), "a.example:4711");
  EXPECT_EQ(AdvertisedAddress("0.0.0.0:9000", "a.example:80", 9000), "a.example:80");
  const std::string named = AdvertisedAddress("[::]:9000", "", 9000);
  EXPECT_TRUE(named.ends_with(":9000")) << named;
  EXPECT_FALSE(named.starts_with("[::]")) << named;
}

}  // namespace
}  // namespace millrace
