#include "apps/flag_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_split.h"
#include "apps/flag_field.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

TEST(FlagTable, EveryFlagHasAFieldAndNoTwoOfAProgramHaveTheSameNameOrField) {
  std::set<std::string> server_names;
  // Of CsvProducer, of WorkerApp, and of the others.
  std::set<std::tuple<bool, bool, std::string>> fields;
  for (const FlagGroup& group : FlagGroups()) {
    for (const Flag& flag : group.flags) {
      const FlagField field(flag.field);  // which checks the path
      EXPECT_FALSE(field.type_name().empty()) << flag.name;
      const bool is_producers =
          group.user == FlagUser::kFeatures || group.user == FlagUser::kProducer;
      const bool is_workers = group.user == FlagUser::kWorker;
      EXPECT_TRUE(fields.insert({is_producers, is_workers, flag.field}).second) << flag.field;
      if (group.user == FlagUser::kWorker || group.user == FlagUser::kProducer) continue;
      for (const auto& name : std::vector<std::string>(absl::StrSplit(flag.name, ','))) {
        EXPECT_TRUE(server_names.insert(name).second) << name;
      }
    }
  }
}

TEST(FlagTable, KnowsWhichProgramTakesAFlag) {
  EXPECT_EQ(ProgramWithFlag("--batch-rows"), "ServerApp");
  EXPECT_EQ(ProgramWithFlag("--max_vector_clock_delay"), "ServerApp");
  EXPECT_EQ(ProgramWithFlag("--input"), "CsvProducer");
  EXPECT_EQ(ProgramWithFlag("--session-timeout"), "WorkerApp");
  EXPECT_EQ(ProgramWithFlag("--no-such-flag"), "");
}

TEST(FlagTable, KnowsTheFlagOfAField) {
  EXPECT_EQ(FlagOfField("training.l2"), "--l2");
  EXPECT_EQ(FlagOfField("producer.input"), "--input") << "the first of its names";
  EXPECT_EQ(FlagOfField("training.optimizer.beta1"), "") << "it has none";
}

TEST(FlagField, TakesItsTypeAndDefaultFromTheDescriptor) {
  EXPECT_EQ(FlagField("training.optimizer.learning_rate").type_name(), "FLOAT");
  EXPECT_EQ(FlagField("training.optimizer.learning_rate").default_text(), "0.3");
  EXPECT_EQ(FlagField("workers").default_text(), "4");
  EXPECT_EQ(FlagField("producer.max_rejects").default_text(), "-1");
  EXPECT_EQ(FlagField("brokers").default_text(), "localhost:9092");
  EXPECT_EQ(FlagField("server.test_file").default_text(), std::nullopt);
  EXPECT_EQ(FlagField("training.schedule").type_name(), "one-pass|buffer");
  EXPECT_EQ(FlagField("training.schedule").default_text(), "one-pass");
  EXPECT_EQ(FlagField("training.model").type_name(), "softmax|fm|deepfm|network|external");
  EXPECT_EQ(FlagField("training.update.solver").type_name(), "lbfgs|sgd");
  EXPECT_EQ(FlagField("training.compression.values").default_text(), "none");
  EXPECT_TRUE(FlagField("server.stay").is_switch());
}

TEST(FlagField, RefusesWhatIsNoValueOfItsTypeAndSaysWhatIs) {
  JobConfig config;
  const auto error = [&](const char* field, const char* text) {
    return std::string(FlagField(field).Set(text, config).message());
  };
  EXPECT_EQ(error("workers", "many"), "'many' is not a whole number of 0 to 4294967295");
  EXPECT_EQ(error("workers", "-1"), "'-1' is not a whole number of 0 to 4294967295");
  EXPECT_EQ(error("workers", "4294967296"),
            "'4294967296' is not a whole number of 0 to 4294967295");
  EXPECT_EQ(error("producer.rate", "1.2.3"), "'1.2.3' is not a number");
  EXPECT_EQ(error("training.optimizer.kind", "adagard"),
            "'adagard' is not one of sgd, momentum, adagrad, adam, ftrl; did you mean adagrad?");
  EXPECT_THAT(error("server.server_ids", ""), HasSubstr("empty element"));
  EXPECT_THAT(error("server.server_ids", "0,,2"), HasSubstr("empty element"));
  EXPECT_THAT(error("server.server_ids", "0,x"), HasSubstr("'x' is not a whole number"));
}

TEST(FlagField, TellsAValueThatIsNotTheDefaultAsItIsGiven) {
  struct Case {
    const char* field;
    const char* text;
  };
  for (const Case& one : {Case{"workers", "7"}, Case{"producer.max_rejects", "-2"},
                          Case{"training.optimizer.learning_rate", "0.1"},
                          Case{"training.optimizer.learning_rate", "0.30000000000000004"},
                          Case{"training.model", "fm"}, Case{"features.missing", "mean-only"},
                          Case{"training.freeze_after_rows", "18446744073709551615"},
                          Case{"server.server_ids", "0,2"}, Case{"features.label", "late"},
                          Case{"features.numeric", "a,\"b,c\",\"d\"\"\""},
                          Case{"features.categorical", "\"a*b\",c*\"d,e\""}}) {
    JobConfig config;
    EXPECT_EQ(FlagField(one.field).TextOf(config), std::nullopt) << one.field;
    ASSERT_TRUE(FlagField(one.field).Set(one.text, config).ok()) << one.field;
    EXPECT_EQ(FlagField(one.field).TextOf(config), one.text);
  }
  JobConfig config;
  ASSERT_TRUE(FlagField("server.stay").Set("", config).ok());
  EXPECT_EQ(FlagField("server.stay").TextOf(config), "");
  ASSERT_TRUE(FlagField("workers").Set("4", config).ok());
  EXPECT_EQ(FlagField("workers").TextOf(config), std::nullopt) << "the default, written down";
}

TEST(FlagField, AListReplacesWhatTheFieldHad) {
  JobConfig config;
  config.mutable_features()->add_numeric("old");
  ASSERT_TRUE(FlagField("features.numeric").Set("a,b", config).ok());
  EXPECT_THAT(config.features().numeric(), testing::ElementsAre("a", "b"));
  ASSERT_TRUE(FlagField("features.numeric").Set("", config).ok());
  EXPECT_EQ(config.features().numeric_size(), 0);
}

TEST(FlagField, ANameThatHoldsACommaStandsInQuotes) {
  JobConfig config;
  ASSERT_TRUE(FlagField("features.numeric").Set("a,\"b,c\"", config).ok());
  EXPECT_THAT(config.features().numeric(), testing::ElementsAre("a", "b,c"));
  // Where quotes are part of the notation they stay.
  ASSERT_TRUE(FlagField("features.categorical").Set("\"a*b\",c*\"d,e\"", config).ok());
  EXPECT_THAT(config.features().categorical(), testing::ElementsAre("\"a*b\"", "c*\"d,e\""));
  EXPECT_THAT(std::string(FlagField("features.ids").Set("a,\"b", config).message()),
              HasSubstr("quote that is not closed"));
}

}  // namespace
}  // namespace millrace
