#include "apps/flag_needs.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string ErrorOf(const std::string& field, const std::string& config_text) {
  JobConfig config;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(config_text, &config)) << config_text;
  const Status status = CheckFlagNeeds({"name", field}, config);
  EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status));
  return std::string(status.message());
}

TEST(FlagNeeds, NamesTheFlagAndWhatItNeeds) {
  EXPECT_EQ(ErrorOf("producer.speedup", ""),
            "--speedup has no effect without --time-column: give that, too, or leave out "
            "--speedup");
}

TEST(FlagNeeds, IsContentWhenTheNeedIsMet) {
  struct Case {
    const char* field;
    const char* flag;
    const char* met;
    const char* not_met;
  };
  for (const Case& each : std::initializer_list<Case>{
           {"features.missing", "--missing", "features { numeric: 'a' }", ""},
           {"features.missing", "--missing", "features { bins: 'a' }", ""},
           {"features.missing_tokens", "--missing-tokens", "features { bins: 'a' }", ""},
           {"features.missing_tokens", "--missing-tokens", "features { numeric: 'a' }",
            "features { numeric: 'a' missing: REJECT }"},
           {"features.categorical_buckets", "--categorical-buckets",
            "features { categorical: 'a' }", "features { text: 'a' }"},
           {"features.categorical_buckets", "--categorical-buckets", "features { bins: 'a' }",
            "features { ids: 'a' }"},
           {"features.text_buckets", "--text-buckets", "features { text: 'a' }",
            "features { categorical: 'a' }"},
           {"producer.speedup", "--speedup", "producer { time_column: 't' }",
            "producer { rate: 1 }"},
           {"training.batch_rows", "--batch-rows", "", "training { schedule: BUFFER l2: 1 }"},
           {"training.batch_rows", "--batch-rows", "training { schedule: BUFFER }",
            "training { schedule: BUFFER update { kind: GRADIENT } }"},
           {"training.buffer.skip_rows", "--skip-rows", "training { schedule: BUFFER }", ""},
           {"training.rounds_after_end", "--rounds-after-end", "training { schedule: BUFFER }", ""},
           {"training.buffer.min_rows", "--buffer-min", "training { schedule: BUFFER }", ""},
           {"training.buffer.max_rows", "--buffer-max", "training { schedule: BUFFER }", ""},
           {"training.buffer.coefficient", "--buffer-coefficient", "training { schedule: BUFFER }",
            ""},
           {"training.buffer.minibatch_rows", "--minibatch-rows", "training { schedule: BUFFER }",
            ""},
           {"training.update.solver", "--solver", "training { update { kind: WEIGHT_CHANGE } }",
            ""},
           {"training.update.solver", "--solver", "training { update { kind: WEIGHT_CHANGE } }",
            "training { update { kind: ONLINE } }"},
           {"training.update.local_iterations", "--local-iterations",
            "training { update { kind: WEIGHT_CHANGE } }", ""},
           {"training.update.local_learning_rate", "--local-learning-rate",
            "training { update { kind: WEIGHT_CHANGE solver: LOCAL_SGD } }",
            "training { update { kind: ONLINE solver: LOCAL_SGD } }"},
           {"training.update.local_learning_rate", "--local-learning-rate",
            "training { update { kind: WEIGHT_CHANGE solver: LOCAL_SGD } }",
            "training { update { kind: WEIGHT_CHANGE } }"},
           {"training.optimizer.kind", "--optimizer", "",
            "training { update { kind: WEIGHT_CHANGE } }"},
           {"training.optimizer.learning_rate", "--learning-rate", "",
            "training { update { kind: WEIGHT_CHANGE } }"},
           {"training.optimizer.decay", "--decay", "",
            "training { update { kind: WEIGHT_CHANGE } }"},
           {"training.optimizer.ftrl_beta", "--ftrl-beta", "training { optimizer { kind: FTRL } }",
            ""},
           {"training.wide_above", "--wide-above", "", "training { model: DEEP_FM }"},
           {"training.embedding.factors", "--factors", "training { model: DEEP_FM }", ""},
           {"training.embedding.initial_limit", "--embedding-init",
            "training { model: FACTORIZATION_MACHINE }", ""},
           {"training.huber_limit", "--huber-limit", "training { loss: HUBER }",
            "training { loss: ABSOLUTE }"},
           {"training.wide_above", "--wide-above", "training { model: NETWORK }",
            "training { model: FACTORIZATION_MACHINE }"},
           {"training.embedding.seed", "--embedding-seed", "training { model: NETWORK }", ""},
           {"training.embedding.l2", "--embedding-l2", "training { model: DEEP_FM }",
            "training { model: NETWORK }"},
           {"training.embedding.seed", "--embedding-seed", "training { model: DEEP_FM }", ""},
           {"training.embedding.l2", "--embedding-l2", "training { model: DEEP_FM }", ""},
           {"server.evaluation_interval_s", "--evaluation-interval", "server { test_file: 'a' }",
            ""},
           {"server.evaluation_every", "--evaluation-every", "server { test_file: 'a' }", ""},
           {"training.snapshot_every", "--snapshot-every", "server { snapshot_dir: 'a' }", ""},
           {"server.snapshots_kept", "--snapshots-kept", "server { snapshot_dir: 'a' }", ""}}) {
    EXPECT_THAT(ErrorOf(each.field, each.met), IsEmpty()) << each.flag;
    EXPECT_THAT(ErrorOf(each.field, each.not_met),
                AllOf(HasSubstr(std::string(each.flag) + " has no effect without --"),
                      HasSubstr("or leave out")));
  }
}

TEST(FlagNeeds, SaysNothingOfWhatOnlyTheFileHas) {
  JobConfig config;
  config.mutable_producer()->set_speedup(2);
  EXPECT_TRUE(CheckFlagNeeds({}, config).ok());
}

}  // namespace
}  // namespace millrace
