// Rows as JSON: the cells of an object, by the names of its members.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace millrace {

// Reads objects (RFC 8259) as records of these fields. A field is named as its member is; of an
// object in an object by both names with a dot between, at any depth ("customer.age"). A string is
// its text; a number is what stands there, digit for digit, so that it is read as in a CSV, but
// with the decimal sign of such a CSV; true and false are these words; null is the empty cell.
// Other members are not looked at.
//
// Not thread-safe.
class JsonFields {
 public:
  // What an object means that has no member of a field's name.
  enum class Absent {
    kError,   // a mistake
    kEmpty,   // the empty cell, as null does
    kMarked,  // the same, without a place (data() is null), by which it can be told from others
  };

  // `names` are distinct. `verbatim`: names one more field behind them, which may be one of them,
  // too; its numbers have the decimal sign that stands there. Empty: there is none.
  explicit JsonFields(std::vector<std::string> names, char decimal_sign = '.',
                      Absent absent = Absent::kError, const std::string& verbatim = "");
  ~JsonFields();
  JsonFields(JsonFields&&) noexcept;
  JsonFields& operator=(JsonFields&&) = delete;

  const std::vector<std::string>& names() const;

  enum class Shape { kObject, kArray };
  // The fields in the order of names(); the views are valid until TakeFields returns.
  using TakeFields = std::function<Status(std::span<const std::string_view> fields)>;

  // Hands over each object of `text`, which is one object or an array of objects. InvalidArgument,
  // with the position and the text's beginning (formats/text_beginning.h), or the row and the
  // field: malformed JSON, invalid UTF-8, an object without a member of this name (Absent::kError;
  // the error names some of its other members) or with two, a value that is an array or an object.
  // An error of `take` ends it, too, and is returned with the number of the row. Objects before an
  // error were handed over.
  StatusOr<Shape> ForEach(std::string_view text, const TakeFields& take);

 private:
  class Reader;

  std::unique_ptr<Reader> reader_;
};

}  // namespace millrace
