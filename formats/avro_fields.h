// Rows as Avro: the cells of a record, by the names of its fields.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "formats/avro_schema.h"

namespace millrace {

// Reads values in Avro's binary encoding as records of these fields. A field is named as that of
// the record; of a record in a record, or of a map in it (by its key), by both names with a dot
// between, at any depth. A union has what its branch has. The cell of
//  - null, and of what is not there, is empty;
//  - a string, and an enum, is its text;
//  - a boolean is true or false;
//  - an int or a long is its digits; a float or a double the fewest digits that mean it, with the
//    decimal sign of such a CSV; nan, inf and -inf where it is none;
//  - a decimal is its digits, with as many behind the decimal sign as its scale;
//  - a date is 2013-01-31; a timestamp 2013-01-31T10:00:00.123Z, a local one the same without Z
//    (features/time_value.h reads them). The fraction has 3, 6 or 9 digits, or is left out if 0.
// Bytes and fixed that are no decimals, arrays, maps and records are no cells. Fields that are not
// asked for are passed over, whatever they are.
//
// No memory is taken for what a value says, only for the cells, and time follows from its bytes.
// Not thread-safe.
class AvroFields {
 public:
  // `names` are distinct.
  explicit AvroFields(std::vector<std::string> names, char decimal_sign = '.');
  ~AvroFields();
  AvroFields(AvroFields&&) noexcept;
  AvroFields& operator=(AvroFields&&) = delete;

  // The fields in the order of their names; the views are valid until TakeFields returns.
  using TakeFields = std::function<Status(std::span<const std::string_view> fields)>;

  // Hands over the one row of `value`, which is no more than that, and returns the error of `take`.
  // InvalidArgument, with the byte or the field: bytes that are no value of the schema, or nested
  // deeper than kMostSchemaDepth; invalid UTF-8 in a cell; a time before the year 0 or after 9999;
  // a field that is there twice, or whose value is no cell.
  Status Read(const AvroSchema& schema, std::string_view value, const TakeFields& take);

 private:
  class Reader;

  std::unique_ptr<Reader> reader_;
};

}  // namespace millrace
