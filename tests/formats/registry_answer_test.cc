#include "formats/registry_answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kSchema[] =
    R"("{\"type\": \"record\", \"name\": \"R\", \"fields\": [{\"name\": \"a\", \"type\": \"int\"}]}")";

std::string Answer(const std::string& more) { return R"({"schema": )" + (kSchema + more) + "}"; }

std::string WhyNot(const std::string& body) {
  const auto schema = ParseRegistryAnswer(body);
  EXPECT_TRUE(absl::IsInvalidArgument(schema.status())) << body;
  return std::string(schema.status().message());
}

TEST(RegistryAnswer, HasASchema) {
  for (const char* const more :
       {"", R"(, "schemaType": "AVRO", "references": [], "maxId": 7)", R"(, "schemaType": null)"}) {
    const auto schema = ParseRegistryAnswer(Answer(more));
    ASSERT_TRUE(schema.ok()) << schema.status();
    EXPECT_THAT(schema->root().names, ElementsAre("a"));
  }
}

TEST(RegistryAnswer, WithoutAUsableSchemaIsRefusedWithAReason) {
  EXPECT_THAT(WhyNot(R"({"schema": "\"int\""})"), HasSubstr("a row is a record"));
  EXPECT_THAT(WhyNot(Answer(R"(, "schemaType": "PROTOBUF")")),
              HasSubstr("of the type PROTOBUF, not AVRO"));
  EXPECT_THAT(WhyNot(Answer(R"(, "references": [{"name": "x", "subject": "s", "version": 1}])")),
              HasSubstr("it refers to other schemas, which are not read"));
}

TEST(RegistryAnswer, OfSomebodyElseSaysNothingOfTheSchema) {
  for (const char* const body : {"", "<html>", "[]", "7", R"({"schema": {}})",
                                 R"({"schema": null})", R"({"schema": "\"int)", R"({"id": 7})"}) {
    const Status status = ParseRegistryAnswer(body).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << body << ": " << status;
    EXPECT_THAT(status.message(), HasSubstr("check --schema-registry"));
  }
}

TEST(RegistryAnswer, OfAnErrorHasItsCode) {
  EXPECT_EQ(RegistryErrorCode(R"({"error_code": 40403, "message": "Schema not found"})"), 40403);
  EXPECT_EQ(RegistryErrorCode(R"({"error_code": "40403"})"), 0);
  EXPECT_EQ(RegistryErrorCode("not found"), 0);
}

}  // namespace
}  // namespace millrace
