// A message taken apart, and put together again with a sum.
#include "tasks/summed_update.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "topics/slice_codec.h"

namespace millrace {
namespace {

constexpr KeyRange kKeys = {0, 4};

Gradient UpdateOf(std::vector<float> values) {
  Gradient message;
  message.set_worker(2);
  message.set_clock(5);
  message.mutable_update()->set_row_count(3);
  message.mutable_update()->set_weight_sum(3);
  EncodeDenseSlice(values, kKeys, *message.mutable_update()->mutable_slice());
  return message;
}

TEST(SplitUpdate, LeavesTheRestWithASliceOfNoValues) {
  const SplitMessage split = SplitUpdate(UpdateOf({1, 2, 3, 4}), kKeys);
  EXPECT_EQ(split.values, (std::vector<float>{1, 2, 3, 4}));
  Gradient rest = UpdateOf({1, 2, 3, 4});
  rest.mutable_update()->mutable_slice()->clear_dense();
  EXPECT_EQ(split.rest.SerializeAsString(), rest.SerializeAsString());
}

TEST(SplitUpdate, TakesSparseValuesToTheirPlaces) {
  Gradient message = UpdateOf({0, 0, 0, 0});
  Slice& slice = *message.mutable_update()->mutable_slice();
  slice.clear_dense();
  slice.add_sparse_index(1);
  slice.add_sparse_value(-7);
  const SplitMessage split = SplitUpdate(message, kKeys);
  EXPECT_EQ(split.values, (std::vector<float>{0, -7, 0, 0}));
  EXPECT_EQ(split.rest.update().slice().sparse_index_size(), 0);
  EXPECT_EQ(split.rest.update().slice().sparse_value_size(), 0);
}

TEST(SplitUpdate, LeavesWhatAShardWouldRefuseAsItIs) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), 1e19f}) {
    const Gradient message = UpdateOf({1, bad, 3, 4});
    const SplitMessage split = SplitUpdate(message, kKeys);
    EXPECT_TRUE(split.values.empty());
    EXPECT_EQ(split.rest.SerializeAsString(), message.SerializeAsString());
  }
  EXPECT_TRUE(SplitUpdate(UpdateOf({1, 2, 3, 4}), {0, 5}).values.empty());
}

// Or the sum would have values of an update that counts as an empty one.
TEST(SplitUpdate, LeavesAnUpdateWhoseFiguresAShardWouldRefuseAsItIs) {
  Gradient message = UpdateOf({1, 2, 3, 4});
  message.mutable_update()->set_weight_sum(-1);
  EXPECT_TRUE(SplitUpdate(message, kKeys).values.empty());
  message = UpdateOf({1, 2, 3, 4});
  message.mutable_update()->set_train_loss(std::numeric_limits<double>::infinity());
  const SplitMessage split = SplitUpdate(message, kKeys);
  EXPECT_TRUE(split.values.empty());
  EXPECT_EQ(split.rest.SerializeAsString(), message.SerializeAsString());
}

TEST(SplitUpdate, TakesNothingOutOfOtherMessages) {
  Gradient leave;
  leave.mutable_leave();
  EXPECT_TRUE(SplitUpdate(leave, kKeys).values.empty());
  Gradient empty = UpdateOf({0, 0, 0, 0});
  empty.mutable_update()->set_row_count(0);
  EXPECT_TRUE(SplitUpdate(empty, kKeys).values.empty());
}

TEST(JoinUpdate, PutsTheValuesInThePlaceOfTheOnesTakenOut) {
  const SplitMessage split = SplitUpdate(UpdateOf({1, 2, 3, 4}), kKeys);
  const std::vector<float> sum = {5, 6, 7, 8};
  const StatusOr<std::string> joined = JoinUpdate(split.rest, sum, kKeys);
  ASSERT_EQ(joined.status(), absl::OkStatus());
  Gradient message;
  ASSERT_TRUE(message.ParseFromString(*joined));
  EXPECT_EQ(message.SerializeAsString(), UpdateOf({5, 6, 7, 8}).SerializeAsString());
}

}  // namespace
}  // namespace millrace
