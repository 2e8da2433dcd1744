#include "formats/avro_schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Kind = AvroSchema::Kind;
using Logical = AvroSchema::Logical;

// Of a record with one field `f` of this type.
AvroSchema::Type TypeOf(const std::string& type) {
  const auto schema = AvroSchema::Parse(
      R"({"type": "record", "name": "R", "fields": [{"name": "f", "type": )" + type + "}]}");
  EXPECT_TRUE(schema.ok()) << schema.status();
  if (!schema.ok() || schema->root().types.empty()) return {};
  return schema->type(schema->root().types[0]);
}

std::string WhyNot(std::string_view json) {
  const auto schema = AvroSchema::Parse(json);
  EXPECT_TRUE(absl::IsInvalidArgument(schema.status())) << json;
  return std::string(schema.status().message());
}

std::string WhyNotField(const std::string& type) {
  return WhyNot(R"({"type": "record", "name": "R", "fields": [{"name": "f", "type": )" + type +
                "}]}");
}

TEST(AvroSchema, HasTheKindsOfTheSpecification) {
  EXPECT_EQ(TypeOf(R"("boolean")").kind, Kind::kBoolean);
  EXPECT_EQ(TypeOf(R"({"type": "int"})").kind, Kind::kInt);
  EXPECT_EQ(TypeOf(R"("long")").kind, Kind::kLong);
  EXPECT_EQ(TypeOf(R"("float")").kind, Kind::kFloat);
  EXPECT_EQ(TypeOf(R"("double")").kind, Kind::kDouble);
  EXPECT_EQ(TypeOf(R"("bytes")").kind, Kind::kBytes);
  EXPECT_EQ(TypeOf(R"({"type": {"type": "string"}})").kind, Kind::kString);
  EXPECT_EQ(TypeOf(R"(["null", "int"])").types.size(), 2u);
  EXPECT_EQ(TypeOf(R"({"type": "array", "items": "int"})").kind, Kind::kArray);
  EXPECT_EQ(TypeOf(R"({"type": "map", "values": "int"})").kind, Kind::kMap);
  EXPECT_EQ(TypeOf(R"({"type": "fixed", "name": "F", "size": 16})").size, 16u);
  EXPECT_THAT(TypeOf(R"({"type": "enum", "name": "E", "symbols": ["A", "B"]})").names,
              ElementsAre("A", "B"));
  EXPECT_EQ(
      TypeOf(R"({"type": "error", "name": "X", "fields": [{"name": "a", "type": "int"}]})").kind,
      Kind::kRecord);
}

TEST(AvroSchema, HasLogicalTypesWhereTheyGoWithTheKind) {
  EXPECT_EQ(TypeOf(R"({"type": "int", "logicalType": "date"})").logical, Logical::kDate);
  EXPECT_EQ(TypeOf(R"({"type": "long", "logicalType": "date"})").logical, Logical::kNone);
  EXPECT_EQ(TypeOf(R"({"type": "long", "logicalType": "timestamp-micros"})").logical,
            Logical::kTimestampMicros);
  EXPECT_EQ(TypeOf(R"({"type": "string", "logicalType": "uuid"})").logical, Logical::kNone);
  const AvroSchema::Type decimal =
      TypeOf(R"({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2})");
  EXPECT_EQ(decimal.logical, Logical::kDecimal);
  EXPECT_EQ(decimal.scale, 2u);
  EXPECT_EQ(TypeOf(R"({"type": "bytes", "logicalType": "decimal", "precision": 9})").logical,
            Logical::kDecimal);
  for (const char* const wrong :
       {R"("precision": 9, "scale": 10)", R"("scale": 2)", R"("precision": 0)",
        R"("precision": 9, "scale": -1)", R"("precision": 77)"}) {
    const std::string json = R"({"type": "bytes", "logicalType": "decimal", )";
    EXPECT_EQ(TypeOf(json + wrong + "}").logical, Logical::kNone) << wrong;
  }
}

TEST(AvroSchema, FindsNamesInTheirNamespaces) {
  const auto schema = AvroSchema::Parse(R"({"type": "record", "name": "a.b.R", "fields": [
    {"name": "x", "type": {"type": "fixed", "name": "F", "size": 1}},
    {"name": "y", "type": {"type": "fixed", "name": "F", "namespace": "c", "size": 2}},
    {"name": "z", "type": {"type": "fixed", "name": "F", "namespace": "", "size": 3}},
    {"name": "1", "type": "F"}, {"name": "2", "type": "a.b.F"}, {"name": "3", "type": "c.F"},
    {"name": "4", "type": ["null", "R"]}]})");
  ASSERT_TRUE(schema.ok()) << schema.status();
  const auto& fields = schema->root().types;
  EXPECT_EQ(schema->type(fields[3]).size, 1u);
  EXPECT_EQ(schema->type(fields[4]).size, 1u);
  EXPECT_EQ(schema->type(fields[5]).size, 2u);
  EXPECT_EQ(&schema->type(schema->type(fields[6]).types[1]), &schema->root());
}

TEST(AvroSchema, UsesTheTypesOfSchemasThatItRefersTo) {
  const std::vector<AvroSchema::Referenced> referenced = {
      {"1", R"({"type": "enum", "name": "a.E", "symbols": ["x", "y"]})"},
      {"2", R"({"type": "record", "name": "a.R", "fields": [{"name": "e", "type": "E"}]})"}};
  const auto schema = AvroSchema::Parse(
      R"({"type": "record", "name": "b.S", "fields": [
         {"name": "r", "type": "a.R"}, {"name": "e", "type": ["null", "a.E"]}]})",
      referenced);
  ASSERT_TRUE(schema.ok()) << schema.status();
  EXPECT_THAT(schema->root().names, ElementsAre("r", "e"));
  const AvroSchema::Type& record = schema->type(schema->root().types[0]);
  EXPECT_THAT(record.names, ElementsAre("e"));
  EXPECT_THAT(schema->type(record.types[0]).names, ElementsAre("x", "y"));
  const AvroSchema::Type& nullable = schema->type(schema->root().types[1]);
  EXPECT_EQ(nullable.types[1], record.types[0]);
  // A topic of records of several types.
  const auto any = AvroSchema::Parse(R"(["a.R", {"type": "map", "values": "a.E"}])", referenced);
  ASSERT_TRUE(any.ok()) << any.status();
  EXPECT_EQ(any->type(any->root().types[0]).kind, Kind::kRecord);
}

TEST(AvroSchema, IsRefusedForASchemaThatItRefersTo) {
  const auto why_not = [](const std::string& referenced) {
    const std::vector<AvroSchema::Referenced> all = {{"the other one", referenced}};
    const Status status =
        AvroSchema::Parse(R"({"type": "record", "name": "R", "fields": []})", all).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << referenced << status;
    return std::string(status.message());
  };
  EXPECT_THAT(why_not("{"), HasSubstr("of the other one, which it refers to: no usable Avro"));
  EXPECT_THAT(why_not(R"({"type": "fixed", "name": "R", "size": 1})"), HasSubstr("defined twice"));
  EXPECT_THAT(why_not(R"({"type": "record", "name": "S", "fields": [{"name": "r", "type": "R"}]})"),
              HasSubstr("the type 'R' is defined neither"));
  EXPECT_THAT(why_not(std::string(kMostSchemaBytes + 1, ' ')),
              HasSubstr("more than 1048576 bytes"));
}

TEST(AvroSchema, LeavesOutFieldsThatTakeNoBytes) {
  const auto schema = AvroSchema::Parse(R"({"type": "record", "name": "R", "fields": [
    {"name": "a", "type": "null"}, {"name": "b", "type": "int"},
    {"name": "c", "type": {"type": "record", "name": "Empty", "fields": []}},
    {"name": "d", "type": {"type": "record", "name": "Nulls", "fields": [
        {"name": "n", "type": "null"}, {"name": "e", "type": "Empty"}]}},
    {"name": "f", "type": {"type": "fixed", "name": "Nothing", "size": 0}}]})");
  ASSERT_TRUE(schema.ok()) << schema.status();
  EXPECT_THAT(schema->root().names, ElementsAre("b"));
}

TEST(AvroSchema, IsRefusedWithAReason) {
  EXPECT_THAT(WhyNot("{"), HasSubstr("malformed JSON"));
  EXPECT_THAT(WhyNot("3"), HasSubstr("a name, an object or an array"));
  EXPECT_THAT(WhyNot("\"int\""), HasSubstr("of the type int, but a row is a record"));
  EXPECT_THAT(WhyNot("{}"), HasSubstr("no \"type\""));
  EXPECT_THAT(WhyNot(R"({"type": "record", "fields": []})"), HasSubstr("has no name"));
  EXPECT_THAT(WhyNot(R"({"type": "record", "name": "R"})"), HasSubstr("no array of fields"));
  EXPECT_THAT(WhyNot(R"({"type": "record", "name": "R", "fields": [{"name": "a"}]})"),
              HasSubstr("no name or no type"));
  EXPECT_THAT(WhyNot(R"({"type": "record", "name": "R", "fields": [
      {"name": "a", "type": "int"}, {"name": "a", "type": "int"}]})"),
              HasSubstr("two fields 'a'"));
  EXPECT_THAT(WhyNotField(R"("other.Type")"),
              HasSubstr("'other.Type' is defined neither in it nor in a schema that it refers to"));
  EXPECT_THAT(WhyNotField(R"({"type": "fixed", "name": "R", "size": 1})"), HasSubstr("twice"));
  EXPECT_THAT(WhyNotField(R"({"type": "fixed", "name": "F", "size": -1})"), HasSubstr("size"));
  EXPECT_THAT(WhyNotField(R"({"type": "enum", "name": "E"})"), HasSubstr("symbols"));
  EXPECT_THAT(WhyNotField(R"(["int", ["null"]])"), HasSubstr("a union stands in a union"));
  EXPECT_THAT(WhyNotField(R"({"type": "array"})"), HasSubstr("does not say of what"));
}

// A few bytes would be any number of items.
TEST(AvroSchema, WhoseArraysTakeNoBytesForAnItemIsRefused) {
  EXPECT_THAT(WhyNotField(R"({"type": "array", "items": "null"})"), HasSubstr("take no bytes"));
  EXPECT_THAT(WhyNotField(R"({"type": "array", "items":
                  {"type": "record", "name": "E", "fields": [{"name": "n", "type": "null"}]}})"),
              HasSubstr("take no bytes"));
  EXPECT_EQ(TypeOf(R"({"type": "array", "items": ["null"]})").kind, Kind::kArray);
  EXPECT_EQ(TypeOf(R"({"type": "map", "values": "null"})").kind, Kind::kMap);
}

TEST(AvroSchema, BeyondItsLimitsIsRefused) {
  std::string deep = "\"int\"";
  for (int i = 0; i < kMostSchemaDepth; ++i) deep = R"({"type": "array", "items": )" + deep + "}";
  EXPECT_THAT(WhyNotField(deep), HasSubstr("deeper than"));
  EXPECT_THAT(WhyNot(std::string(5000, '[')), HasSubstr("malformed JSON"));
  std::string many;
  for (size_t i = 0; i < kMostSchemaTypes; ++i) many += "\"int\",";
  EXPECT_THAT(WhyNotField("[" + many + "\"int\"]"), HasSubstr("more than 20000 types"));
  EXPECT_THAT(WhyNot(std::string(kMostSchemaBytes + 1, ' ')), HasSubstr("bytes"));
}

}  // namespace
}  // namespace millrace
