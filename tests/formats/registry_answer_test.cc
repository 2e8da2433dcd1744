#include "formats/registry_answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kSchema[] =
    R"("{\"type\": \"record\", \"name\": \"R\", \"fields\": [{\"name\": \"a\", \"type\": \"int\"}]}")";

std::string Answer(const std::string& more) { return R"({"schema": )" + (kSchema + more) + "}"; }

std::string WhyNot(const std::string& body) {
  const auto schema = ParseRegistryAnswer(body);
  EXPECT_TRUE(absl::IsInvalidArgument(schema.status())) << body;
  return std::string(schema.status().message());
}

TEST(RegistryAnswer, HasASchema) {
  for (const char* const more : {"", R"(, "schemaType": "AVRO", "references": [], "maxId": 7)",
                                 R"(, "schemaType": null, "references": null)"}) {
    const auto schema = ParseRegistryAnswer(Answer(more));
    ASSERT_TRUE(schema.ok()) << schema.status();
    EXPECT_THAT(schema->json, HasSubstr(R"("name": "a")"));
    EXPECT_THAT(schema->references, IsEmpty());
  }
}

TEST(RegistryAnswer, HasTheSchemasThatItRefersTo) {
  const auto schema = ParseRegistryAnswer(Answer(R"(, "references": [
      {"name": "x.Y", "subject": "s/1", "version": 1},
      {"name": "Z", "subject": "t", "version": 2147483647}])"));
  ASSERT_TRUE(schema.ok()) << schema.status();
  EXPECT_THAT(schema->references,
              ElementsAre(SchemaReference{"s/1", 1}, SchemaReference{"t", 2147483647}));
}

TEST(RegistryAnswer, WithoutAUsableSchemaIsRefusedWithAReason) {
  EXPECT_THAT(WhyNot(Answer(R"(, "schemaType": "PROTOBUF")")),
              HasSubstr("of the type PROTOBUF, not AVRO"));
  EXPECT_THAT(WhyNot(Answer(R"(, "references": [{"subject": "s", "version": -1}])")),
              HasSubstr("the version -1 of a subject; versions begin at 1"));
  EXPECT_THAT(WhyNot(Answer(R"(, "references": [{"subject": "s", "version": 2147483648}])")),
              HasSubstr("the version 2147483648 of a subject"));
  const std::string long_name(kMostSubjectBytes + 1, 's');
  EXPECT_THAT(
      WhyNot(Answer(R"(, "references": [{"version": 1, "subject": ")" + long_name + R"("}])")),
      HasSubstr("to a subject of more than 1000 bytes"));
  std::string many = R"({"subject": "s", "version": 1})";
  for (size_t i = 0; i < kMostReferences; ++i) many += R"(,{"subject": "s", "version": 1})";
  EXPECT_THAT(WhyNot(Answer(R"(, "references": [)" + many + "]")),
              HasSubstr("it refers to more than 1000 schemas"));
}

TEST(RegistryAnswer, OfSomebodyElseSaysNothingOfTheSchema) {
  for (const char* const body :
       {"", "<html>", "[]", "7", R"({"schema": {}})", R"({"schema": null})", R"({"schema": "\"int)",
        R"({"id": 7})", R"({"schema": "{}", "references": [7]})",
        R"({"schema": "{}", "references": [{"subject": "s"}]})",
        R"({"schema": "{}", "references": [{"version": 1}]})"}) {
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
