#include "formats/json_fields.h"

#include <simdjson.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/printable.h"
#include "formats/text_beginning.h"

namespace millrace {
namespace {

using simdjson::ondemand::array;
using simdjson::ondemand::document;
using simdjson::ondemand::json_type;
using simdjson::ondemand::object;
using simdjson::ondemand::value;

std::string Quoted(std::string_view name) { return absl::StrCat("'", Printable(name), "'"); }

std::vector<std::string> WithLast(std::vector<std::string> names, const std::string& last) {
  if (!last.empty()) names.push_back(last);
  return names;
}

}  // namespace

// Errors of the parser are codes, which become a Status once, in ForEach.
class JsonFields::Reader {
 public:
  Reader(std::vector<std::string> names, char decimal_sign, Absent absent,
         const std::string& verbatim)
      : names_(WithLast(std::move(names), verbatim)),
        verbatim_(verbatim.empty() ? names_.size() : names_.size() - 1),
        twin_of_verbatim_(names_.size()),
        decimal_sign_(decimal_sign),
        absent_(absent),
        fields_(names_.size()),
        numbers_(names_.size()),
        seen_in_(names_.size()) {
    for (size_t i = 0; i < names_.size(); ++i) {
      const std::string& name = names_[i];
      const auto [found, inserted] = positions_.emplace(name, i);
      MILLRACE_CHECK(inserted || i == verbatim_);
      if (!inserted) twin_of_verbatim_ = found->second;
      for (size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1)) {
        parents_.insert(name.substr(0, dot));
      }
    }
  }

  const std::vector<std::string>& names() const { return names_; }

  StatusOr<Shape> ForEach(std::string_view text, const TakeFields& take) {
    text_.reserve(text.size() + simdjson::SIMDJSON_PADDING);
    text_.assign(text);
    document json;
    if (const auto error =
            parser_.iterate(text_.data(), text_.size(), text_.capacity()).get(json)) {
      return Malformed(error, nullptr);
    }
    Shape shape = Shape::kObject;
    Status status = absl::OkStatus();
    const auto error = ReadDocument(json, take, &shape, &status);
    MILLRACE_RETURN_IF_ERROR(status);
    if (error) return Malformed(error, &json);
    const char* at = nullptr;
    if (json.current_location().get(at) != simdjson::OUT_OF_BOUNDS) {
      return WithBeginning(
          absl::InvalidArgumentError(
              "there is more behind the end of the JSON; rows in one text are an array, or NDJSON"),
          text);
    }
    return shape;
  }

 private:
  using Error = simdjson::error_code;

  static constexpr size_t kMostOthers = 5;  // that an error names

  Error ReadDocument(document& json, const TakeFields& take, Shape* shape, Status* status) {
    json_type type = json_type::null;
    if (const auto error = json.type().get(type)) return error;
    if (type == json_type::object) {
      object row;
      if (const auto error = json.get_object().get(row)) return error;
      return ReadRow(row, take, status);
    }
    if (type != json_type::array) {
      *status = WithBeginning(
          absl::InvalidArgumentError(
              "the JSON is neither an object nor an array of objects: a row is an object"),
          text_);
      return simdjson::SUCCESS;
    }
    *shape = Shape::kArray;
    array rows;
    if (const auto error = json.get_array().get(rows)) return error;
    return ReadRows(rows, take, status);
  }

  Error ReadRows(array& rows, const TakeFields& take, Status* status) {
    uint64_t number = 0;
    for (auto element : rows) {
      ++number;
      value item;
      if (const auto error = element.get(item)) return error;
      json_type type = json_type::null;
      if (const auto error = item.type().get(type)) return error;
      if (type != json_type::object) {
        *status = absl::InvalidArgumentError(absl::StrCat("row ", number, " is no object"));
        return simdjson::SUCCESS;
      }
      object row;
      if (const auto error = item.get_object().get(row)) return error;
      if (const auto error = ReadRow(row, take, status)) return error;
      if (!status->ok()) {
        *status = Status(status->code(), absl::StrCat("row ", number, ": ", status->message()));
        return simdjson::SUCCESS;
      }
    }
    return simdjson::SUCCESS;
  }

  Error ReadRow(object& row, const TakeFields& take, Status* status) {
    ++row_;
    path_.clear();
    others_.clear();
    if (const auto error = ReadMembers(row, status)) return error;
    if (!status->ok()) return simdjson::SUCCESS;
    for (size_t i = 0; i < names_.size(); ++i) {
      if (seen_in_[i] == row_) continue;
      fields_[i] = absent_ == Absent::kMarked ? std::string_view() : "";
      if (absent_ != Absent::kError) continue;
      *status = absl::InvalidArgumentError(absl::StrCat(
          "there is no ", Quoted(names_[i]), "; if it is not known, give null", OthersText()));
      return simdjson::SUCCESS;
    }
    *status = take(fields_);
    return simdjson::SUCCESS;
  }

  // `path_` is the name of the object with a dot, or empty. It calls itself for an object in it, as
  // deep as a name has dots.
  Error ReadMembers(object& members, Status* status) {
    const size_t prefix = path_.size();
    for (auto member : members) {
      std::string_view key;
      if (const auto error = member.unescaped_key().get(key)) return error;
      path_.resize(prefix);
      path_ += key;
      value item;
      if (const auto error = member.value().get(item)) return error;
      if (const auto error = ReadMember(item, status)) return error;
      if (!status->ok()) return simdjson::SUCCESS;
    }
    return simdjson::SUCCESS;
  }

  Error ReadMember(value& item, Status* status) {
    const auto position = positions_.find(path_);
    if (position != positions_.end()) return ReadField(item, position->second, status);
    json_type type = json_type::null;
    if (const auto error = item.type().get(type)) return error;
    if (type != json_type::object || !parents_.contains(path_)) {
      if (absent_ == Absent::kError && others_.size() <= kMostOthers) others_.push_back(path_);
      return simdjson::SUCCESS;
    }
    object inner;
    if (const auto error = item.get_object().get(inner)) return error;
    path_ += '.';
    return ReadMembers(inner, status);
  }

  Error ReadField(value& item, size_t position, Status* status) {
    if (std::exchange(seen_in_[position], row_) == row_) {
      *status =
          absl::InvalidArgumentError(absl::StrCat(Quoted(names_[position]), " is there twice"));
      return simdjson::SUCCESS;
    }
    json_type type = json_type::null;
    if (const auto error = item.type().get(type)) return error;
    std::string_view& field = fields_[position];
    if (const auto error = ReadCell(item, type, names_[position], &field, status)) return error;
    if (position == twin_of_verbatim_) {
      fields_[verbatim_] = field;
      seen_in_[verbatim_] = row_;
    }
    const bool needs_sign = type == json_type::number && decimal_sign_ != '.';
    if (needs_sign && position != verbatim_) field = WithSign(field, &numbers_[position]);
    return simdjson::SUCCESS;
  }

  // As it stands there.
  static Error ReadCell(value& item, json_type type, const std::string& name,
                        std::string_view* cell, Status* status) {
    std::string_view& field = *cell;
    switch (type) {
      case json_type::string:
        return item.get_string().get(field);
      case json_type::number: {
        field = item.raw_json_token();
        field = field.substr(0, field.find_last_not_of(" \t\r\n") + 1);
        return item.get_double().error();  // looks whether it is one
      }
      case json_type::boolean: {
        bool truth = false;
        const auto error = item.get_bool().get(truth);
        field = truth ? "true" : "false";
        return error;
      }
      case json_type::null: {
        bool is_null = false;
        const auto error = item.is_null().get(is_null);
        field = "";
        return error ? error : is_null ? simdjson::SUCCESS : simdjson::N_ATOM_ERROR;
      }
      case json_type::array:
      case json_type::object:
        break;
    }
    *status = absl::InvalidArgumentError(
        absl::StrCat(Quoted(name), " is an ", type == json_type::array ? "array" : "object",
                     "; a cell is a string, a number, true, false or null"));
    return simdjson::SUCCESS;
  }

  std::string_view WithSign(std::string_view number, std::string* room) const {
    room->assign(number);
    std::ranges::replace(*room, '.', decimal_sign_);
    return *room;
  }

  // Of the row: the members that are no field, one of which may be a field's name mistyped.
  std::string OthersText() const {
    std::string text;
    for (size_t i = 0; i < std::min(others_.size(), kMostOthers); ++i) {
      absl::StrAppend(&text, text.empty() ? " (members that are not read: " : ", ",
                      Quoted(others_[i]));
    }
    if (others_.size() > kMostOthers) text += " and more";
    return text.empty() ? text : text + ")";
  }

  // `json`: where it is, if that is known.
  Status Malformed(Error error, document* json) const {
    std::string where;
    const char* at = nullptr;
    if (json != nullptr && !json->current_location().get(at)) {
      where = absl::StrCat(" near byte ", at - text_.data());
    }
    return WithBeginning(absl::InvalidArgumentError(absl::StrCat("malformed JSON", where, ": ",
                                                                 simdjson::error_message(error))),
                         text_);
  }

  const std::vector<std::string> names_;
  const size_t verbatim_;    // the position of the field whose numbers stand as they came, or none
  size_t twin_of_verbatim_;  // that of the same name, or none
  absl::flat_hash_map<std::string, size_t> positions_;  // of names
  absl::flat_hash_set<std::string> parents_;            // what a name has before one of its dots
  const char decimal_sign_;
  const Absent absent_;
  std::vector<std::string_view> fields_;
  std::vector<std::string> numbers_;  // of each field, where it needs another decimal sign
  std::vector<uint64_t> seen_in_;     // the row in which each field was seen last
  uint64_t row_ = 0;                  // of all calls, from 1
  std::vector<std::string> others_;   // of the row: its first members that are no field
  std::string path_;                  // of the member that is being read
  std::string text_;                  // and its padding, in the capacity
  simdjson::ondemand::parser parser_;
};

JsonFields::JsonFields(std::vector<std::string> names, char decimal_sign, Absent absent,
                       const std::string& verbatim)
    : reader_(std::make_unique<Reader>(std::move(names), decimal_sign, absent, verbatim)) {}
JsonFields::~JsonFields() = default;
JsonFields::JsonFields(JsonFields&& other) noexcept = default;

const std::vector<std::string>& JsonFields::names() const { return reader_->names(); }

StatusOr<JsonFields::Shape> JsonFields::ForEach(std::string_view text, const TakeFields& take) {
  return reader_->ForEach(text, take);
}

}  // namespace millrace
