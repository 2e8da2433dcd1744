#include "stores/store_generation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "stores/memory_byte_map.h"
#include "tests/stores/failing_byte_map.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

void Put(OrderedByteMap& store, const std::string& key) {
  WriteBatch batch;
  batch.Put(key, "value");
  ASSERT_TRUE(store.Write(batch).ok());
}

TEST(StoreGeneration, AStoreThatCannotBeReadIsNotTakenForAnEmptyOne) {
  FailingByteMap store;
  Put(store, "p");
  store.scan_status = absl::UnavailableError("it does not answer");
  EXPECT_EQ(ClaimForGeneration(store, 7, "folder"), store.scan_status);
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

TEST(StoreGeneration, ACallerWithARemedyOfItsOwnIsToldOnlyThatItIsAnother) {
  MemoryByteMap store;
  const auto claim = [&](uint64_t generation) { return *ClaimForGeneration(store, generation); };
  EXPECT_TRUE(claim(7));
  EXPECT_TRUE(claim(7));
  EXPECT_FALSE(claim(8));
}

TEST(StoreGeneration, AStoreThatHasSomethingAndNoGenerationIsRefused) {
  MemoryByteMap store;
  Put(store, "p");
  EXPECT_TRUE(absl::IsDataLoss(ClaimForGeneration(store, 7, "folder")));
}

}  // namespace
}  // namespace millrace
