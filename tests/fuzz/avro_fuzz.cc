// Avro schemas and values of any bytes: they are refused with a reason, or rows; an honest value is
// passed over to its last byte, whatever its schema.
#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/utf8.h"
#include "formats/avro_fields.h"
#include "formats/avro_schema.h"
#include "formats/registry_answer.h"
#include "producer/schema_references.h"
#include "tests/formats/avro_bytes.h"
#include "tests/fuzz/mutate_message.h"
#include "tests/fuzz/target.h"

namespace millrace::fuzz {
namespace {

constexpr std::string_view kSchemas[] = {
    R"({"type":"record","name":"n.R","fields":[{"name":"a","type":["null","int"]},
        {"name":"b","type":{"type":"record","name":"B","fields":[{"name":"c","type":"string"}]}},
        {"name":"t","type":{"type":"long","logicalType":"timestamp-millis"}}]})",
    R"({"type":"record","name":"R","fields":[{"name":"a","type":{"type":"bytes","logicalType":
        "decimal","precision":9,"scale":2}},{"name":"b","type":{"type":"map","values":"double"}},
        {"name":"l","type":{"type":"array","items":["null","boolean","R"]}}]})",
    R"(["null",{"type":"map","values":{"type":"enum","name":"E","symbols":["a","b"]}},
        {"type":"record","name":"L","fields":[{"name":"a","type":"float"},{"name":"next",
        "type":["null","L"]},{"name":"b","type":{"type":"fixed","name":"F","size":3}}]}])",
    R"({"type":"record","name":"R","fields":[{"name":"a","type":{"type":"record","name":"N",
        "fields":[{"name":"n","type":"null"}]}},{"name":"b","type":{"type":"int",
        "logicalType":"date"}},{"name":"x","type":"bytes"},{"name":"y","type":["N","long"]}]})",
};

// The answer of a registry with this schema, which may refer to itself and to `others` more.
std::string AnswerWith(std::string_view json, size_t others, bool to_itself) {
  std::string text;
  for (const char c : json) {
    if (c == '"' || c == '\\') text += '\\';
    text += c == '\n' ? ' ' : c;
  }
  std::string references = to_itself ? R"({"subject":"0","version":1})" : "";
  for (size_t i = 1; i <= others; ++i) {
    references += references.empty() ? "" : ",";
    references += R"({"subject":")" + std::to_string(i) + R"(","version":1})";
  }
  return R"({"schema":")" + text + R"(","references":[)" + references + "]}";
}

// From a registry with the other schemas; without them it is the schema alone.
StatusOr<AvroSchema> Resolve(const std::string& json, ByteSource& bytes) {
  const size_t others = bytes.Below(3);
  const bool to_itself = bytes.Chance(10);
  const std::string_view around =
      R"({"type":"record","name":"W","fields":[{"name":"u","type":"U"},{"name":"v","type":["V"]},
         {"name":"w","type":)";
  const std::string text = others < 2 ? json : std::string(around) + json + "}]}";
  const std::string answer = AnswerWith(text, others, to_itself);
  size_t asked = 0;
  const auto fetch = [&](const SchemaReference& reference) -> StatusOr<std::string> {
    ++asked;
    if (reference.subject == "0") return answer;
    std::string other(R"({"type":"fixed","name":"X","size":2})");
    other[other.find('X')] = reference.subject == "1" ? 'U' : 'V';
    if (bytes.Chance(30)) Mutate(other, bytes);
    return AnswerWith(other, 0, false);
  };
  StatusOr<AvroSchema> schema = ResolveSchema(answer, fetch);
  MILLRACE_CHECK(asked <= 1 + kMostReferredSchemas);
  MILLRACE_CHECK(!to_itself || !schema.ok());
  return schema;
}

// Values of a schema, as its bytes decide.
class Writer {
 public:
  Writer(const AvroSchema& schema, ByteSource& bytes) : schema_(schema), bytes_(bytes) {}

  std::string Write() {
    Write(schema_.root(), 0);
    return value_;
  }
  // Some types have no values: unions of nothing, records of themselves.
  bool is_honest() const { return is_honest_; }

 private:
  using Kind = AvroSchema::Kind;

  void Write(const AvroSchema::Type& type, int depth) {
    if (type.is_empty) return;
    if (depth > kMostSchemaDepth - 2 || value_.size() > 10'000) {
      is_honest_ = false;
      return;
    }
    switch (type.kind) {
      case Kind::kNull:
        break;
      case Kind::kBoolean:
        value_ += static_cast<char>(bytes_.Below(2));
        break;
      case Kind::kInt:
        value_ += AvroLong(static_cast<int32_t>(bytes_.Number() >> 32));
        break;
      case Kind::kLong:
        value_ += AvroLong(static_cast<int64_t>(bytes_.Number()));
        break;
      case Kind::kFloat:
        value_ += std::string(4, static_cast<char>(bytes_.Byte()));
        break;
      case Kind::kDouble:
        value_ += AvroFloat(static_cast<double>(bytes_.Number()));
        break;
      case Kind::kBytes:
      case Kind::kString:
        value_ += AvroText(bytes_.Text(40));
        break;
      case Kind::kFixed:
        is_honest_ = is_honest_ && type.size < 1000;
        value_ += std::string(std::min<size_t>(type.size, 1000), 'f');
        break;
      case Kind::kEnum:
        WriteIndex(type.names.size());
        break;
      case Kind::kUnion:
        if (const size_t branch = WriteIndex(type.types.size()); branch < type.types.size()) {
          Write(schema_.type(type.types[branch]), depth + 1);
        }
        break;
      case Kind::kRecord:
        for (const uint32_t field : type.types) Write(schema_.type(field), depth + 1);
        break;
      case Kind::kArray:
      case Kind::kMap:
        WriteItems(type, depth);
        break;
    }
  }

  size_t WriteIndex(size_t count) {
    is_honest_ = is_honest_ && count > 0;
    const size_t index = count == 0 ? 0 : bytes_.Below(std::min<size_t>(count, 256));
    value_ += AvroLong(static_cast<int64_t>(index));
    return index;
  }

  // In blocks of one item.
  void WriteItems(const AvroSchema::Type& type, int depth) {
    while (bytes_.Chance(100) && is_honest_) {
      value_ += AvroLong(1);
      if (type.kind == Kind::kMap) value_ += AvroText(bytes_.Text(5));
      Write(schema_.type(type.types[0]), depth + 1);
    }
    value_ += AvroLong(0);
  }

  const AvroSchema& schema_;
  ByteSource& bytes_;
  std::string value_;
  bool is_honest_ = true;
};

struct Result {
  Status status;
  std::vector<std::string> cells;
  bool operator==(const Result&) const = default;
};

Result Read(AvroFields& fields, const AvroSchema& schema, std::string_view value) {
  Result result;
  result.status = fields.Read(schema, value, [&](std::span<const std::string_view> cells) {
    result.cells.assign(cells.begin(), cells.end());
    return absl::OkStatus();
  });
  MILLRACE_CHECK(result.status.ok() || absl::IsInvalidArgument(result.status));
  MILLRACE_CHECK(result.status.ok() == !result.cells.empty());
  return result;
}

}  // namespace

void FuzzOne(ByteSource& bytes) {
  std::string json(kSchemas[bytes.Below(std::size(kSchemas))]);
  if (bytes.Chance(100)) Mutate(json, bytes);
  const StatusOr<AvroSchema> schema =
      bytes.Chance(30) ? Resolve(json, bytes) : AvroSchema::Parse(json);
  if (!schema.ok()) {
    MILLRACE_CHECK(!schema.status().message().empty());
    (void)RegistryErrorCode(json);
    return;
  }
  Writer writer(*schema, bytes);
  std::string value = writer.Write();
  AvroFields none({"a name that is longer than any insertion"});
  const Result passed = Read(none, *schema, value);
  MILLRACE_CHECK(!writer.is_honest() || (passed.status.ok() && passed.cells[0].empty()));
  AvroFields fields({"a", "b", "b.c", "t", "next.next.a", "l", "x", "y"}, ',');
  do {
    const Result read = Read(fields, *schema, value);
    for (const std::string& cell : read.cells) MILLRACE_CHECK(IsValidUtf8(cell));
    MILLRACE_CHECK(Read(fields, *schema, value) == read);
    Mutate(value, bytes);
  } while (!bytes.empty());
}

}  // namespace millrace::fuzz
