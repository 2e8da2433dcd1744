#include "stores/store_generation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "stores/memory_byte_map.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

void Put(OrderedByteMap& store, const std::string& key) {
  WriteBatch batch;
  batch.Put(key, "value");
  ASSERT_TRUE(store.Write(batch).ok());
}

// A disk that cannot be read through.
class UnreadableByteMap final : public OrderedByteMap {
 public:
  StatusOr<std::optional<std::string>> Get(std::string_view key) const override {
    return map_.Get(key);
  }
  Status Write(const WriteBatch& batch) override { return map_.Write(batch); }
  Status Flush() override { return map_.Flush(); }
  Status Scan(std::string_view, std::string_view,
              const std::function<bool(std::string_view, std::string_view)>&) const override {
    return absl::UnavailableError("it does not answer");
  }

 private:
  MemoryByteMap map_;
};

TEST(StoreGeneration, AStoreThatCannotBeReadIsNotTakenForAnEmptyOne) {
  UnreadableByteMap store;
  Put(store, "p");
  EXPECT_TRUE(absl::IsUnavailable(ClaimForGeneration(store, 7, "folder")));
}

TEST(StoreGeneration, AnEmptyStoreTakesItAndKeepsIt) {
  MemoryByteMap store;
  EXPECT_TRUE(ClaimForGeneration(store, 7, "folder").ok());
  Put(store, "p");
  EXPECT_TRUE(ClaimForGeneration(store, 7, "folder").ok());
}

TEST(StoreGeneration, AStoreOfAnotherGenerationIsRefusedWithItsFolder) {
  MemoryByteMap store;
  ASSERT_TRUE(ClaimForGeneration(store, 7, "folder").ok());
  const Status refused = ClaimForGeneration(store, 8, "the/folder");
  EXPECT_TRUE(absl::IsDataLoss(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("the/folder"));
  EXPECT_TRUE(ClaimForGeneration(store, 7, "folder").ok()) << "it is as it was";
}

TEST(StoreGeneration, AStoreThatHasSomethingAndNoGenerationIsRefused) {
  MemoryByteMap store;
  Put(store, "p");
  EXPECT_TRUE(absl::IsDataLoss(ClaimForGeneration(store, 7, "folder")));
}

}  // namespace
}  // namespace millrace
