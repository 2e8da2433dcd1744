#include "apps/flag_field.h"

#include <google/protobuf/message.h>

#include <charconv>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "base/did_you_mean.h"
#include "features/name_list.h"

namespace millrace {
namespace {

using google::protobuf::EnumDescriptor;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// What the flags call otherwise than the configuration.
constexpr std::pair<std::string_view, std::string_view> kShortNames[] = {
    {"millrace.FeatureSpec.MEAN", "mean-only"},
    {"millrace.FeatureSpec.MEAN_AND_INDICATOR", "mean"},
    {"millrace.Training.FACTORIZATION_MACHINE", "fm"},
    {"millrace.Training.DEEP_FM", "deepfm"},
    {"millrace.Training.NETWORK", "network"},
    {"millrace.Training.Update.LOCAL_SGD", "sgd"},
    {"millrace.Training.Compression.FLOAT32", "none"},
    {"millrace.Training.PARAMETER_SERVER", "ParameterServer"},  // as elsewhere
    {"millrace.Training.ALL_REDUCE", "AllReduce"},
};

std::string ChoiceName(const EnumValueDescriptor& value) {
  for (const auto& [full_name, name] : kShortNames) {
    if (value.full_name() == full_name) return std::string(name);
  }
  return absl::StrReplaceAll(absl::AsciiStrToLower(value.name()), {{"_", "-"}});
}

std::vector<std::string> Choices(const EnumDescriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.value_count(); ++i) names.push_back(ChoiceName(*type.value(i)));
  return names;
}

StatusOr<const EnumValueDescriptor*> ParseChoice(const EnumDescriptor& type,
                                                 const std::string& text) {
  for (int i = 0; i < type.value_count(); ++i) {
    if (ChoiceName(*type.value(i)) == text) return type.value(i);
  }
  const std::vector<std::string> known = Choices(type);
  std::string message = absl::StrCat("'", text, "' is not one of ", absl::StrJoin(known, ", "));
  if (const auto near = NearestWord(text, known)) {
    absl::StrAppend(&message, "; did you mean ", *near, "?");
  }
  return absl::InvalidArgumentError(message);
}

Status NotANumber(const std::string& text, const std::string& kind) {
  return absl::InvalidArgumentError(absl::StrCat("'", text, "' is not ", kind));
}

template <typename Number>
StatusOr<Number> ParseWhole(const std::string& text) {
  Number value = 0;
  if (absl::SimpleAtoi(text, &value)) return value;
  return NotANumber(text, absl::StrCat(std::is_unsigned_v<Number> ? "a whole number of 0 to "
                                                                  : "a whole number of at most ",
                                       std::numeric_limits<Number>::max()));
}

StatusOr<double> ParseDouble(const std::string& text) {
  double value = 0;
  if (absl::SimpleAtod(text, &value)) return value;
  return NotANumber(text, "a number");
}

// Sets the field, or adds to it if it is repeated.
Status Put(const FieldDescriptor& field, const std::string& text, Message& message) {
  const Reflection& reflection = *message.GetReflection();
  const bool add = field.is_repeated();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      add ? reflection.AddString(&message, &field, text)
          : reflection.SetString(&message, &field, text);
      return absl::OkStatus();
    case FieldDescriptor::CPPTYPE_UINT32: {
      MILLRACE_ASSIGN_OR_RETURN(const uint32_t value, ParseWhole<uint32_t>(text));
      add ? reflection.AddUInt32(&message, &field, value)
          : reflection.SetUInt32(&message, &field, value);
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_UINT64: {
      MILLRACE_ASSIGN_OR_RETURN(const uint64_t value, ParseWhole<uint64_t>(text));
      add ? reflection.AddUInt64(&message, &field, value)
          : reflection.SetUInt64(&message, &field, value);
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_INT64: {
      MILLRACE_ASSIGN_OR_RETURN(const int64_t value, ParseWhole<int64_t>(text));
      add ? reflection.AddInt64(&message, &field, value)
          : reflection.SetInt64(&message, &field, value);
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_DOUBLE: {
      MILLRACE_ASSIGN_OR_RETURN(const double value, ParseDouble(text));
      add ? reflection.AddDouble(&message, &field, value)
          : reflection.SetDouble(&message, &field, value);
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_BOOL:
      reflection.SetBool(&message, &field, true);
      return absl::OkStatus();
    case FieldDescriptor::CPPTYPE_ENUM: {
      MILLRACE_ASSIGN_OR_RETURN(const EnumValueDescriptor* const value,
                                ParseChoice(*field.enum_type(), text));
      reflection.SetEnum(&message, &field, value);
      return absl::OkStatus();
    }
    default:
      MILLRACE_CHECK(false);  // a type that no field of the configuration has so far
  }
}

// The shortest text that is read as the same number.
std::string NumberText(double value) {
  char text[32];
  const std::to_chars_result end = std::to_chars(text, text + sizeof(text), value);
  return std::string(text, end.ptr);
}

// Empty: it is the default.
std::optional<std::string> SingleText(const FieldDescriptor& field, const Message& message) {
  const Reflection& reflection = *message.GetReflection();
  const auto unless = [](const auto& value, const auto& fallback, const auto& text) {
    return value == fallback ? std::optional<std::string>() : std::string(text(value));
  };
  const auto whole = [](auto value) { return absl::StrCat(value); };
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      return unless(reflection.GetString(message, &field), field.default_value_string(),
                    [](const std::string& text) { return text; });
    case FieldDescriptor::CPPTYPE_UINT32:
      return unless(reflection.GetUInt32(message, &field), field.default_value_uint32(), whole);
    case FieldDescriptor::CPPTYPE_UINT64:
      return unless(reflection.GetUInt64(message, &field), field.default_value_uint64(), whole);
    case FieldDescriptor::CPPTYPE_INT64:
      return unless(reflection.GetInt64(message, &field), field.default_value_int64(), whole);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return unless(reflection.GetDouble(message, &field), field.default_value_double(),
                    NumberText);
    case FieldDescriptor::CPPTYPE_BOOL:
      return unless(reflection.GetBool(message, &field), false, [](bool) { return std::string(); });
    case FieldDescriptor::CPPTYPE_ENUM:
      return unless(reflection.GetEnum(message, &field), field.default_value_enum(),
                    [](const EnumValueDescriptor* value) { return ChoiceName(*value); });
    default:
      MILLRACE_CHECK(false);
  }
}

// A name as an item of a list, in quotes if it needs them.
std::string ItemOf(const std::string& name) {
  if (name.find_first_of(",\"") == std::string::npos) return name;
  return absl::StrCat("\"", absl::StrReplaceAll(name, {{"\"", "\"\""}}), "\"");
}

// Whether quotes in its items belong to the notation of the field itself.
bool HasTerms(const FieldDescriptor& field) {
  return field.name() == "categorical" || field.name() == "ids" || field.name() == "bins";
}

}  // namespace

FlagField::FlagField(const std::string& path) {
  const google::protobuf::Descriptor* message = JobConfig::descriptor();
  for (const std::string& name : std::vector<std::string>(absl::StrSplit(path, '.'))) {
    MILLRACE_CHECK(message != nullptr);
    const FieldDescriptor* const field = message->FindFieldByName(name);
    MILLRACE_CHECK(field != nullptr);
    path_.push_back(field);
    message = field->message_type();
  }
}

bool FlagField::is_switch() const { return leaf().cpp_type() == FieldDescriptor::CPPTYPE_BOOL; }

bool FlagField::is_message() const { return leaf().cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE; }

std::string FlagField::type_name() const {
  if (is_message() && leaf().message_type() == Topology::descriptor()) return "FILE";
  if (leaf().is_repeated()) return is_message() ? "KEY=VALUE" : "A,B,...";
  switch (leaf().cpp_type()) {
    case FieldDescriptor::CPPTYPE_UINT32:
    case FieldDescriptor::CPPTYPE_UINT64:
      return "UINT";
    case FieldDescriptor::CPPTYPE_INT64:
      return "INT";
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return "FLOAT";
    case FieldDescriptor::CPPTYPE_ENUM:
      return absl::StrJoin(Choices(*leaf().enum_type()), "|");
    default:
      return "TEXT";
  }
}

std::optional<std::string> FlagField::default_text() const {
  if (!leaf().has_default_value() || is_switch()) return std::nullopt;
  switch (leaf().cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      return leaf().default_value_string();
    case FieldDescriptor::CPPTYPE_UINT32:
      return absl::StrCat(leaf().default_value_uint32());
    case FieldDescriptor::CPPTYPE_UINT64:
      return absl::StrCat(leaf().default_value_uint64());
    case FieldDescriptor::CPPTYPE_INT64:
      return absl::StrCat(leaf().default_value_int64());
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return absl::StrCat(leaf().default_value_double());
    case FieldDescriptor::CPPTYPE_ENUM:
      return ChoiceName(*leaf().default_value_enum());
    default:
      return std::nullopt;
  }
}

std::optional<std::string> FlagField::TextOf(const JobConfig& config) const {
  MILLRACE_CHECK(!is_message());
  const Message* message = &config;
  for (size_t i = 0; i + 1 < path_.size(); ++i) {
    message = &message->GetReflection()->GetMessage(*message, path_[i]);
  }
  const Reflection& reflection = *message->GetReflection();
  if (!leaf().is_repeated()) {
    return reflection.HasField(*message, &leaf()) ? SingleText(leaf(), *message) : std::nullopt;
  }
  std::vector<std::string> items;
  for (int i = 0; i < reflection.FieldSize(*message, &leaf()); ++i) {
    if (leaf().cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
      const std::string item = reflection.GetRepeatedString(*message, &leaf(), i);
      items.push_back(HasTerms(leaf()) ? item : ItemOf(item));
    } else {
      items.push_back(absl::StrCat(reflection.GetRepeatedUInt32(*message, &leaf(), i)));
    }
  }
  if (items.empty()) return std::nullopt;
  return absl::StrJoin(items, ",");
}

Status FlagField::Set(const std::string& text, JobConfig& config) const {
  MILLRACE_CHECK(!is_message());
  Message* message = &config;
  for (size_t i = 0; i + 1 < path_.size(); ++i) {
    message = message->GetReflection()->MutableMessage(message, path_[i]);
  }
  if (!leaf().is_repeated()) return Put(leaf(), text, *message);
  message->GetReflection()->ClearField(message, &leaf());
  const bool names = leaf().cpp_type() == FieldDescriptor::CPPTYPE_STRING;
  if (names && text.empty()) return absl::OkStatus();  // takes back what the file lists
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::string> items, SplitNames(text));
  for (const std::string& item : items) {
    if (item.empty() && names) continue;
    if (item.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "'", text, "' has an empty element: give numbers separated by commas, such as 0,2"));
    }
    MILLRACE_RETURN_IF_ERROR(Put(leaf(), HasTerms(leaf()) ? item : Unquoted(item), *message));
  }
  return absl::OkStatus();
}

}  // namespace millrace
