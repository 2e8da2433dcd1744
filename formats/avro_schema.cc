#include "formats/avro_schema.h"

#include <simdjson.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/printable.h"

namespace millrace {
namespace {

using AvroKind = AvroSchema::Kind;
using AvroLogical = AvroSchema::Logical;
using JsonElement = simdjson::dom::element;

constexpr std::string_view kKindNames[] = {"null",   "boolean", "int",    "long",   "float",
                                           "double", "bytes",   "string", "record", "enum",
                                           "array",  "map",     "union",  "fixed"};
constexpr size_t kPrimitiveKinds = static_cast<size_t>(AvroKind::kRecord);
constexpr uint64_t kMostFixedBytes = uint64_t{1} << 31;
constexpr uint64_t kMostDecimalDigits = 76;  // what AvroFields reads

struct LogicalName {
  std::string_view name;
  AvroKind kind;
  AvroLogical logical;
};
constexpr LogicalName kLogicalNames[] = {
    {"date", AvroKind::kInt, AvroLogical::kDate},
    {"timestamp-millis", AvroKind::kLong, AvroLogical::kTimestampMillis},
    {"timestamp-micros", AvroKind::kLong, AvroLogical::kTimestampMicros},
    {"timestamp-nanos", AvroKind::kLong, AvroLogical::kTimestampNanos},
    {"local-timestamp-millis", AvroKind::kLong, AvroLogical::kLocalTimestampMillis},
    {"local-timestamp-micros", AvroKind::kLong, AvroLogical::kLocalTimestampMicros},
    {"local-timestamp-nanos", AvroKind::kLong, AvroLogical::kLocalTimestampNanos},
    {"decimal", AvroKind::kBytes, AvroLogical::kDecimal},
    {"decimal", AvroKind::kFixed, AvroLogical::kDecimal},
};

std::string InQuotes(std::string_view name) { return absl::StrCat("'", Printable(name), "'"); }

// The string under this key; "" if there is none.
std::string_view StringAt(const JsonElement& json, std::string_view key) {
  std::string_view text;
  if (json.at_key(key).get(text)) return "";
  return text;
}

std::string FullName(std::string_view name, std::string_view space) {
  if (space.empty() || name.find('.') != std::string_view::npos) return std::string(name);
  return std::string(space) + "." + std::string(name);
}

// Of a full name.
std::string SpaceOf(const std::string& name) {
  const size_t dot = name.rfind('.');
  return dot == std::string::npos ? "" : name.substr(0, dot);
}

}  // namespace

class AvroSchemaParser {
 public:
  StatusOr<AvroSchema> Parse(std::string_view text,
                             std::span<const AvroSchema::Referenced> referenced) {
    for (const AvroSchema::Referenced& each : referenced) {
      const Status parsed = ParseText(each.json);
      if (!parsed.ok()) {
        return absl::InvalidArgumentError(
            absl::StrCat("of ", each.where, ", which it refers to: ", parsed.message()));
      }
    }
    MILLRACE_RETURN_IF_ERROR(ParseText(text));
    const AvroKind root = schema_.root().kind;
    if (root != AvroKind::kRecord && root != AvroKind::kMap && root != AvroKind::kUnion) {
      return Error("its values are of the type ", NameOfKind(root), ", but a row is a record");
    }
    return std::move(schema_);
  }

 private:
  using Type = AvroSchema::Type;

  // The last one is the root.
  Status ParseText(std::string_view text) {
    if (text.size() > kMostSchemaBytes) {
      return Error("it has more than ", kMostSchemaBytes, " bytes");
    }
    simdjson::dom::parser parser;
    const simdjson::padded_string padded(text);
    JsonElement json;
    if (const auto error = parser.parse(padded).get(json)) {
      return Error("malformed JSON: ", simdjson::error_message(error));
    }
    return ParseType(json, "", 0, &schema_.root_);
  }

  template <typename... Parts>
  static Status Error(const Parts&... parts) {
    return absl::InvalidArgumentError(absl::StrCat("no usable Avro schema: ", parts...));
  }
  static absl::string_view NameOfKind(AvroKind kind) {
    const std::string_view name = NameOf(kind);
    return {name.data(), name.size()};
  }

  // Types are named by their index, since the vector moves them as it grows.
  Status Add(AvroKind kind, uint32_t* index) {
    if (schema_.types_.size() == kMostSchemaTypes) {
      return Error("it has more than ", kMostSchemaTypes, " types");
    }
    *index = static_cast<uint32_t>(schema_.types_.size());
    Type& type = schema_.types_.emplace_back();
    type.kind = kind;
    type.is_empty = kind == AvroKind::kNull;
    return absl::OkStatus();
  }
  Type& At(uint32_t index) { return schema_.types_[index]; }

  // It calls itself for a definition in a definition, as deep as kMostSchemaDepth.
  Status ParseType(const JsonElement& json, const std::string& space, int depth, uint32_t* index) {
    if (depth == kMostSchemaDepth) {
      return Error("types stand in one another deeper than ", kMostSchemaDepth);
    }
    std::string_view name;
    if (!json.get(name)) return ParseName(name, space, index);
    simdjson::dom::array branches;
    if (!json.get(branches)) return ParseUnion(branches, space, depth, index);
    if (json.is_object()) return ParseObject(json, space, depth, index);
    return Error("a type is a name, an object or an array");
  }

  Status ParseName(std::string_view name, const std::string& space, uint32_t* index) {
    const auto primitives = std::begin(kKindNames) + kPrimitiveKinds;
    const auto kind = std::find(std::begin(kKindNames), primitives, name);
    if (kind != primitives) {
      return Add(static_cast<AvroKind>(kind - std::begin(kKindNames)), index);
    }
    const auto named = named_.find(FullName(name, space));
    if (named == named_.end()) {
      return Error("the type ", InQuotes(name),
                   " is defined neither in it nor in a schema that it refers to");
    }
    *index = named->second;
    return absl::OkStatus();
  }

  Status ParseUnion(const simdjson::dom::array& branches, const std::string& space, int depth,
                    uint32_t* index) {
    MILLRACE_RETURN_IF_ERROR(Add(AvroKind::kUnion, index));
    for (const JsonElement branch : branches) {
      uint32_t type = 0;
      MILLRACE_RETURN_IF_ERROR(ParseType(branch, space, depth + 1, &type));
      if (At(type).kind == AvroKind::kUnion) return Error("a union stands in a union");
      At(*index).types.push_back(type);
    }
    return absl::OkStatus();
  }

  Status ParseObject(const JsonElement& json, const std::string& space, int depth,
                     uint32_t* index) {
    JsonElement type;
    if (json.at_key("type").get(type)) return Error("a type has no \"type\"");
    std::string_view name;
    if (type.get(name)) return ParseType(type, space, depth + 1, index);
    if (name == "record" || name == "error") return ParseRecord(json, space, depth, index);
    if (name == "enum") return ParseEnum(json, space, index);
    if (name == "fixed") return ParseFixed(json, space, index);
    if (name == "array") return ParseItems(json, "items", AvroKind::kArray, space, depth, index);
    if (name == "map") return ParseItems(json, "values", AvroKind::kMap, space, depth, index);
    MILLRACE_RETURN_IF_ERROR(ParseName(name, space, index));
    // A name of a type that was defined before has what was said there.
    if (static_cast<size_t>(At(*index).kind) < kPrimitiveKinds) SetLogical(json, *index);
    return absl::OkStatus();
  }

  Status AddNamed(AvroKind kind, const JsonElement& json, const std::string& space,
                  std::string* name, uint32_t* index) {
    const std::string_view given = StringAt(json, "name");
    if (given.empty()) return Error("a type of the kind ", NameOfKind(kind), " has no name");
    std::string_view own_space;
    const bool has_space = !json.at_key("namespace").get(own_space);
    *name = FullName(given, has_space ? own_space : space);
    MILLRACE_RETURN_IF_ERROR(Add(kind, index));
    if (!named_.emplace(*name, *index).second) {
      return Error("the type ", InQuotes(*name), " is defined twice");
    }
    return absl::OkStatus();
  }

  Status ParseRecord(const JsonElement& json, const std::string& space, int depth,
                     uint32_t* index) {
    std::string name;
    MILLRACE_RETURN_IF_ERROR(AddNamed(AvroKind::kRecord, json, space, &name, index));
    simdjson::dom::array fields;
    if (json.at_key("fields").get(fields)) {
      return Error("the record ", InQuotes(name), " has no array of fields");
    }
    const std::string inner_space = SpaceOf(name);
    absl::flat_hash_set<std::string> names;
    for (const JsonElement field : fields) {
      const std::string_view field_name = StringAt(field, "name");
      JsonElement type;
      if (field_name.empty() || field.at_key("type").get(type)) {
        return Error("a field of the record ", InQuotes(name), " has no name or no type");
      }
      if (!names.emplace(field_name).second) {
        return Error("the record ", InQuotes(name), " has two fields ", InQuotes(field_name));
      }
      uint32_t field_type = 0;
      MILLRACE_RETURN_IF_ERROR(ParseType(type, inner_space, depth + 1, &field_type));
      if (At(field_type).is_empty) continue;
      At(*index).names.emplace_back(field_name);
      At(*index).types.push_back(field_type);
    }
    // (Until here it counts as not empty: a record of nothing but itself has no values.)
    At(*index).is_empty = At(*index).types.empty();
    return absl::OkStatus();
  }

  Status ParseEnum(const JsonElement& json, const std::string& space, uint32_t* index) {
    std::string name;
    MILLRACE_RETURN_IF_ERROR(AddNamed(AvroKind::kEnum, json, space, &name, index));
    simdjson::dom::array symbols;
    if (json.at_key("symbols").get(symbols)) {
      return Error("the enum ", InQuotes(name), " has no array of symbols");
    }
    for (const JsonElement symbol : symbols) {
      std::string_view text;
      if (symbol.get(text)) return Error("a symbol of ", InQuotes(name), " is no string");
      At(*index).names.emplace_back(text);
    }
    return absl::OkStatus();
  }

  Status ParseFixed(const JsonElement& json, const std::string& space, uint32_t* index) {
    std::string name;
    MILLRACE_RETURN_IF_ERROR(AddNamed(AvroKind::kFixed, json, space, &name, index));
    uint64_t size = 0;
    if (json.at_key("size").get(size) || size > kMostFixedBytes) {
      return Error("the fixed ", InQuotes(name), " has no size, or one beyond ", kMostFixedBytes);
    }
    At(*index).size = size;
    At(*index).is_empty = size == 0;
    SetLogical(json, *index);
    return absl::OkStatus();
  }

  Status ParseItems(const JsonElement& json, std::string_view key, AvroKind kind,
                    const std::string& space, int depth, uint32_t* index) {
    JsonElement items;
    if (json.at_key(key).get(items)) {
      return Error("a type of the kind ", NameOfKind(kind), " does not say of what");
    }
    MILLRACE_RETURN_IF_ERROR(Add(kind, index));
    uint32_t type = 0;
    MILLRACE_RETURN_IF_ERROR(ParseType(items, space, depth + 1, &type));
    if (kind == AvroKind::kArray && At(type).is_empty) {
      return Error("the items of an array take no bytes, so that a record may have any number");
    }
    At(*index).types.push_back(type);
    return absl::OkStatus();
  }

  void SetLogical(const JsonElement& json, uint32_t index) {
    Type& type = At(index);
    const std::string_view name = StringAt(json, "logicalType");
    for (const LogicalName& each : kLogicalNames) {
      if (each.name != name || each.kind != type.kind) continue;
      if (each.logical == AvroLogical::kDecimal && !SetScale(json, type)) return;
      type.logical = each.logical;
    }
  }

  // False: what stands there is no decimal.
  static bool SetScale(const JsonElement& json, Type& type) {
    uint64_t precision = 0;
    uint64_t scale = 0;
    if (json.at_key("precision").get(precision)) return false;
    const bool has_scale = json.at_key("scale").error() != simdjson::NO_SUCH_FIELD;
    if (has_scale && json.at_key("scale").get(scale)) return false;
    if (precision == 0 || precision > kMostDecimalDigits || scale > precision) return false;
    type.scale = static_cast<uint32_t>(scale);
    return true;
  }

  AvroSchema schema_;
  absl::flat_hash_map<std::string, uint32_t> named_;  // by their full names
};

StatusOr<AvroSchema> AvroSchema::Parse(std::string_view json,
                                       std::span<const Referenced> referenced) {
  return AvroSchemaParser().Parse(json, referenced);
}

std::string_view NameOf(AvroSchema::Kind kind) { return kKindNames[static_cast<size_t>(kind)]; }

}  // namespace millrace
