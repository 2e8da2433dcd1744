#include "producer/schema_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "base/error_marks.h"

namespace millrace {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Answer(const std::string& type, const std::string& more = "") {
  return R"({"schema": "{\"type\": \"record\", \"name\": \"R\", \"fields\": [)"
         R"({\"name\": \"a\", \"type\": \")" +
         type + R"(\"}]}")" + more + "}";
}

// What Get() returns once the registry has answered.
StatusOr<SchemaCache::Schema> Answered(SchemaCache& cache, uint32_t id) {
  auto schema = cache.Get(id);
  while (IsPending(schema.status())) {
    std::this_thread::sleep_for(std::chrono::microseconds(20));  // (Two threads share a core.)
    schema = cache.Get(id);
  }
  return schema;
}

// What the cache asks in its thread, it asks while Get() is called.
class SchemaCacheTest : public testing::Test {
 protected:
  StatusOr<SchemaCache::Schema> Get(uint32_t id) { return Answered(cache_, id); }
  std::string WhyNot(uint32_t id) { return std::string(Get(id).status().message()); }

  StatusOr<std::string> answer_ = Answer("int");
  StatusOr<std::string> answer_to_reference_ = absl::NotFoundError("http://registry has none");
  std::vector<uint32_t> asked_;
  std::vector<SchemaReference> referred_;
  std::vector<std::string> said_;
  SchemaCache::Time now_;
  SchemaCache cache_{[this](uint32_t id) {
                       asked_.push_back(id);
                       return answer_;
                     },
                     [this](const SchemaReference& reference) {
                       referred_.push_back(reference);
                       return answer_to_reference_;
                     },
                     [this](const std::string& line) { said_.push_back(line); },
                     [this] { return now_; }};
};

TEST_F(SchemaCacheTest, AsksForEachSchemaOnce) {
  const auto first = Get(7);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_THAT((*first)->root().names, ElementsAre("a"));
  now_ += std::chrono::hours(1);
  EXPECT_EQ(*Get(7), *first);
  ASSERT_TRUE(Get(8).ok());
  EXPECT_THAT(asked_, ElementsAre(7, 8));
  EXPECT_THAT(said_, ElementsAre());
}

TEST_F(SchemaCacheTest, KeepsNothingOfARegistryThatIsAway) {
  answer_ = absl::UnavailableError("the registry is away");
  EXPECT_TRUE(absl::IsUnavailable(Get(7).status()));
  answer_ = absl::PermissionDeniedError("who are you?");
  EXPECT_TRUE(absl::IsPermissionDenied(Get(7).status()));
  answer_ = Answer("int");
  EXPECT_TRUE(Get(7).ok());
  EXPECT_THAT(asked_, ElementsAre(7, 7, 7));
  EXPECT_THAT(said_, ElementsAre());
}

TEST_F(SchemaCacheTest, BelievesForAWhileThatThereIsNoSuchSchema) {
  answer_ = absl::NotFoundError("http://registry has no such schema");
  EXPECT_EQ(WhyNot(7), "schema 7: the schema registry has no such schema");
  EXPECT_TRUE(absl::IsInvalidArgument(Get(7).status()));
  answer_ = Answer("int");
  now_ += SchemaCache::kUnknownFor - milliseconds(1);
  EXPECT_FALSE(Get(7).ok());
  EXPECT_THAT(asked_, ElementsAre(7));
  now_ += milliseconds(1);
  EXPECT_TRUE(Get(7).ok());
}

TEST_F(SchemaCacheTest, KeepsNothingOfAnAnswerThatIsNoneOfARegistry) {
  answer_ = "<html>Please log in</html>";
  const Status status = Get(7).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("schema 7: the schema registry's answer is no JSON"));
  answer_ = Answer("int");
  EXPECT_TRUE(Get(7).ok());
  EXPECT_THAT(said_, ElementsAre());
}

TEST_F(SchemaCacheTest, AsksForTheSchemasThatASchemaRefersTo) {
  answer_ = Answer("int", R"(, "references": [{"name": "E", "subject": "e", "version": 3}])");
  // Not now: nothing is kept, and nobody is told.
  answer_to_reference_ = absl::UnavailableError("the registry is away");
  EXPECT_EQ(Get(7).status(), absl::UnavailableError("the registry is away"));
  EXPECT_THAT(said_, ElementsAre());
  // Not there: it may come.
  answer_to_reference_ = absl::NotFoundError("http://registry has no such schema");
  EXPECT_EQ(WhyNot(7),
            "schema 7: it refers to version 3 of the subject 'e', which the schema registry does "
            "not have");
  EXPECT_TRUE(absl::IsInvalidArgument(Get(7).status()));
  EXPECT_EQ(said_.size(), 1u);
  answer_to_reference_ = R"({"schema": "{\"type\": \"fixed\", \"name\": \"E\", \"size\": 2}"})";
  EXPECT_FALSE(Get(7).ok());
  now_ += SchemaCache::kUnknownFor;
  EXPECT_TRUE(Get(7).ok());
  EXPECT_TRUE(Get(7).ok());
  EXPECT_THAT(referred_, ElementsAre(SchemaReference{"e", 3}, SchemaReference{"e", 3},
                                     SchemaReference{"e", 3}));
}

TEST_F(SchemaCacheTest, KeepsNobodyWaiting) {
  std::promise<StatusOr<std::string>> answer;
  std::atomic<int> asked = 0;
  SchemaCache cache(
      [&](uint32_t) { return asked++ == 0 ? answer.get_future().get() : Answer("int"); }, nullptr,
      [](const std::string&) {});
  // It would return only with the registry's answer, which comes later.
  for (const uint32_t id : {7, 7, 8}) {
    const Status status = cache.Get(id).status();
    EXPECT_TRUE(absl::IsUnavailable(status) && IsPending(status)) << status;
  }
  answer.set_value(absl::UnavailableError("the registry is away"));
  const Status away = Answered(cache, 7).status();
  EXPECT_EQ(away, absl::UnavailableError("the registry is away"));
  EXPECT_TRUE(Answered(cache, 7).ok());
  EXPECT_TRUE(cache.Get(7).ok());
  EXPECT_TRUE(Answered(cache, 8).ok());
  EXPECT_EQ(asked, 3);
}

TEST_F(SchemaCacheTest, RefusesIdsThatNoRegistryHasWithoutAsking) {
  answer_ = absl::FailedPreconditionError("404 without a code, as registries say of such an id");
  for (const uint32_t id : {uint32_t{1} << 31, 0x80FFFFFF, 0xFFFFFFFF}) {
    EXPECT_THAT(WhyNot(id), HasSubstr("no registry has ids above 2147483647"));
    EXPECT_TRUE(absl::IsInvalidArgument(Get(id).status()));
  }
  EXPECT_THAT(asked_, ElementsAre());
  EXPECT_THAT(said_, ElementsAre());
  answer_ = Answer("int");
  EXPECT_TRUE(Get(0x7FFFFFFF).ok());
  EXPECT_THAT(asked_, ElementsAre(0x7FFFFFFF));
}

TEST_F(SchemaCacheTest, SaysOnceThatASchemaCannotBeUsed) {
  answer_ = Answer("other.Type");
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(WhyNot(7), HasSubstr("schema 7: no usable Avro schema: the type 'other.Type'"));
    EXPECT_TRUE(absl::IsInvalidArgument(Get(7).status()));
  }
  EXPECT_THAT(asked_, ElementsAre(7));
  EXPECT_THAT(said_, ElementsAre(WhyNot(7)));
  for (uint32_t id = 100; id < 200; ++id) EXPECT_FALSE(Get(id).ok());
  EXPECT_EQ(said_.size(), size_t{SchemaCache::kMostLines});
}

TEST_F(SchemaCacheTest, KeepsNoMoreThanItsLimit) {
  for (uint32_t id = 0; id <= SchemaCache::kMost; ++id) EXPECT_TRUE(Get(id).ok());
  asked_.clear();
  EXPECT_TRUE(Get(0).ok());
  EXPECT_TRUE(Get(SchemaCache::kMost).ok());
  EXPECT_THAT(asked_, ElementsAre(0));
}

}  // namespace
}  // namespace millrace
