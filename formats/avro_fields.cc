#include "formats/avro_fields.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/printable.h"
#include "base/utf8.h"

namespace millrace {
namespace {

static_assert(std::endian::native == std::endian::little);  // as Avro's floats are

using AvroType = AvroSchema::Type;
using AvroKindOf = AvroSchema::Kind;
using AvroLogicalOf = AvroSchema::Logical;

constexpr int64_t kSecondsOfDay = 86'400;
constexpr int64_t kFirstDay = -719'528;   // 0000-01-01
constexpr int64_t kLastDay = 2'932'896;   // 9999-12-31
constexpr size_t kMostDecimalBytes = 32;  // 76 digits

// Digits behind the second.
int FractionDigits(AvroLogicalOf logical) {
  switch (logical) {
    case AvroLogicalOf::kTimestampMillis:
    case AvroLogicalOf::kLocalTimestampMillis:
      return 3;
    case AvroLogicalOf::kTimestampMicros:
    case AvroLogicalOf::kLocalTimestampMicros:
      return 6;
    case AvroLogicalOf::kTimestampNanos:
    case AvroLogicalOf::kLocalTimestampNanos:
      return 9;
    case AvroLogicalOf::kNone:
    case AvroLogicalOf::kDecimal:
    case AvroLogicalOf::kDate:
      break;
  }
  return 0;
}

bool IsUtc(AvroLogicalOf logical) {
  return logical == AvroLogicalOf::kTimestampMillis || logical == AvroLogicalOf::kTimestampMicros ||
         logical == AvroLogicalOf::kTimestampNanos;
}

void AppendPadded(int64_t number, int digits, std::string* text) {
  const std::string plain = absl::StrCat(number);
  text->append(std::max(0, digits - static_cast<int>(plain.size())), '0');
  text->append(plain);
}

// REQUIRES kFirstDay <= day <= kLastDay.
void AppendDate(int64_t day, std::string* text) {
  const std::chrono::year_month_day date{std::chrono::sys_days(std::chrono::days(day))};
  AppendPadded(static_cast<int>(date.year()), 4, text);
  *text += '-';
  AppendPadded(static_cast<unsigned>(date.month()), 2, text);
  *text += '-';
  AppendPadded(static_cast<unsigned>(date.day()), 2, text);
}

// Rounded down.
int64_t Quotient(int64_t number, int64_t divisor) {
  return number / divisor - (number % divisor < 0 ? 1 : 0);
}

// False: not within the years 0 to 9999.
bool AppendTime(int64_t ticks, AvroLogicalOf logical, std::string* text) {
  const int digits = FractionDigits(logical);
  int64_t per_second = 1;
  for (int i = 0; i < digits; ++i) per_second *= 10;
  const int64_t seconds = Quotient(ticks, per_second);
  // Not the difference to `seconds`: their product may be below int64_t's lowest number.
  const int64_t rest = ticks % per_second;
  const int64_t fraction = rest < 0 ? rest + per_second : rest;
  const int64_t day = Quotient(seconds, kSecondsOfDay);
  if (day < kFirstDay || day > kLastDay) return false;
  const int64_t clock = seconds - day * kSecondsOfDay;
  AppendDate(day, text);
  *text += 'T';
  AppendPadded(clock / 3600, 2, text);
  *text += ':';
  AppendPadded(clock / 60 % 60, 2, text);
  *text += ':';
  AppendPadded(clock % 60, 2, text);
  if (fraction != 0) {
    *text += '.';
    AppendPadded(fraction, digits, text);
  }
  if (IsUtc(logical)) *text += 'Z';
  return true;
}

// Of a number in two's complement, its highest byte first. REQUIRES at most kMostDecimalBytes.
void AppendDecimal(std::string_view bytes, uint32_t scale, char decimal_sign, std::string* text) {
  std::array<uint8_t, kMostDecimalBytes> magnitude{};
  std::memcpy(magnitude.data(), bytes.data(), bytes.size());
  const auto number = std::span(magnitude).first(bytes.size());
  if ((number[0] & 0x80) != 0) {
    *text += '-';
    unsigned carry = 1;
    for (size_t i = number.size(); i-- > 0;) {
      carry += static_cast<uint8_t>(~number[i]);
      number[i] = static_cast<uint8_t>(carry);
      carry >>= 8;
    }
  }
  std::string digits;  // the last one first
  while (std::ranges::any_of(number, [](uint8_t byte) { return byte != 0; })) {
    unsigned rest = 0;
    for (uint8_t& byte : number) {
      rest = rest << 8 | byte;
      byte = static_cast<uint8_t>(rest / 10);
      rest %= 10;
    }
    digits += static_cast<char>('0' + rest);
  }
  if (digits.size() <= scale) digits.append(scale + 1 - digits.size(), '0');
  if (scale > 0) digits.insert(scale, 1, decimal_sign);
  text->append(digits.rbegin(), digits.rend());
}

template <typename Float>
void AppendFloat(Float number, char decimal_sign, std::string* text) {
  if (std::isnan(number)) {
    *text = "nan";
    return;
  }
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  *text = std::string_view(digits.data(), end - digits.data());
  if (decimal_sign != '.') std::ranges::replace(*text, '.', decimal_sign);
}

}  // namespace

class AvroFields::Reader {
 public:
  Reader(std::vector<std::string> names, char decimal_sign)
      : names_(std::move(names)),
        decimal_sign_(decimal_sign),
        fields_(names_.size()),
        texts_(names_.size()),
        seen_in_(names_.size()) {
    nodes_.emplace_back();
    for (size_t i = 0; i < names_.size(); ++i) nodes_[MakeNode(names_[i])].field = i;
  }

  Status Read(const AvroSchema& schema, std::string_view value, const TakeFields& take) {
    ++row_;
    schema_ = &schema;
    size_ = value.size();
    rest_ = value;
    MILLRACE_RETURN_IF_ERROR(ReadInner(schema.root(), 0, 0));
    if (!rest_.empty()) {
      return Malformed("more bytes than its schema has: was it written by another one?");
    }
    for (size_t i = 0; i < fields_.size(); ++i) {
      if (seen_in_[i] != row_) fields_[i] = "";
    }
    return take(fields_);
  }

 private:
  static constexpr size_t kNoField = std::numeric_limits<size_t>::max();
  static constexpr size_t kNoNode = std::numeric_limits<size_t>::max();

  // A name up to one of its dots, or to its end.
  struct Node {
    absl::flat_hash_map<std::string, size_t> inner;  // by what follows up to the next dot
    size_t field = kNoField;                         // of this name
  };

  size_t MakeNode(const std::string& name) {
    size_t node = 0;
    for (size_t begin = 0; begin <= name.size();) {
      const size_t end = std::min(name.find('.', begin), name.size());
      const auto [inner, is_new] =
          nodes_[node].inner.emplace(name.substr(begin, end - begin), nodes_.size());
      node = inner->second;
      if (is_new) nodes_.emplace_back();
      begin = end + 1;
    }
    return node;
  }

  // The node of this name behind another one's; a map's key may have dots itself.
  size_t FindNode(size_t node, std::string_view name) const {
    while (true) {
      const size_t dot = name.find('.');
      const auto inner =
          nodes_[node].inner.find(absl::string_view(name.data(), std::min(dot, name.size())));
      if (inner == nodes_[node].inner.end()) return kNoNode;
      node = inner->second;
      if (dot == std::string_view::npos) return node;
      name.remove_prefix(dot + 1);
    }
  }

  // ---- errors ----

  Status Malformed(const char* what) const {
    return absl::InvalidArgumentError(
        absl::StrCat("malformed Avro at byte ", size_ - rest_.size(), ": ", what));
  }
  Status CellError(size_t field, const std::string& what) const {
    return absl::InvalidArgumentError(absl::StrCat("'", Printable(names_[field]), "' ", what));
  }

  // ---- bytes ----

  Status ReadBytes(uint64_t size, std::string_view* bytes) {
    if (size > rest_.size()) return Malformed("the record ends within a value");
    *bytes = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return absl::OkStatus();
  }

  Status ReadLong(int64_t* value) {
    uint64_t bits = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      std::string_view next;
      MILLRACE_RETURN_IF_ERROR(ReadBytes(1, &next));
      const auto byte = static_cast<uint8_t>(next[0]);
      if (shift == 63 && byte > 1) break;
      bits |= uint64_t{byte & 0x7FU} << shift;
      if (byte < 0x80) {
        *value = static_cast<int64_t>(bits >> 1 ^ (~(bits & 1) + 1));
        return absl::OkStatus();
      }
    }
    return Malformed("a number of more than 64 bits");
  }

  Status ReadSized(std::string_view* bytes) {
    int64_t size = 0;
    MILLRACE_RETURN_IF_ERROR(ReadLong(&size));
    if (size < 0) return Malformed("a negative length");
    return ReadBytes(static_cast<uint64_t>(size), bytes);
  }

  // Of a union's branch, or of an enum's symbol.
  Status ReadIndex(size_t count, size_t* index) {
    int64_t number = 0;
    MILLRACE_RETURN_IF_ERROR(ReadLong(&number));
    if (number < 0 || static_cast<uint64_t>(number) >= count) {
      return Malformed("the branch of a union or the symbol of an enum is none of its schema");
    }
    *index = static_cast<size_t>(number);
    return absl::OkStatus();
  }

  Status ReadBranch(const AvroType& type, const AvroType** branch) {
    size_t index = 0;
    MILLRACE_RETURN_IF_ERROR(ReadIndex(type.types.size(), &index));
    *branch = &schema_->type(type.types[index]);
    return absl::OkStatus();
  }

  // Items of an array or a map come in blocks; one of 0 is the last. `*bytes`: its size, or -1.
  Status ReadBlock(int64_t* items, int64_t* bytes) {
    *bytes = -1;
    MILLRACE_RETURN_IF_ERROR(ReadLong(items));
    if (*items < 0) {
      MILLRACE_RETURN_IF_ERROR(ReadLong(bytes));
      if (*bytes < 0 || *items == std::numeric_limits<int64_t>::min()) {
        return Malformed("a negative length");
      }
      *items = -*items;
    }
    // Each takes a byte at least (AvroSchema).
    if (static_cast<uint64_t>(*items) > rest_.size()) {
      return Malformed("more items than bytes");
    }
    return absl::OkStatus();
  }

  // ---- values that are passed over ----

  // Each of these calls itself for a value in a value, as deep as kMostSchemaDepth.
  Status Skip(const AvroType& type, int depth) {
    if (depth > kMostSchemaDepth) return TooDeep();
    std::string_view bytes;
    int64_t number = 0;
    size_t index = 0;
    if (type.is_empty) return absl::OkStatus();
    switch (type.kind) {
      case AvroKindOf::kNull:
        break;
      case AvroKindOf::kBoolean:
        return ReadBytes(1, &bytes);
      case AvroKindOf::kInt:
      case AvroKindOf::kLong:
        return ReadLong(&number);
      case AvroKindOf::kFloat:
        return ReadBytes(sizeof(float), &bytes);
      case AvroKindOf::kDouble:
        return ReadBytes(sizeof(double), &bytes);
      case AvroKindOf::kBytes:
      case AvroKindOf::kString:
        return ReadSized(&bytes);
      case AvroKindOf::kFixed:
        return ReadBytes(type.size, &bytes);
      case AvroKindOf::kEnum:
        return ReadIndex(type.names.size(), &index);
      case AvroKindOf::kUnion: {
        const AvroType* branch = nullptr;
        MILLRACE_RETURN_IF_ERROR(ReadBranch(type, &branch));
        return Skip(*branch, depth + 1);
      }
      case AvroKindOf::kRecord:
        for (const uint32_t field : type.types) {
          MILLRACE_RETURN_IF_ERROR(Skip(schema_->type(field), depth + 1));
        }
        break;
      case AvroKindOf::kArray:
      case AvroKindOf::kMap:
        return SkipItems(type, depth);
    }
    return absl::OkStatus();
  }

  Status SkipItems(const AvroType& type, int depth) {
    const AvroType& item = schema_->type(type.types[0]);
    std::string_view skipped;
    int64_t items = 0;
    int64_t bytes = 0;
    while (true) {
      MILLRACE_RETURN_IF_ERROR(ReadBlock(&items, &bytes));
      if (items == 0) return absl::OkStatus();
      if (bytes >= 0) {
        MILLRACE_RETURN_IF_ERROR(ReadBytes(static_cast<uint64_t>(bytes), &skipped));
        continue;
      }
      for (; items > 0; --items) {
        if (type.kind == AvroKindOf::kMap) MILLRACE_RETURN_IF_ERROR(ReadSized(&skipped));
        MILLRACE_RETURN_IF_ERROR(Skip(item, depth + 1));
      }
    }
  }

  Status TooDeep() const { return Malformed("values stand in one another too deep"); }

  // ---- values that are, or have, fields that are asked for ----

  Status ReadValue(const AvroType& type, size_t node, int depth) {
    if (node == kNoNode) return Skip(type, depth);
    const size_t field = nodes_[node].field;
    if (field == kNoField) return ReadInner(type, node, depth);
    if (std::exchange(seen_in_[field], row_) == row_) return CellError(field, "is there twice");
    return ReadCell(type, field);
  }

  Status ReadInner(const AvroType& type, size_t node, int depth) {
    if (depth > kMostSchemaDepth) return TooDeep();
    if (type.kind == AvroKindOf::kUnion) {
      const AvroType* branch = nullptr;
      MILLRACE_RETURN_IF_ERROR(ReadBranch(type, &branch));
      return ReadInner(*branch, node, depth + 1);
    }
    if (type.kind == AvroKindOf::kMap) return ReadMap(type, node, depth);
    if (type.kind != AvroKindOf::kRecord) return Skip(type, depth);
    for (size_t i = 0; i < type.types.size(); ++i) {
      const AvroType& inner = schema_->type(type.types[i]);
      MILLRACE_RETURN_IF_ERROR(ReadValue(inner, FindNode(node, type.names[i]), depth + 1));
    }
    return absl::OkStatus();
  }

  Status ReadMap(const AvroType& type, size_t node, int depth) {
    const AvroType& values = schema_->type(type.types[0]);
    std::string_view key;
    int64_t items = 0;
    int64_t bytes = 0;
    while (true) {
      MILLRACE_RETURN_IF_ERROR(ReadBlock(&items, &bytes));
      if (items == 0) return absl::OkStatus();
      for (; items > 0; --items) {
        MILLRACE_RETURN_IF_ERROR(ReadSized(&key));
        MILLRACE_RETURN_IF_ERROR(ReadValue(values, FindNode(node, key), depth + 1));
      }
    }
  }

  Status ReadCell(const AvroType& type, size_t field) {
    std::string* const text = &texts_[field];
    text->clear();
    std::string_view bytes;
    switch (type.kind) {
      case AvroKindOf::kNull:
        break;
      case AvroKindOf::kBoolean:
        MILLRACE_RETURN_IF_ERROR(ReadBytes(1, &bytes));
        if (static_cast<uint8_t>(bytes[0]) > 1) return Malformed("a boolean is neither 0 nor 1");
        *text = bytes[0] == 1 ? "true" : "false";
        break;
      case AvroKindOf::kInt:
      case AvroKindOf::kLong:
        MILLRACE_RETURN_IF_ERROR(ReadInteger(type, field));
        break;
      case AvroKindOf::kFloat:
        MILLRACE_RETURN_IF_ERROR(ReadFloat<float>(text));
        break;
      case AvroKindOf::kDouble:
        MILLRACE_RETURN_IF_ERROR(ReadFloat<double>(text));
        break;
      case AvroKindOf::kString:
        MILLRACE_RETURN_IF_ERROR(ReadSized(&fields_[field]));
        if (!IsValidUtf8(fields_[field])) return CellError(field, "is not valid UTF-8");
        return absl::OkStatus();
      case AvroKindOf::kEnum: {
        size_t symbol = 0;
        MILLRACE_RETURN_IF_ERROR(ReadIndex(type.names.size(), &symbol));
        fields_[field] = type.names[symbol];
        return absl::OkStatus();
      }
      case AvroKindOf::kUnion: {
        const AvroType* branch = nullptr;
        MILLRACE_RETURN_IF_ERROR(ReadBranch(type, &branch));
        return ReadCell(*branch, field);  // which is no union
      }
      case AvroKindOf::kBytes:
      case AvroKindOf::kFixed:
        MILLRACE_RETURN_IF_ERROR(ReadDecimal(type, field));
        break;
      case AvroKindOf::kRecord:
      case AvroKindOf::kArray:
      case AvroKindOf::kMap:
        return NoCell(type, field);
    }
    fields_[field] = *text;
    return absl::OkStatus();
  }

  Status NoCell(const AvroType& type, size_t field) const {
    const std::string kind(NameOf(type.kind));
    return CellError(field, absl::StrCat("is of the type ", kind,
                                         "; a cell is a string, an enum, a number, a decimal, a "
                                         "boolean or null"));
  }

  Status ReadInteger(const AvroType& type, size_t field) {
    int64_t number = 0;
    MILLRACE_RETURN_IF_ERROR(ReadLong(&number));
    if (type.kind == AvroKindOf::kInt && number != static_cast<int32_t>(number)) {
      return Malformed("an int of more than 32 bits");
    }
    std::string* const text = &texts_[field];
    bool is_time = true;
    if (type.logical == AvroLogicalOf::kNone) {
      absl::StrAppend(text, number);
    } else if (type.logical == AvroLogicalOf::kDate) {
      is_time = number >= kFirstDay && number <= kLastDay;
      if (is_time) AppendDate(number, text);
    } else {
      is_time = AppendTime(number, type.logical, text);
    }
    return is_time ? absl::OkStatus()
                   : CellError(field, "is a time before the year 0 or after 9999");
  }

  template <typename Float>
  Status ReadFloat(std::string* text) {
    std::string_view bytes;
    MILLRACE_RETURN_IF_ERROR(ReadBytes(sizeof(Float), &bytes));
    Float number;
    std::memcpy(&number, bytes.data(), sizeof(number));
    AppendFloat(number, decimal_sign_, text);
    return absl::OkStatus();
  }

  Status ReadDecimal(const AvroType& type, size_t field) {
    if (type.logical != AvroLogicalOf::kDecimal) return NoCell(type, field);
    std::string_view bytes;
    if (type.kind == AvroKindOf::kFixed) {
      MILLRACE_RETURN_IF_ERROR(ReadBytes(type.size, &bytes));
    } else {
      MILLRACE_RETURN_IF_ERROR(ReadSized(&bytes));
    }
    if (bytes.empty() || bytes.size() > kMostDecimalBytes) {
      return CellError(field, absl::StrCat("is a decimal of ", bytes.size(), " bytes; 1 to ",
                                           kMostDecimalBytes, " are read"));
    }
    AppendDecimal(bytes, type.scale, decimal_sign_, &texts_[field]);
    return absl::OkStatus();
  }

  const std::vector<std::string> names_;
  const char decimal_sign_;
  std::vector<Node> nodes_;  // of names; the first is before all names
  std::vector<std::string_view> fields_;
  std::vector<std::string> texts_;  // of fields that do not stand so in the value
  std::vector<uint64_t> seen_in_;   // the row in which each field was seen last
  uint64_t row_ = 0;                // of all calls, from 1

  // Of the present call.
  const AvroSchema* schema_ = nullptr;
  size_t size_ = 0;
  std::string_view rest_;
};

AvroFields::AvroFields(std::vector<std::string> names, char decimal_sign)
    : reader_(std::make_unique<Reader>(std::move(names), decimal_sign)) {}
AvroFields::~AvroFields() = default;
AvroFields::AvroFields(AvroFields&& other) noexcept = default;

Status AvroFields::Read(const AvroSchema& schema, std::string_view value, const TakeFields& take) {
  return reader_->Read(schema, value, take);
}

}  // namespace millrace
