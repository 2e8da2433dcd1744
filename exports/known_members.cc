#include "exports/known_members.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "base/did_you_mean.h"
#include "base/printable.h"

namespace millrace {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;

std::string ValuesOf(const EnumDescriptor& type) {
  std::string names;
  for (int i = 0; i < type.value_count(); ++i) {
    names += (i == 0 ? "" : ", ") + type.value(i)->name();
  }
  return names;
}

// Gets the JSON piece by piece: a description of many classes has hundreds of megabytes.
class Checker final : public nlohmann::json_sax<nlohmann::json> {
 public:
  Checker(const Descriptor& type, const KnownMembers& known) : type_(type), known_(known) {}

  std::string TakeWrong() { return std::move(wrong_); }

  bool start_object(std::size_t /*elements*/) override {
    const FieldDescriptor* const of = objects_.empty() ? nullptr : objects_.back().field;
    const bool is_message =
        of != nullptr && of->type() == FieldDescriptor::TYPE_MESSAGE && !of->is_map();
    objects_.push_back({.type = objects_.empty() ? &type_
                                : is_message     ? of->message_type()
                                                 : nullptr,
                        .field = nullptr});
    return true;
  }
  bool end_object() override {
    objects_.pop_back();
    return true;
  }
  bool key(string_t& name) override {
    Object& object = objects_.back();
    object.field = nullptr;
    if (object.type == nullptr) return true;
    if (objects_.size() == 1 && known_.unread.contains(name)) return true;
    object.field = object.type->FindFieldByName(name);
    if (object.field == nullptr) object.field = object.type->FindFieldByCamelcaseName(name);
    return object.field != nullptr || known_.ignores_unknown || UnknownMember(*object.type, name);
  }
  bool string(string_t& value) override {
    const EnumDescriptor* const type = EnumHere();
    return type == nullptr || type->FindValueByName(value) != nullptr || UnknownValue(*type, value);
  }
  bool number_integer(number_integer_t value) override { return Number(value); }
  bool number_unsigned(number_unsigned_t value) override {
    return Number(value > INT32_MAX ? -1 : static_cast<int64_t>(value));
  }
  bool number_float(number_float_t /*value*/, const string_t& /*text*/) override { return true; }
  bool null() override { return true; }
  bool boolean(bool /*value*/) override { return true; }
  bool binary(binary_t& /*value*/) override { return true; }
  bool start_array(std::size_t /*elements*/) override { return true; }
  bool end_array() override { return true; }
  // (protobuf takes some JSON that this parser does not: what is behind it is not checked.)
  bool parse_error(std::size_t /*position*/, const std::string& /*token*/,
                   const nlohmann::detail::exception& /*error*/) override {
    return false;
  }

 private:
  struct Object {
    const Descriptor* type;        // null: whatever it has is let through
    const FieldDescriptor* field;  // of the last key; null: so is its value
  };

  const EnumDescriptor* EnumHere() const {
    const FieldDescriptor* const field = objects_.empty() ? nullptr : objects_.back().field;
    return field == nullptr ? nullptr : field->enum_type();
  }

  bool Number(int64_t value) {
    const EnumDescriptor* const type = EnumHere();
    return type == nullptr || type->FindValueByNumber(static_cast<int>(value)) != nullptr ||
           UnknownValue(*type, std::to_string(value));
  }

  std::string Place() const {
    std::string path;
    for (const Object& object : objects_) {
      if (object.field != nullptr) path += (path.empty() ? "" : ".") + object.field->name();
    }
    return path;
  }

  bool UnknownValue(const EnumDescriptor& type, const std::string& value) {
    wrong_ = "its member " + Place() + " is '" + Printable(value, 100) +
             "', which is no value that this program knows: " + ValuesOf(type);
    return false;
  }

  bool UnknownMember(const Descriptor& type, const std::string& name) {
    std::vector<std::string> names;
    for (int i = 0; i < type.field_count(); ++i) names.push_back(type.field(i)->name());
    const std::optional<std::string> nearest = NearestWord(name, names);
    const std::string place = Place();
    wrong_ = "it has a member '" + Printable(name, 100) + "'" +
             (place.empty() ? "" : " in " + place) + " that this program does not know";
    if (nearest) {
      wrong_ += "; the nearest that it knows is " + *nearest;
      return false;
    }
    for (size_t i = 0; i < names.size(); ++i) wrong_ += (i == 0 ? "; it knows " : ", ") + names[i];
    return false;
  }

  const Descriptor& type_;
  const KnownMembers& known_;
  std::vector<Object> objects_;  // those that are open, from the outermost on
  std::string wrong_;
};

}  // namespace

Status CheckMembers(std::string_view json, const Descriptor& type, const KnownMembers& known) {
  Checker checker(type, known);
  (void)nlohmann::json::sax_parse(json, &checker);
  const std::string wrong = checker.TakeWrong();
  return wrong.empty() ? absl::OkStatus() : absl::InvalidArgumentError(wrong);
}

}  // namespace millrace
