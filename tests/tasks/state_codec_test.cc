#include "tasks/state_codec.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace millrace {
namespace {

ShardState StateOfWorkers(uint32_t workers, size_t bytes_of_each) {
  ShardState state;
  state.set_epoch(4);
  state.set_position(99);
  state.mutable_previous_round()->set_step_ms(7);
  for (uint32_t worker = 0; worker < workers; ++worker) {
    ShardState::Member& member = *state.add_members();
    member.set_worker(worker);
    *member.add_pending()->mutable_packed_slice() =
        std::string(bytes_of_each, static_cast<char>('a' + worker % 26));
    ShardState::PartialMessage& partial = *state.add_partial();
    partial.set_worker(worker);
    partial.add_chunk(std::string(bytes_of_each / 2, 'p'));
  }
  return state;
}

std::string Joined(const std::vector<std::string>& pieces) {
  std::string bytes;
  for (const std::string& piece : pieces) bytes += piece;
  return bytes;
}

TEST(StateCodec, AStateLargerThanAMessageCanBeIsSavedInPiecesAndComesBackWhole) {
  for (const uint32_t workers : {0u, 1u, 5u, 33u}) {
    const ShardState state = StateOfWorkers(workers, 1000);
    const StatusOr<std::vector<std::string>> pieces = EncodeState(state, 2500);
    ASSERT_TRUE(pieces.ok()) << pieces.status();
    for (const std::string& piece : *pieces) EXPECT_LE(piece.size(), 2500u);
    const StatusOr<ShardState> read = DecodeState(Joined(*pieces));
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->SerializeAsString(), state.SerializeAsString()) << workers;
  }
}

TEST(StateCodec, AnUpdateThatFitsNoPieceIsAnErrorAndNoEmptyState) {
  const Status status = EncodeState(StateOfWorkers(3, 1000), 900).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
}

TEST(StateCodec, DamageIsAnErrorOrAnotherStateAndNeverACrash) {
  const std::string good = Joined(*EncodeState(StateOfWorkers(4, 50), 200));
  EXPECT_TRUE(absl::IsDataLoss(DecodeState(good.substr(0, good.size() - 1)).status()));
  EXPECT_TRUE(absl::IsDataLoss(DecodeState("short").status()));
  std::mt19937 random(1);
  for (int trial = 0; trial < 5000; ++trial) {
    std::string bytes = good;
    for (uint64_t change = 1 + random() % 4; change > 0; --change) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    (void)DecodeState(bytes.substr(0, random() % (bytes.size() + 1)));
  }
}

}  // namespace
}  // namespace millrace
