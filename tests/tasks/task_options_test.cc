#include "tasks/task_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace millrace {
namespace {

using ::testing::HasSubstr;

// Two numeric columns and as many hashed features.
JobFeatures Features(uint64_t hashed, int classes = 2) {
  JobFeatures features;
  features.set_feature_count(2 + hashed);
  features.mutable_spec()->add_numeric("a");
  features.mutable_spec()->add_numeric("b");
  for (int k = 0; k < classes; ++k) features.mutable_spec()->add_classes(std::to_string(k));
  return features;
}

Training Online() {
  Training training;
  training.mutable_update()->set_kind(Training::Update::ONLINE);
  return training;
}

TEST(ManyWeightsText, NamesTheBucketsOfAModelThatTravelsWhole) {
  JobFeatures features = Features(1 << 18);
  FeatureSpec& spec = *features.mutable_spec();
  spec.add_text("t");
  spec.set_text_buckets(1 << 18);
  spec.set_categorical_buckets(1 << 18);  // of no column
  Training training = Online();
  EXPECT_EQ(ManyWeightsText(features, training), "");
  training.set_schedule(Training::BUFFER);
  EXPECT_THAT(ManyWeightsText(features, training),
              ::testing::AllOf(HasSubstr("all 2097208 weights"), HasSubstr("--text-buckets 65536"),
                               ::testing::Not(HasSubstr("--categorical-buckets"))));
  spec.add_times("at");
  EXPECT_THAT(ManyWeightsText(features, training), HasSubstr("--categorical-buckets 4096"));
  spec.set_categorical_buckets(4096);
  spec.set_text_buckets(65'536);
  features.set_feature_count(2 + 65'536 + 4096);
  EXPECT_EQ(ManyWeightsText(features, training), "") << "what is the default it does not warn of";
  features.set_feature_count(2 + 1024);
  spec.set_text_buckets(1024);
  EXPECT_EQ(ManyWeightsText(features, training), "");
}

TEST(ManyWeightsText, SaysNothingOfWeightsThatBucketsDoNotMake) {
  JobFeatures features = Features(1 << 18);  // of which it is not known what they are
  Training training = Online();
  training.set_schedule(Training::BUFFER);
  EXPECT_EQ(ManyWeightsText(features, training), "");
}

TEST(SmallBufferText, WarnsOfABufferThatATurnDoesNotFitInto) {
  JobFeatures features = Features(10);
  features.set_rows_per_turn(128);
  Training training;
  training.set_schedule(Training::BUFFER);
  training.mutable_buffer()->set_max_rows(128);
  training.mutable_update()->set_kind(Training::Update::ONLINE);
  EXPECT_EQ(SmallBufferText(features, training), "");
  training.mutable_buffer()->set_max_rows(127);
  EXPECT_THAT(SmallBufferText(features, training),
              ::testing::AllOf(HasSubstr("--buffer-max 127 is below the 128 rows of a turn"),
                               HasSubstr("for the second time while others still wait")));
  training.mutable_update()->set_kind(Training::Update::GRADIENT);
  EXPECT_THAT(SmallBufferText(features, training),
              HasSubstr("replaced before a gradient has used them. Raise it to 1000"));
  training.mutable_buffer()->set_skip_rows(true);
  EXPECT_EQ(SmallBufferText(features, training), "") << "that is what was asked for";
  training.mutable_buffer()->set_skip_rows(false);
  training.set_schedule(Training::ONE_PASS);
  EXPECT_EQ(SmallBufferText(features, training), "");
}

TEST(CheckModel, ANetworkTakesAnyClassesAndRegressionsButIdsInOnePassOnly) {
  Training training;
  training.set_model(Training::NETWORK);
  JobFeatures features = Features(10, 7);
  EXPECT_TRUE(CheckModel(features, training).ok());
  training.set_schedule(Training::BUFFER);
  EXPECT_TRUE(CheckModel(features, training).ok());
  features.mutable_spec()->add_ids("id");
  EXPECT_THAT(CheckModel(features, training).message(), HasSubstr("--schedule one-pass"));
  training.set_schedule(Training::ONE_PASS);
  EXPECT_TRUE(CheckModel(features, training).ok());
  training.set_l2(100);
  EXPECT_FALSE(CheckModel(features, training).ok()) << "a step would turn the rows around";
  training.clear_l2();
  features.mutable_spec()->clear_classes();
  EXPECT_FALSE(CheckModel(features, training).ok());
  features.mutable_spec()->set_regression(true);
  EXPECT_TRUE(CheckModel(features, training).ok());
  training.add_class_weight("balanced");
  EXPECT_THAT(CheckModel(features, training).message(), HasSubstr("--class-weight"));
}

TEST(MakeModel, FrequenciesOfClassesAreKnownUnlessWeightsMakeOthersOfThem) {
  Training training;
  const auto uses = [&](Training::Model model, const char* weight) {
    training.set_model(model);
    training.clear_class_weight();
    if (*weight != 0) training.add_class_weight(weight);
    JobFeatures features = Features(10);
    features.mutable_spec()->add_ids("id");
    return MakeModel(features, training)->uses_targets();
  };
  for (const auto model : {Training::FACTORIZATION_MACHINE, Training::DEEP_FM, Training::NETWORK}) {
    EXPECT_TRUE(uses(model, ""));
    EXPECT_FALSE(uses(model, "balanced"));
  }
  EXPECT_FALSE(uses(Training::FACTORIZATION_MACHINE, "1=3"));
  EXPECT_TRUE(uses(Training::NETWORK, "1=3")) << "it weighs the frequencies, too";
}

TEST(MakeServerOptions, OfANetworkRowsAreBornLinearFirst) {
  JobTraining training;
  training.set_shards(1);
  training.mutable_training()->set_model(Training::NETWORK);
  training.mutable_training()->add_hidden(2);
  training.mutable_training()->set_l2(0.25);
  training.mutable_training()->mutable_embedding()->set_initial_limit(0.5);
  JobFeatures features = Features(10, 3);
  features.set_workers(1);
  features.mutable_spec()->add_ids("id");
  const ServerOptions options = MakeServerOptions(features, training, ShardId(0));
  ASSERT_TRUE(options.embeddings.has_value());
  EXPECT_EQ(options.embeddings->initial_limit, (std::vector<float>{0, 0, 0, 0.5, 0.5}));
  EXPECT_EQ(options.row_linear_end, 3u);
  EXPECT_EQ(options.row_l2, 0.25);
}

TEST(MakeServerOptions, TopicsAreNamedAsTheBrokerCallsThemAfterAReshardToo) {
  JobFeatures features = Features(10);
  features.set_workers(1);
  JobTraining training;
  training.set_shards(1);
  const auto gradients = [&] {
    const std::string name = MakeServerOptions(features, training, ShardId(0)).gradients_topic;
    EXPECT_EQ(MakeWorkerOptions(features, training, WorkerId(0)).gradients_topic, name);
    return name;
  };
  EXPECT_EQ(gradients(), "gradients") << "the job has no name";
  features.set_job("flights");
  EXPECT_EQ(gradients(), "flights.gradients");
  training.set_layout(2);
  EXPECT_EQ(gradients(), "flights.layout-2.gradients");
  EXPECT_EQ(MakeWorkerOptions(features, training, WorkerId(0)).weights_topic,
            "flights.layout-2.weights");
}

TEST(MakeWorkerOptions, OfAJobThatNamesNoTurnsTheyAreOfOneRow) {
  JobFeatures features = Features(10);
  features.set_workers(3);
  JobTraining training;
  training.set_shards(1);
  EXPECT_EQ(MakeWorkerOptions(features, training, WorkerId(1)).dealing.rows_per_turn, 1u);
  features.set_rows_per_turn(32);
  EXPECT_EQ(MakeWorkerOptions(features, training, WorkerId(1)).dealing.rows_per_turn, 32u);
}

TEST(MakeWorkerOptions, OnlyThoseWorkersLearnAtOnceThatHaveRowsUnlessRowsAreLeased) {
  JobFeatures features = Features(10);
  features.set_workers(3);
  JobTraining training;
  training.set_shards(1);
  const auto with_rows = [&] {
    return MakeWorkerOptions(features, training, WorkerId(0)).workers_with_rows();
  };
  EXPECT_EQ(with_rows(), 3u);
  features.set_dealt_workers(1);
  EXPECT_EQ(with_rows(), 1u);
  training.mutable_training()->set_sharding(Training::DYNAMIC);
  EXPECT_EQ(with_rows(), 3u);
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

TEST(IsWide, AnOnlineLearnerKeepsRowsToo) {
  EXPECT_FALSE(IsWide(Features(5'497), Online()));
  EXPECT_TRUE(IsWide(Features(5'498), Online()));
  EXPECT_FALSE(IsWide(Features(0), Online()));
}

TEST(MakeModel, AnOnlineLearnerHasAllRatesOfAWeightInItsBlocksAndRows) {
  const std::unique_ptr<Model> dense = MakeModel(Features(100), Online());
  ASSERT_NE(dense->online(), nullptr);
  EXPECT_EQ(dense->block_size(), 8u);
  EXPECT_EQ(dense->parameter_count(), 8u * (102 + 1 + 2 + 2)) << "features, bias, race, and sums";
  EXPECT_EQ(dense->row_width(), 0u);
  const std::unique_ptr<Model> wide = MakeModel(Features(200'000, 3), Online());
  ASSERT_NE(wide->online(), nullptr);
  EXPECT_EQ(wide->parameter_count(), 24u * (2 + 1 + 1 + 2));
  EXPECT_EQ(wide->row_width(), 24u);
  EXPECT_EQ(MakeModel(Features(100), Training())->online(), nullptr);
}

JobFeatures RegressionFeatures(bool ids = false) {
  JobFeatures features = Features(100, 0);
  features.mutable_spec()->set_regression(true);
  if (ids) features.mutable_spec()->add_ids("id");
  return features;
}

TEST(MakeModel, ARegressionIsLinearUnlessAnotherModelIsGiven) {
  const std::unique_ptr<Model> online = MakeModel(RegressionFeatures(), Online());
  ASSERT_NE(online->online(), nullptr);
  EXPECT_EQ(online->score_count(), 1u);
  EXPECT_EQ(online->row_width(), 0u);
  EXPECT_EQ(MakeModel(RegressionFeatures(true), Online())->row_width(), 8u);
  const std::unique_ptr<Model> gradients = MakeModel(RegressionFeatures(), Training());
  EXPECT_EQ(gradients->online(), nullptr);
  EXPECT_EQ(gradients->score_count(), 1u);
  EXPECT_EQ(gradients->parameter_count(), 103u);
  EXPECT_EQ(gradients->row_width(), 0u);
  EXPECT_EQ(MakeModel(RegressionFeatures(true), Training())->row_width(), 1u);
}

TEST(CheckModel, NamesWhatDoesNotGoTogether) {
  EXPECT_TRUE(CheckModel(RegressionFeatures(), Online()).ok());
  EXPECT_TRUE(CheckModel(RegressionFeatures(true), Training()).ok());
  const auto error = [](const JobFeatures& features, const Training& training) {
    return std::string(CheckModel(features, training).message());
  };
  Training huber = Online();
  huber.set_loss(Training::HUBER);
  EXPECT_TRUE(CheckModel(RegressionFeatures(), huber).ok());
  EXPECT_THAT(error(Features(3), huber), HasSubstr("--loss"));
  JobFeatures ids = Features(3);
  ids.mutable_spec()->add_ids("id");
  EXPECT_TRUE(CheckModel(ids, Online()).ok());
  EXPECT_THAT(error(ids, Training()), HasSubstr("leave out --update, --l2"));
  Training buffer;
  buffer.set_schedule(Training::BUFFER);
  EXPECT_TRUE(CheckModel(RegressionFeatures(), buffer).ok());
  EXPECT_THAT(error(RegressionFeatures(true), buffer), HasSubstr("--schedule one-pass"));
}

TEST(MakeServerOptions, AShardAddsUpTheChangesOfOnlineLearners) {
  JobTraining training;
  training.set_shards(2);
  *training.mutable_training() = Online();
  JobFeatures features = Features(100);
  features.set_workers(4);
  ServerOptions options = MakeServerOptions(features, training, ShardId(0));
  EXPECT_EQ(options.updates, UpdateKind::kSums);
  EXPECT_EQ(options.optimizer.kind, OptimizerOptions::Kind::kSum);
  EXPECT_EQ(options.l2, 0);
  EXPECT_EQ(options.range.size(), 4u * (102 + 1 + 2 + 2)) << "half of the parameters";
  EXPECT_FALSE(options.embeddings.has_value());
  options = MakeServerOptions(Features(200'000, 3), training, ShardId(0));
  ASSERT_TRUE(options.embeddings.has_value());
  EXPECT_EQ(options.embeddings->initial_limit, std::vector<float>(24, 0));
  EXPECT_EQ(options.row_l2, 0);
}

TEST(MakeServerOptions, AShardForgetsWhatIsOfFeaturesAndTheBiasOnlyIfThatIsAskedFor) {
  JobTraining training;
  training.set_shards(2);
  *training.mutable_training() = Online();
  JobFeatures features = Features(100);
  features.set_workers(4);
  EXPECT_FALSE(MakeServerOptions(features, training, ShardId(1)).forgets.has_value());
  training.mutable_training()->set_on_drift(Training::FORGET);
  for (const ShardId shard : {ShardId(0), ShardId(1)}) {
    const ServerOptions options = MakeServerOptions(features, training, shard);
    ASSERT_TRUE(options.forgets.has_value());
    EXPECT_EQ(options.forgets->weights_end, 8u * (102 + 1)) << "of all shards together";
    EXPECT_TRUE(options.forgets->race);
    EXPECT_TRUE(options.rows_miss_steps());
  }
  training.mutable_training()->mutable_consistency()->set_model(Training::Consistency::EVENTUAL);
  EXPECT_FALSE(MakeServerOptions(features, training, ShardId(0)).forgets->race)
      << "updates are on their way that were made of the race as it was";
}

TEST(MakeServerOptions, TheOtherUpdatesAreForTheOptimizerOrAveraged) {
  JobTraining training;
  training.set_shards(1);
  EXPECT_EQ(MakeServerOptions(Features(10), training, ShardId(0)).updates, UpdateKind::kSums);
  EXPECT_EQ(MakeServerOptions(Features(10), training, ShardId(0)).optimizer.kind,
            OptimizerOptions::Kind::kAdaGrad);
  training.mutable_training()->mutable_update()->set_kind(Training::Update::WEIGHT_CHANGE);
  EXPECT_EQ(MakeServerOptions(Features(10), training, ShardId(0)).updates,
            UpdateKind::kAverageChanges);
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
