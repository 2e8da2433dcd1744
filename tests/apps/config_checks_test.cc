#include "apps/config_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "apps/all_reduce_checks.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

JobFeatures GoodFeatures() {
  JobFeatures features;
  features.set_workers(4);
  features.set_feature_count(3);
  features.mutable_spec()->add_classes("no");
  features.mutable_spec()->add_classes("yes");
  features.mutable_spec()->add_numeric("age");
  return features;
}

JobTraining GoodTraining() {
  JobTraining training;
  training.set_shards(2);
  *training.mutable_training() = Training();
  return training;
}

// protobuf would publish them nevertheless, and no reader would get them.
TEST(ValidateConfig, RefusesNamesThatAreNotUtf8WithTheFieldTheNameAndTheRemedy) {
  const std::string latin1 = "caf\xE9";
  const std::vector<std::pair<std::string, std::function<void(JobConfig&)>>> cases = {
      {"label", [&](auto& c) { c.mutable_features()->set_label(latin1); }},
      {"text", [&](auto& c) { c.mutable_features()->add_text(latin1); }},
      {"classes", [&](auto& c) { c.mutable_features()->add_classes(latin1); }},
      {"numeric", [&](auto& c) { c.mutable_features()->add_numeric(latin1); }},
      {"categorical", [&](auto& c) { c.mutable_features()->add_categorical("a*" + latin1); }},
      {"ids", [&](auto& c) { c.mutable_features()->add_ids(latin1); }},
      {"time_column", [&](auto& c) { c.mutable_producer()->set_time_column(latin1); }},
  };
  for (const auto& [field, change] : cases) {
    JobConfig config;
    change(config);
    const Status status = ValidateConfig(config);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << field;
    const std::string message(status.message());
    EXPECT_TRUE(message.starts_with(field + ": ")) << message;
    EXPECT_THAT(message, HasSubstr("caf\\351"));
    EXPECT_THAT(message, HasSubstr("give the name in UTF-8"));
  }
  JobConfig config;
  config.mutable_features()->set_label("caf\xC3\xA9");
  EXPECT_TRUE(ValidateConfig(config).ok());
}

TEST(ValidateConfig, RefusesWhatAnOnlineLearnerDoesNotKnowAndNamesBothFlags) {
  const std::vector<std::pair<std::string, std::function<void(Training&)>>> cases = {
      {"--model", [](auto& t) { t.set_model(Training::FACTORIZATION_MACHINE); }},
      {"--model", [](auto& t) { t.set_model(Training::DEEP_FM); }},
      {"--model", [](auto& t) { t.set_model(Training::NETWORK); }},
      {"--minibatch-rows",
       [](auto& t) {
         t.set_schedule(Training::BUFFER);
         t.mutable_buffer()->set_minibatch_rows(9);
       }},
      {"--optimizer", [](auto& t) { t.mutable_optimizer()->set_kind(Training::Optimizer::SGD); }},
      {"--optimizer", [](auto& t) { t.mutable_optimizer()->set_learning_rate(0.5); }},
      {"--l2", [](auto& t) { t.set_l2(0.01); }},
      {"--top-k", [](auto& t) { t.mutable_compression()->set_top_k(0.5); }},
      {"--compress",
       [](auto& t) { t.mutable_compression()->set_values(Training::Compression::FP16); }},
  };
  JobConfig by_default;
  EXPECT_TRUE(ValidateConfig(by_default).ok());
  by_default.mutable_training()->mutable_compression()->set_values(Training::Compression::FP16);
  EXPECT_TRUE(absl::IsInvalidArgument(ValidateConfig(by_default)));
  by_default.mutable_training()->mutable_update()->set_kind(Training::Update::GRADIENT);
  EXPECT_TRUE(ValidateConfig(by_default).ok());
  JobConfig good;
  good.mutable_training()->mutable_update()->set_kind(Training::Update::ONLINE);
  good.mutable_training()->mutable_compression()->set_values(Training::Compression::BF16);
  EXPECT_TRUE(ValidateConfig(good).ok()) << ValidateConfig(good);
  good.mutable_training()->add_class_weight("balanced");
  good.mutable_training()->set_l2(0);
  good.mutable_training()->mutable_consistency()->set_model(Training::Consistency::EVENTUAL);
  EXPECT_TRUE(ValidateConfig(good).ok()) << ValidateConfig(good);
  for (const auto& [flag, change] : cases) {
    JobConfig config = good;
    change(*config.mutable_training());
    const Status status = ValidateConfig(config);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << flag;
    const std::string message(status.message());
    EXPECT_THAT(message, HasSubstr("--update"));
    EXPECT_THAT(message, HasSubstr(flag));
  }
}

TEST(ValidateConfig, OnlyWhoLearnsRowByRowCanForgetWhenTheStreamHasChanged) {
  JobConfig config;
  config.mutable_training()->set_on_drift(Training::FORGET);
  EXPECT_TRUE(ValidateConfig(config).ok()) << "by default";
  const auto expect_refused = [](const JobConfig& wrong) {
    const Status status = ValidateConfig(wrong);
    EXPECT_TRUE(absl::IsInvalidArgument(status));
    EXPECT_THAT(std::string(status.message()), HasSubstr("--on-drift"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("--update online"));
  };
  JobConfig by_gradients = config;
  by_gradients.mutable_training()->mutable_update()->set_kind(Training::Update::GRADIENT);
  expect_refused(by_gradients);
  JobConfig network = config;
  network.mutable_training()->set_model(Training::NETWORK);
  expect_refused(network);
  network.mutable_training()->set_on_drift(Training::REPORT);
  EXPECT_TRUE(ValidateConfig(network).ok());
}

TEST(ValidateConfig, RefusesWhatCannotBeTrainedByAllReduceWithTheRemedy) {
  const std::vector<std::pair<std::string, std::function<void(JobConfig&)>>> cases = {
      {"leave out --shards", [](auto& c) { c.set_shards(2); }},
      {"leave out --schedule",
       [](auto& c) { c.mutable_training()->set_schedule(Training::BUFFER); }},
      {"leave out --sharding dynamic",
       [](auto& c) { c.mutable_training()->set_sharding(Training::DYNAMIC); }},
      {"leave out --consistency",
       [](auto& c) {
         c.mutable_training()->mutable_consistency()->set_model(Training::Consistency::EVENTUAL);
       }},
      {"give --model softmax or network",
       [](auto& c) {
         c.mutable_training()->set_model(Training::FACTORIZATION_MACHINE);
         c.mutable_training()->mutable_update()->set_kind(Training::Update::GRADIENT);
       }},
      {"give --update gradient or online",
       [](auto& c) {
         c.mutable_training()->mutable_update()->set_kind(Training::Update::WEIGHT_CHANGE);
       }},
      {"leave out --compress",
       [](auto& c) {
         c.mutable_training()->mutable_compression()->set_values(Training::Compression::BF16);
       }},
      {"leave out --compress and --top-k",
       [](auto& c) { c.mutable_training()->mutable_compression()->set_top_k(0.5); }},
      {"leave out --from-snapshot", [](auto& c) { c.mutable_server()->set_from_snapshot("s"); }},
      {"leave out --weights-from-workers",
       [](auto& c) { c.mutable_server()->set_weights_from_workers(true); }},
      {"leave out --weights-at-checkpoints",
       [](auto& c) {
         c.mutable_server()->set_weights_file("w.npy");
         c.mutable_server()->set_weights_at_checkpoints(true);
       }},
      {"a HOST:PORT is needed", [](auto& c) { c.mutable_worker()->set_master_address("here"); }},
  };
  JobConfig good;
  good.mutable_training()->set_distribution_strategy(Training::ALL_REDUCE);
  EXPECT_EQ(ValidateConfig(good), absl::OkStatus());
  for (const auto& [remedy, change] : cases) {
    JobConfig config = good;
    change(config);
    const Status status = ValidateConfig(config);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << remedy;
    EXPECT_THAT(std::string(status.message()), HasSubstr(remedy));
  }
}

TEST(ValidateConfig, RefusesWhatATrainerOfOnesOwnDoesNotUseOrHave) {
  JobConfig config;
  config.mutable_training()->set_model(Training::EXTERNAL);
  EXPECT_TRUE(ValidateConfig(config).ok());
  const std::vector<std::pair<std::string, std::function<void(Server&)>>> cases = {
      {"--test", [](Server& s) { s.set_test_file("test.csv"); }},
      {"--weights-from-workers", [](Server& s) { s.set_weights_from_workers(true); }},
  };
  for (const auto& [flag, change] : cases) {
    JobConfig changed = config;
    change(*changed.mutable_server());
    const Status status = ValidateConfig(changed);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << flag;
    EXPECT_THAT(std::string(status.message()), HasSubstr(flag));
    EXPECT_THAT(std::string(status.message()), HasSubstr("--model external"));
  }
}

TEST(ValidateConfig, RefusesAHostToListenAtWhereNobodyListens) {
  JobConfig config;
  config.set_name("job");
  config.mutable_worker()->set_listen_host("10.0.0.1");
  const Status status = ValidateConfig(config);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("--listen-host"));
  config.mutable_training()->set_distribution_strategy(Training::ALL_REDUCE);
  EXPECT_EQ(ValidateConfig(config), absl::OkStatus());
}

TEST(CheckAllReduceFeatures, RefusesAModelWithEmbeddingRows) {
  JobFeatures features = GoodFeatures();
  Training training;
  EXPECT_EQ(CheckAllReduceFeatures(features, training), absl::OkStatus());
  features.mutable_spec()->add_categorical("shop");
  features.mutable_spec()->set_categorical_buckets(1'000'000);
  features.set_feature_count(1'000'001);
  const Status status = CheckAllReduceFeatures(features, training);
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("--wide-above"));
}

TEST(ValidateConfig, MoreWorkersMayComeOnlyWhereRowsAreLeasedAndNotFewerThanThereAre) {
  JobConfig config;
  config.set_workers(4);
  config.mutable_training()->set_max_workers(8);
  EXPECT_THAT(std::string(ValidateConfig(config).message()),
              HasSubstr("(--max-workers) has no effect without --sharding dynamic"));
  config.mutable_training()->set_sharding(Training::DYNAMIC);
  EXPECT_TRUE(ValidateConfig(config).ok()) << ValidateConfig(config);
  for (const uint32_t most : {3u, 10'001u}) {
    config.mutable_training()->set_max_workers(most);
    EXPECT_THAT(std::string(ValidateConfig(config).message()),
                HasSubstr("(--max-workers): give 4 (--workers) to 10000"));
  }
}

TEST(ValidateConfig, RefusesWhatLeasesOfRowsDoNotGoTogetherWithAndNamesBothFlags) {
  const std::vector<std::pair<std::string, std::function<void(JobConfig&)>>> cases = {
      {"--schedule", [](auto& c) { c.mutable_training()->set_schedule(Training::BUFFER); }},
      {"--freeze-after", [](auto& c) { c.mutable_training()->set_freeze_after_rows(9); }},
      {"--tail-after", [](auto& c) { c.mutable_training()->set_tail_after_rows(9); }},
      {"--weights-from-workers",
       [](auto& c) { c.mutable_server()->set_weights_from_workers(true); }},
      {"--from-snapshot", [](auto& c) { c.mutable_server()->set_from_snapshot("folder"); }},
  };
  JobConfig good;
  good.mutable_training()->set_sharding(Training::DYNAMIC);
  EXPECT_TRUE(ValidateConfig(good).ok()) << ValidateConfig(good);
  for (const auto& [flag, change] : cases) {
    JobConfig config = good;
    change(config);
    const Status status = ValidateConfig(config);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << flag;
    EXPECT_THAT(std::string(status.message()), HasSubstr("--sharding dynamic"));
    EXPECT_THAT(std::string(status.message()), HasSubstr(flag));
    config.mutable_training()->clear_sharding();
    EXPECT_TRUE(ValidateConfig(config).ok()) << flag << ": " << ValidateConfig(config);
  }
  good.mutable_server()->set_from_snapshot("folder");
  good.mutable_server()->set_new_stream(true);
  EXPECT_TRUE(ValidateConfig(good).ok()) << ValidateConfig(good);
}

TEST(ValidateConfig, RefusesPeriodicSnapshotsAndEvaluationsWithoutServers) {
  JobConfig config;
  config.mutable_training()->set_snapshot_every(5);
  config.mutable_server()->set_evaluation_every(5);
  EXPECT_TRUE(ValidateConfig(config).ok()) << ValidateConfig(config);
  config.mutable_training()->set_distribution_strategy(Training::ALL_REDUCE);
  EXPECT_THAT(std::string(ValidateConfig(config).message()),
              HasSubstr("leave out --snapshot-every"));
  config.mutable_training()->clear_snapshot_every();
  EXPECT_THAT(std::string(ValidateConfig(config).message()),
              HasSubstr("leave out --evaluation-every"));
}

TEST(CheckJob, TakesAJobOfTheDefaults) {
  const Status status = CheckJob(GoodFeatures(), GoodTraining());
  EXPECT_TRUE(status.ok()) << status;
}

TEST(CheckJob, RefusesWhatNoProgramPublishes) {
  struct Case {
    std::string reason;
    std::function<void(JobFeatures&, JobTraining&)> change;
  };
  const std::vector<Case> cases = {
      {"workers (--workers): give 1 to 10000", [](auto& f, auto&) { f.set_workers(0); }},
      {"workers (--workers): give 1 to 10000", [](auto& f, auto&) { f.set_workers(UINT32_MAX); }},
      {"turns of 65537 rows", [](auto& f, auto&) { f.set_most_rows_per_turn(65'537); }},
      {"rows for 99 workers of ", [](auto& f, auto&) { f.set_dealt_workers(99); }},
      {"shards (--shards): give 1 to 1000", [](auto&, auto& t) { t.set_shards(0); }},
      {"0 features, 1 of them numeric", [](auto& f, auto&) { f.set_feature_count(0); }},
      {"features, 1 of them numeric", [](auto& f, auto&) { f.set_feature_count(UINT64_MAX); }},
      {"features in 100 classes",
       [](auto& f, auto&) {
         f.set_feature_count(UINT32_MAX);
         while (f.spec().classes_size() < 100) f.mutable_spec()->add_classes("x");
       }},
      {"two classes or more", [](auto& f, auto&) { f.mutable_spec()->clear_classes(); }},
      {"two classes or more",
       [](auto& f, auto&) { f.mutable_spec()->mutable_classes()->RemoveLast(); }},
      {"id columns", [](auto& f, auto&) { f.mutable_spec()->add_ids("plane"); }},
      {"a regression with 2 classes",
       [](auto& f, auto&) { f.mutable_spec()->set_regression(true); }},
      {"learning_rate",
       [](auto&, auto& t) {
         t.mutable_training()->mutable_optimizer()->set_learning_rate(
             std::numeric_limits<double>::quiet_NaN());
       }},
      // (Of a softmax, too: it may be wide.)
      {"--admit-after",
       [](auto&, auto& t) { t.mutable_training()->mutable_embedding()->set_admit_after(0); }},
      {"batch_rows", [](auto&, auto& t) { t.mutable_training()->set_batch_rows(0); }},
      {"online: it learns from all rows",
       [](auto&, auto& t) {
         t.mutable_training()->mutable_update()->set_kind(Training::Update::ONLINE);
         t.mutable_training()->set_schedule(Training::BUFFER);
         t.mutable_training()->mutable_buffer()->set_minibatch_rows(9);
       }},
      {"bins (--bins) asks for 1 bins", [](auto& f, auto&) { f.mutable_spec()->add_bins("a:1"); }},
      {"bin_edges: has 0 columns, but --bins names 1",
       [](auto& f, auto&) { f.mutable_spec()->add_bins("a"); }},
      {"must be finite and ascending",
       [](auto& f, auto&) {
         f.mutable_spec()->add_bins("a");
         FeatureSpec::BinEdges& edges = *f.mutable_spec()->add_bin_edges();
         edges.set_column("a");
         for (const double edge : {2., 1.}) edges.add_edge(edge);
       }},
      {"numeric: \"caf\\351\" is not valid UTF-8",
       [](auto& f, auto&) { f.mutable_spec()->set_numeric(0, "caf\xE9"); }},
      {"classes: \"\\377\" is not valid UTF-8",
       [](auto& f, auto&) { f.mutable_spec()->set_classes(1, "\xFF"); }},
  };
  for (const Case& bad : cases) {
    JobFeatures features = GoodFeatures();
    JobTraining training = GoodTraining();
    bad.change(features, training);
    const Status status = CheckJob(features, training);
    EXPECT_TRUE(absl::IsDataLoss(status)) << bad.reason;
    EXPECT_THAT(std::string(status.message()), HasSubstr(bad.reason));
    EXPECT_THAT(std::string(status.message()), HasSubstr("the job topic"));
  }
}

TEST(CheckDataDir, FindsOutBeforeAnythingIsMadeWhetherAFolderCanBe) {
  const std::string base = testing::TempDir() + "millrace_data_dir_" + std::to_string(getpid());
  EXPECT_TRUE(CheckDataDir(base + "/a/b").ok());
  EXPECT_TRUE(CheckDataDir("relative/folder").ok());
  EXPECT_TRUE(CheckDataDir("/tmp").ok());
  EXPECT_FALSE(std::filesystem::exists(base));
  const Status status = CheckDataDir("/dev/null/a/b");
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("/dev/null/a/b (--data-dir) cannot be made or written: /dev/null: Not a"));
}

TEST(ValidateConfig, StraightAnswersForOtherMachinesNeedMutualTlsOrToBeAllowed) {
  JobConfig config;
  Answers& answers = *config.mutable_answers();
  answers.set_way(Answers::DIRECT);
  EXPECT_TRUE(ValidateConfig(config).ok()) << "on this machine";
  answers.set_listen("0.0.0.0:0");
  EXPECT_THAT(std::string(ValidateConfig(config).message()), HasSubstr("--answers-insecure"));
  answers.set_insecure(true);
  EXPECT_TRUE(ValidateConfig(config).ok());
  answers.set_insecure(false);
  answers.set_tls_ca("ca.pem");
  EXPECT_THAT(std::string(ValidateConfig(config).message()), HasSubstr("tls_cert"));
  answers.set_tls_cert("cert.pem");
  EXPECT_THAT(std::string(ValidateConfig(config).message()), HasSubstr("belongs together"));
  answers.set_tls_key("key.pem");
  EXPECT_TRUE(ValidateConfig(config).ok());
  answers.set_advertise("nowhere");
  EXPECT_THAT(std::string(ValidateConfig(config).message()), HasSubstr("is not HOST:PORT"));
}

}  // namespace
}  // namespace millrace
