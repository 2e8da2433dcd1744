// What a job's settings are where the user says nothing.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tasks/task_options.h"

namespace millrace {
namespace {

TEST(SetDefaultUpdate, IsAnOnlineLearnerOfASoftmaxInOnePass) {
  Training training;
  SetDefaultUpdate(training);
  EXPECT_EQ(training.update().kind(), Training::Update::ONLINE);
  training.Clear();
  training.add_class_weight("balanced");
  training.set_scaling(Training::NONE);
  training.set_batch_rows(9);
  training.set_l2(0);
  training.mutable_compression()->set_values(Training::Compression::BF16);
  training.mutable_consistency()->set_model(Training::Consistency::EVENTUAL);
  SetDefaultUpdate(training);
  EXPECT_EQ(training.update().kind(), Training::Update::ONLINE);
}

TEST(SetDefaultUpdate, IsTheGradientWhereASettingConcernsItOrNoLearnerIs) {
  const std::vector<std::function<void(Training&)>> changes = {
      [](Training& t) {
        t.set_schedule(Training::BUFFER);
        t.mutable_buffer()->set_minibatch_rows(9);
      },
      [](Training& t) { t.set_model(Training::FACTORIZATION_MACHINE); },
      [](Training& t) { t.set_model(Training::DEEP_FM); },
      [](Training& t) { t.set_model(Training::NETWORK); },
      [](Training& t) { t.mutable_optimizer()->set_kind(Training::Optimizer::ADAGRAD); },
      [](Training& t) { t.mutable_optimizer()->set_learning_rate(0.5); },
      [](Training& t) { t.set_l2(1e-9); },
      [](Training& t) { t.mutable_compression()->set_top_k(0.5); },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    Training training;
    changes[i](training);
    SetDefaultUpdate(training);
    EXPECT_TRUE(training.update().has_kind());
    EXPECT_EQ(training.update().kind(), Training::Update::GRADIENT) << i;
  }
}

TEST(SetDefaultUpdate, LeavesWhatTheUserHasSaid) {
  for (const auto kind :
       {Training::Update::GRADIENT, Training::Update::WEIGHT_CHANGE, Training::Update::ONLINE}) {
    Training training;
    training.mutable_update()->set_kind(kind);
    training.set_schedule(kind == Training::Update::WEIGHT_CHANGE ? Training::BUFFER
                                                                  : Training::ONE_PASS);
    SetDefaultUpdate(training);
    EXPECT_EQ(training.update().kind(), kind);
  }
}

TEST(SetDefaults, FactorsAndNetworksLearnBySmallerSteps) {
  Training training;
  training.set_model(Training::FACTORIZATION_MACHINE);
  SetDefaults(training);
  EXPECT_EQ(training.optimizer().learning_rate(), 0.05);
  training.mutable_optimizer()->set_learning_rate(0.4);
  SetDefaults(training);
  EXPECT_EQ(training.optimizer().learning_rate(), 0.4);
  Training network;
  network.set_model(Training::NETWORK);
  SetDefaults(network);
  EXPECT_EQ(network.optimizer().learning_rate(), 0.025);
  EXPECT_EQ(network.update().kind(), Training::Update::GRADIENT);
  Training sgd;
  sgd.set_model(Training::DEEP_FM);
  sgd.mutable_optimizer()->set_kind(Training::Optimizer::SGD);
  SetDefaults(sgd);
  EXPECT_FALSE(sgd.optimizer().has_learning_rate());
  Training softmax;
  SetDefaults(softmax);
  EXPECT_EQ(softmax.update().kind(), Training::Update::ONLINE);
  EXPECT_FALSE(softmax.has_optimizer());
}

TEST(SetDefaults, ABufferIsLearntFromRowByRowOrForSomeRoundsOfGradientsAfterTheEnd) {
  Training training;
  training.set_schedule(Training::BUFFER);
  Training network = training;
  Training chosen = training;
  SetDefaults(training);
  EXPECT_EQ(training.update().kind(), Training::Update::ONLINE);
  EXPECT_FALSE(training.has_rounds_after_end());
  network.set_model(Training::NETWORK);
  SetDefaults(network);
  EXPECT_EQ(network.rounds_after_end(), 30u);
  chosen.mutable_update()->set_kind(Training::Update::GRADIENT);
  chosen.set_rounds_after_end(0);
  SetDefaults(chosen);
  EXPECT_EQ(chosen.rounds_after_end(), 0u);
}

TEST(SetDefaults, BatchesOfANetworkBeginSmallInOnePassUnlessTheirNumberIsGiven) {
  const auto first = [](const std::function<void(Training&)>& change) {
    Training training;
    training.set_model(Training::NETWORK);
    change(training);
    SetDefaults(training);
    return training.first_batch_rows();
  };
  EXPECT_EQ(first([](Training&) {}), 8u);
  EXPECT_EQ(first([](Training& t) { t.set_model(Training::DEEP_FM); }), 0u);
  EXPECT_EQ(first([](Training& t) { t.set_batch_rows(32); }), 0u);
  EXPECT_EQ(first([](Training& t) { t.set_first_batch_rows(3); }), 3u);
  EXPECT_EQ(first([](Training& t) { t.set_schedule(Training::BUFFER); }), 0u);
  EXPECT_EQ(first([](Training& t) { t.set_model(Training::SOFTMAX); }), 0u) << "online";
  EXPECT_EQ(
      first([](Training& t) { t.mutable_update()->set_kind(Training::Update::WEIGHT_CHANGE); }),
      0u);
}

TEST(SetDefaults, BatchesOfAnOnlineLearnerBeginWithOneRowHoweverManyAreGiven) {
  const auto first = [](const std::function<void(Training&)>& change) {
    Training training;
    training.set_batch_rows(256);
    change(training);
    SetDefaults(training);
    return FirstBatchRows(training, 256);
  };
  EXPECT_EQ(first([](Training&) {}), 1u);
  EXPECT_EQ(first([](Training& t) { t.set_first_batch_rows(256); }), 256u);
  EXPECT_EQ(first([](Training& t) { t.set_first_batch_rows(0); }), 256u);
  EXPECT_EQ(first([](Training& t) { t.set_schedule(Training::BUFFER); }), 256u);
  EXPECT_EQ(first([](Training& t) { t.mutable_update()->set_kind(Training::Update::GRADIENT); }),
            256u);
}

TEST(SetDefaults, AJobThatHasBegunKeepsItsBatches) {
  Training published;
  published.set_model(Training::NETWORK);
  Training training = published;
  published.mutable_update()->set_kind(Training::Update::GRADIENT);
  published.mutable_optimizer()->set_learning_rate(0.05);
  SetDefaultsAsBegun(published, training);
  SetDefaults(training);
  EXPECT_EQ(training.first_batch_rows(), 0u);
}

TEST(SetDefaults, AJobThatHasBegunKeepsTheDefaultsOfTheVersionThatBeganIt) {
  Training command;  // --schedule buffer
  command.set_schedule(Training::BUFFER);
  Training published = command;
  published.mutable_update()->set_kind(Training::Update::GRADIENT);
  Training training = command;
  SetDefaultsAsBegun(published, training);
  SetDefaults(training);
  EXPECT_EQ(training.update().kind(), Training::Update::GRADIENT);
  EXPECT_EQ(training.rounds_after_end(), 0u);
  EXPECT_FALSE(training.optimizer().has_learning_rate());
  published.set_model(Training::NETWORK);
  published.mutable_optimizer()->set_learning_rate(0.05);
  published.set_rounds_after_end(7);
  published.set_first_batch_rows(2);
  training = command;
  training.set_model(Training::NETWORK);
  SetDefaultsAsBegun(published, training);
  SetDefaults(training);
  EXPECT_EQ(training.SerializeAsString(), published.SerializeAsString());
}

TEST(SetDefaults, WhatIsGivenStandsThoughTheJobHasBegunWithSomethingElse) {
  Training training;
  training.mutable_update()->set_kind(Training::Update::WEIGHT_CHANGE);
  training.mutable_optimizer()->set_learning_rate(0.4);
  training.set_rounds_after_end(3);
  training.set_first_batch_rows(2);
  const Training given = training;
  Training published;
  published.mutable_update()->set_kind(Training::Update::GRADIENT);
  published.mutable_optimizer()->set_learning_rate(0.05);
  published.set_rounds_after_end(7);
  SetDefaultsAsBegun(published, training);
  EXPECT_EQ(training.SerializeAsString(), given.SerializeAsString());
}

// The buckets of categorical columns and of a column of text, of a job with text.
std::pair<uint32_t, uint32_t> DefaultBuckets(const Training* training, FeatureSpec spec = {}) {
  if (spec.text().empty()) spec.add_text("t");
  if (spec.classes().empty() && !spec.regression()) {
    for (const char* name : {"no", "yes"}) spec.add_classes(name);
  }
  SetDefaultBuckets(training, spec);
  return {spec.categorical_buckets(), spec.text_buckets()};
}

constexpr std::pair<uint32_t, uint32_t> kMany = {262'144, 262'144};
constexpr std::pair<uint32_t, uint32_t> kFew = {4096, 1024};

TEST(SetDefaultBuckets, AreManyWhereOnlyTheFeaturesOfABatchTravel) {
  EXPECT_EQ(DefaultBuckets(nullptr), kMany);
  Training training;
  EXPECT_EQ(DefaultBuckets(&training), kMany);
  training.mutable_update()->set_kind(Training::Update::GRADIENT);
  EXPECT_EQ(DefaultBuckets(&training), kMany);
  FeatureSpec regression;
  regression.set_regression(true);
  EXPECT_EQ(DefaultBuckets(&training, regression), kFew) << "has no rows";
  training.mutable_update()->set_kind(Training::Update::ONLINE);
  EXPECT_EQ(DefaultBuckets(&training, regression), kMany);
}

TEST(SetDefaultBuckets, AreFewerWhereAFeatureHasManyWeights) {
  const auto of_classes = [](int classes) {
    FeatureSpec spec;
    for (int k = 0; k < classes; ++k) spec.add_classes(std::to_string(k));
    return DefaultBuckets(nullptr, spec);
  };
  using Pair = std::pair<uint32_t, uint32_t>;
  EXPECT_EQ(of_classes(8), kMany);
  EXPECT_EQ(of_classes(9), Pair(131'072, 131'072));
  EXPECT_EQ(of_classes(128), Pair(16'384, 16'384));
  EXPECT_EQ(of_classes(1000), Pair(4096, 2048));
  EXPECT_EQ(of_classes(100'000), kFew);
  Training network;
  network.set_model(Training::NETWORK);
  EXPECT_EQ(DefaultBuckets(&network), Pair(131'072, 131'072)) << "66 floats";
  network.add_hidden(30);
  EXPECT_EQ(DefaultBuckets(&network), kMany);
  FeatureSpec columns;
  for (int i = 0; i < 8; ++i) columns.add_text(std::to_string(i));
  EXPECT_EQ(DefaultBuckets(nullptr, columns), kMany) << "8 floats";
  columns.add_bins("n");
  EXPECT_EQ(DefaultBuckets(nullptr, columns), Pair(131'072, 131'072)) << "categories are one more";
}

TEST(SetDefaultBuckets, AreFewWhereAllWeightsTravel) {
  const std::vector<std::function<void(Training&)>> changes = {
      [](Training& t) {
        t.set_schedule(Training::BUFFER);
        t.mutable_update()->set_kind(Training::Update::GRADIENT);
      },
      [](Training& t) { t.set_model(Training::FACTORIZATION_MACHINE); },
      [](Training& t) { t.set_model(Training::DEEP_FM); },
      [](Training& t) { t.mutable_update()->set_kind(Training::Update::WEIGHT_CHANGE); },
      [](Training& t) { t.set_l2(10); },
      [](Training& t) { t.set_wide_above(uint64_t{1} << 40); },
      [](Training& t) { t.set_distribution_strategy(Training::ALL_REDUCE); },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    Training training;
    changes[i](training);
    EXPECT_EQ(DefaultBuckets(&training), kFew) << i;
  }
}

TEST(SetDefaultBuckets, OfTextOnABufferAreAsManyAsAnAnswerCanCarry) {
  Training training;
  training.set_schedule(Training::BUFFER);
  const auto of_classes = [&training](int classes, int columns) {
    FeatureSpec spec;
    spec.set_regression(classes == 0);
    for (int k = 0; k < classes; ++k) spec.add_classes(std::to_string(k));
    for (int i = 0; i < columns; ++i) spec.add_text(std::to_string(i));
    return DefaultBuckets(&training, spec);
  };
  using Pair = std::pair<uint32_t, uint32_t>;
  EXPECT_EQ(of_classes(5, 1), Pair(4096, 16'384)) << "40 floats each";
  EXPECT_EQ(of_classes(6, 1), Pair(4096, 16'384));
  EXPECT_EQ(of_classes(7, 1), Pair(4096, 8192));
  EXPECT_EQ(of_classes(5, 2), Pair(4096, 8192));
  EXPECT_EQ(of_classes(2, 1), Pair(4096, 65'536)) << "8 floats each";
  EXPECT_EQ(of_classes(0, 1), Pair(4096, 65'536));
  EXPECT_EQ(of_classes(1000, 1), kFew);
}

TEST(SetDefaultBuckets, WithIdsThereMayBeFactorsUnlessTheTrainingIsKnown) {
  FeatureSpec spec;
  spec.add_ids("user");
  EXPECT_EQ(DefaultBuckets(nullptr, spec), kFew);
  const Training training;
  EXPECT_EQ(DefaultBuckets(&training, spec), kMany);
}

TEST(SetDefaultBuckets, LeavesWhatTheUserHasSaid) {
  FeatureSpec spec;
  spec.set_text_buckets(9);
  EXPECT_EQ(DefaultBuckets(nullptr, spec), (std::pair<uint32_t, uint32_t>(262'144, 9)));
  spec.set_categorical_buckets(8);
  EXPECT_EQ(DefaultBuckets(nullptr, spec), (std::pair<uint32_t, uint32_t>(8, 9)));
}

}  // namespace
}  // namespace millrace
