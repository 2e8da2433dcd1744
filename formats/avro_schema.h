// Avro schemas: what the bytes of a record mean.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace millrace {

// A schema as Avro's specification (1.11) defines it, its names resolved. It never changes, so
// several threads may read it.
class AvroSchema {
 public:
  enum class Kind : uint8_t {
    kNull,
    kBoolean,
    kInt,
    kLong,
    kFloat,
    kDouble,
    kBytes,
    kString,
    kRecord,
    kEnum,
    kArray,
    kMap,
    kUnion,
    kFixed,
  };
  // What the values stand for. One that does not go with its kind counts as none, as the
  // specification has it; so does one that is not here.
  enum class Logical : uint8_t {
    kNone,
    kDecimal,
    kDate,
    kTimestampMillis,
    kTimestampMicros,
    kTimestampNanos,
    kLocalTimestampMillis,
    kLocalTimestampMicros,
    kLocalTimestampNanos,
  };

  struct Type {
    Kind kind = Kind::kNull;
    Logical logical = Logical::kNone;
    uint32_t scale = 0;    // of a decimal: so many of its digits stand behind the point
    uint64_t size = 0;     // of a fixed, in bytes
    bool is_empty = true;  // its values take no bytes; all others take one at least
    // Of a record's fields; an enum's symbols. Fields that take no bytes are left out, so that the
    // time to read a value follows from its bytes.
    std::vector<std::string> names;
    std::vector<uint32_t> types;  // of a record's fields, a union's branches, items or values
  };

  // A schema whose types another one uses by their names.
  struct Referenced {
    std::string where;  // for errors
    std::string json;
  };

  // `referenced`: each may name types of those before it, and `json` types of all. InvalidArgument,
  // with the reason: no JSON, no schema, a schema whose values are no rows (a row is a record, a
  // map, or one of several in a union; of `json` only), or one beyond the limits below. An array
  // whose items take no bytes is none: a few bytes could stand for any number of them.
  static StatusOr<AvroSchema> Parse(std::string_view json,
                                    std::span<const Referenced> referenced = {});

  const Type& root() const { return types_[root_]; }
  // `index` is one of Type::types. A record may contain itself, behind a union, an array or a map.
  const Type& type(uint32_t index) const { return types_[index]; }

 private:
  friend class AvroSchemaParser;

  std::vector<Type> types_;
  uint32_t root_ = 0;
};

// The name of the kind, as a schema has it.
std::string_view NameOf(AvroSchema::Kind kind);

inline constexpr size_t kMostSchemaBytes = size_t{1} << 20;  // of each text
inline constexpr size_t kMostSchemaTypes = 20'000;           // of all together
inline constexpr int kMostSchemaDepth = 64;                  // definitions in definitions

}  // namespace millrace
