#include "producer/schema_references.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A record of this name with a field of each of these types, which refers to version 1 of subjects
// that are called like them.
std::string RecordOf(const std::string& name, const std::vector<std::string>& types) {
  std::string fields;
  std::string references;
  for (const std::string& type : types) {
    const std::string comma = fields.empty() ? "" : ",";
    fields += comma + R"({\"name\": \"f)" + type + R"(\", \"type\": \")" + type + R"(\"})";
    references +=
        comma + R"({"name": ")" + type + R"(", "subject": ")" + type + R"(", "version": 1})";
  }
  return R"({"schema": "{\"type\": \"record\", \"name\": \")" + name + R"(\", \"fields\": [)" +
         fields + R"(]}", "references": [)" + references + "]}";
}

std::string Fixed(const std::string& name) {
  return R"({"schema": "{\"type\": \"fixed\", \"name\": \")" + name + R"(\", \"size\": 3}"})";
}

class ResolveSchemaTest : public testing::Test {
 protected:
  StatusOr<AvroSchema> Resolve(const std::string& answer) {
    asked_.clear();
    return ResolveSchema(answer, [this](const SchemaReference& reference) -> StatusOr<std::string> {
      EXPECT_EQ(reference.version, 1);
      asked_.push_back(reference.subject);
      if (!error_.ok()) return error_;
      const auto found = answers_.find(reference.subject);
      if (found == answers_.end()) return absl::NotFoundError("the registry has none");
      return found->second;
    });
  }
  std::string WhyNot(const std::string& answer) {
    const Status status = Resolve(answer).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  }
  // A refers to A1, that to A2 and so on, `schemas` of them.
  void MakeChain(size_t schemas) {
    for (size_t i = 1; i < schemas; ++i) {
      answers_["A" + std::to_string(i)] =
          RecordOf("A" + std::to_string(i), {"A" + std::to_string(i + 1)});
    }
    answers_["A" + std::to_string(schemas)] = Fixed("A" + std::to_string(schemas));
  }

  std::map<std::string, std::string> answers_;  // to questions for version 1 of subjects
  Status error_;
  std::vector<std::string> asked_;
};

TEST_F(ResolveSchemaTest, AsksForEachSchemaOnceAndPutsItBeforeThoseThatUseIt) {
  answers_ = {{"B", RecordOf("B", {"D", "C"})}, {"C", RecordOf("C", {"D"})}, {"D", Fixed("D")}};
  const auto schema = Resolve(RecordOf("A", {"B", "D", "C"}));
  ASSERT_TRUE(schema.ok()) << schema.status();
  EXPECT_THAT(asked_, ElementsAre("B", "D", "C"));
  EXPECT_THAT(schema->root().names, ElementsAre("fB", "fD", "fC"));
  const AvroSchema::Type& b = schema->type(schema->root().types[0]);
  const AvroSchema::Type& c = schema->type(b.types[1]);
  EXPECT_THAT(c.names, ElementsAre("fD"));
  EXPECT_EQ(schema->type(c.types[0]).size, 3u);
}

TEST_F(ResolveSchemaTest, WithoutReferencesAsksForNothing) {
  ASSERT_TRUE(Resolve(RecordOf("A", {})).ok());
  EXPECT_THAT(asked_, ElementsAre());
}

TEST_F(ResolveSchemaTest, RefusesSchemasThatReferToThemselves) {
  answers_ = {{"B", RecordOf("B", {"C"})}, {"C", RecordOf("C", {"B"})}};
  EXPECT_THAT(WhyNot(RecordOf("A", {"B"})),
              HasSubstr("version 1 of the subject 'B', which refers to itself"));
  EXPECT_THAT(asked_, ElementsAre("B", "C"));
}

TEST_F(ResolveSchemaTest, IsBoundedInDepthAndNumber) {
  MakeChain(kMostReferenceDepth);
  const auto deepest = Resolve(RecordOf("A", {"A1"}));
  EXPECT_TRUE(deepest.ok()) << deepest.status();
  MakeChain(kMostReferenceDepth + 1);
  EXPECT_THAT(WhyNot(RecordOf("A", {"A1"})), HasSubstr("30 times behind one another"));
  EXPECT_EQ(asked_.size(), kMostReferenceDepth);

  std::vector<std::string> many;
  for (size_t i = 0; i < kMostReferredSchemas; ++i) {
    many.push_back("F" + std::to_string(i));
    answers_[many.back()] = Fixed(many.back());
  }
  const auto widest = Resolve(RecordOf("A", many));
  EXPECT_TRUE(widest.ok()) << widest.status();
  many.emplace_back("G");
  EXPECT_THAT(WhyNot(RecordOf("A", many)), HasSubstr("it refers to more than 200 schemas"));
  EXPECT_EQ(asked_.size(), kMostReferredSchemas);
}

TEST_F(ResolveSchemaTest, IsBoundedInBytes) {
  std::vector<std::string> many;
  const std::string spaces(kMostSchemaBytes - 100, ' ');
  for (const char* const name : {"B", "C", "D", "E", "F"}) {
    many.emplace_back(name);
    std::string answer = Fixed(name);
    answers_[name] = answer.insert(answer.size() - 2, spaces);
  }
  const std::vector<std::string> four(many.begin(), many.end() - 1);
  const auto largest = Resolve(RecordOf("A", four));
  EXPECT_TRUE(largest.ok()) << largest.status();
  EXPECT_THAT(WhyNot(RecordOf("A", many)), HasSubstr("schemas of more than 4194304 bytes"));
}

TEST_F(ResolveSchemaTest, SaysWhichReferenceCannotBeUsed) {
  answers_ = {
      {"B", R"({"schema": "{}", "schemaType": "JSON"})"}, {"C", Fixed("A")}, {"D", "<html>"}};
  EXPECT_THAT(
      WhyNot(RecordOf("A", {"B"})),
      HasSubstr("of version 1 of the subject 'B', which it refers to: it is of the type JSON"));
  EXPECT_THAT(WhyNot(RecordOf("A", {"C"})), HasSubstr("the type 'A' is defined twice"));
  const Status foreign = Resolve(RecordOf("A", {"D"})).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(foreign)) << foreign;
  const Status none = Resolve(RecordOf("A", {"none"})).status();
  EXPECT_TRUE(absl::IsNotFound(none)) << none;
  EXPECT_THAT(std::string(none.message()), HasSubstr("version 1 of the subject 'none', which the"));
  error_ = absl::UnavailableError("away");
  EXPECT_EQ(Resolve(RecordOf("A", {"B"})).status(), error_);
}

}  // namespace
}  // namespace millrace
