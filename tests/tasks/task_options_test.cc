#include "tasks/task_options.h"

#include <gtest/gtest.h>

#include <memory>

namespace millrace {
namespace {

// Two numeric columns and as many hashed features.
JobFeatures Features(uint64_t hashed, int classes = 2) {
  JobFeatures features;
  features.set_feature_count(2 + hashed);
  features.mutable_spec()->add_numeric("a");
  features.mutable_spec()->add_numeric("b");
  for (int k = 0; k < classes; ++k) features.mutable_spec()->add_classes(std::to_string(k));
  return features;
}

TEST(IsWide, AModelOfManyWeightsKeepsThemAsRows) {
  EXPECT_FALSE(IsWide(Features(131'069), Training()));
  EXPECT_TRUE(IsWide(Features(131'070), Training()));
  EXPECT_TRUE(IsWide(Features(32'000, 9), Training())) << "a weight for each class";
  Training narrow;
  narrow.set_wide_above(1'000'000);
  EXPECT_FALSE(IsWide(Features(131'070), narrow));
  const std::unique_ptr<Model> model = MakeModel(Features(131'070), Training());
  EXPECT_EQ(model->parameter_count(), 6u) << "of the numeric columns and the bias";
  EXPECT_EQ(model->row_width(), 2u);
}

TEST(IsWide, NotWhereEveryUpdateNeedsOrChangesAllWeights) {
  const JobFeatures features = Features(200'000);
  Training training;
  training.set_schedule(Training::BUFFER);
  EXPECT_FALSE(IsWide(features, training));
  training.Clear();
  training.mutable_update()->set_kind(Training::Update::WEIGHT_CHANGE);
  EXPECT_FALSE(IsWide(features, training));
}

TEST(IsWide, APenaltyThatIsCaughtUpWithKeepsRows) {
  const JobFeatures features = Features(200'000);
  Training training;
  training.set_l2(0.1);
  EXPECT_TRUE(IsWide(features, training));
  training.mutable_optimizer()->set_learning_rate(6);
  EXPECT_FALSE(IsWide(features, training)) << "more than half of a weight goes in one step";
  training.mutable_optimizer()->set_kind(Training::Optimizer::FTRL);
  EXPECT_TRUE(IsWide(features, training)) << "its penalty is a part of each weight's own formula";
}

TEST(IsWide, ColumnsOfNumbersAloneHaveNoRows) {
  Training training;
  training.set_wide_above(0);
  EXPECT_FALSE(IsWide(Features(0), training));
}

TEST(MakeServerOptions, TheRowsOfAWideModelAreBornZeroAndLinear) {
  JobTraining training;
  training.set_shards(1);
  JobFeatures features = Features(200'000, 3);
  features.set_workers(1);
  const ServerOptions options = MakeServerOptions(features, training, ShardId(0));
  ASSERT_TRUE(options.embeddings.has_value());
  EXPECT_EQ(options.embeddings->initial_limit, (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(options.row_linear_end, 3u);
}

TEST(MakeServerOptions, ThePenaltyOfAModelIsThatOfItsRowsOnlyWhereTheyAreItsWeights) {
  JobTraining training;
  training.set_shards(1);
  training.mutable_training()->set_l2(0.25);
  JobFeatures features = Features(200'000, 2);
  features.set_workers(1);
  EXPECT_EQ(MakeServerOptions(features, training, ShardId(0)).row_l2, 0.25);
  training.mutable_training()->mutable_optimizer()->set_kind(Training::Optimizer::FTRL);
  EXPECT_EQ(MakeServerOptions(features, training, ShardId(0)).row_l2, 0) << "in its own formula";
  training.mutable_training()->clear_optimizer();
  training.mutable_training()->set_model(Training::FACTORIZATION_MACHINE);
  features.mutable_spec()->add_ids("id");
  EXPECT_EQ(MakeServerOptions(features, training, ShardId(0)).row_l2, 0) << "has --embedding-l2";
}

}  // namespace
}  // namespace millrace
