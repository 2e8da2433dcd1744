#include "stores/row_sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "stores/frozen_rows.h"
#include "stores/memory_byte_map.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint32_t kTable = 3;
constexpr int64_t kExpireMs = 800;

class RowSweepTest : public testing::Test {
 protected:
  // The row was updated then.
  void Store(EmbeddingId id, int64_t updated_ms, uint32_t table = kTable) {
    FrozenRows rows(table, /*width=*/1, /*slot_floats=*/0);
    const std::vector<float> floats = {0.5f};
    rows.Add(id, 0, {.updates = 1, .updated_ms = updated_ms}, floats);
    WriteBatch batch;
    rows.Encode(0, [&](std::string_view key, std::string_view value) {
      batch.Put(std::string(key), std::string(value));
      return true;
    });
    ASSERT_TRUE(store_.Write(batch).ok());
  }
  std::vector<std::string> Next(int64_t now_ms, size_t most = 100) {
    StatusOr<std::vector<std::string>> keys = sweep_.Next(store_, now_ms, most);
    EXPECT_TRUE(keys.ok()) << keys.status();
    return *std::move(keys);
  }
  static std::string Key(EmbeddingId id) { return EmbeddingRowKey(kTable, id); }

  MemoryByteMap store_;
  RowSweep sweep_{kTable, kExpireMs};
};

TEST_F(RowSweepTest, FindsTheRowsOfItsTableThatNoUpdateHasNamedForSoLong) {
  Store(1, 1000);
  Store(2, 1001);
  Store(UINT64_MAX, 900);
  Store(7, 0, kTable + 1);
  Store(8, 0, kTable - 1);
  EXPECT_THAT(Next(1000 + kExpireMs + 1), ElementsAre(Key(1), Key(UINT64_MAX)));
}

TEST_F(RowSweepTest, GoesThroughAStoreInPartsAndThenRests) {
  for (EmbeddingId id = 0; id < 5; ++id) Store(id, 0);
  const int64_t now = kExpireMs + 1;
  EXPECT_THAT(Next(now, 2), ElementsAre(Key(0), Key(1)));
  EXPECT_THAT(Next(now, 2), ElementsAre(Key(2), Key(3)));
  EXPECT_THAT(Next(now, 2), ElementsAre(Key(4)));
  // (Nobody has removed them.)
  EXPECT_THAT(Next(now + kExpireMs / 8 - 1, 2), IsEmpty());
  EXPECT_THAT(Next(now + kExpireMs / 8, 2), ElementsAre(Key(0), Key(1)));
}

TEST_F(RowSweepTest, ARowThatCannotBeDecodedIsLeftToWhoAsksForIt) {
  WriteBatch batch;
  batch.Put(Key(1), "no row");
  ASSERT_TRUE(store_.Write(batch).ok());
  Store(2, 0);
  EXPECT_THAT(Next(kExpireMs + 1), ElementsAre(Key(2)));
}

}  // namespace
}  // namespace millrace
