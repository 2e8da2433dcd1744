// Turns the value of a record that somebody else wrote into a Row. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "features/csv_columns.h"
#include "features/feature_encoder.h"
#include "formats/avro_schema.h"
#include "models/row.h"
#include "producer/schema_cache.h"

namespace millrace {

// Hands over the cells of the columns that it was made for, in their order; the views are valid
// until the call returns.
using TakeCells = std::function<Status(std::span<const std::string_view> cells)>;
// Calls `take` with the cells of the one row that `value` holds, and returns its error. Another
// format of records is another of these functions. InvalidArgument with the reason, maybe after a
// call of `take`: the value holds no row, or several. Any other error: whether it does is not known
// (DecodeAvro). Not thread-safe.
using CellDecoder = std::function<Status(std::string_view value, const TakeCells& take)>;

// A JSON object; `columns` as in formats/json_fields.h. A member that is not there is an empty
// cell. The header of a schema registry may stand before it (producer/schema_header.h).
CellDecoder DecodeJson(std::vector<std::string> columns, bool decimal_comma);

// A value in Avro's encoding, of this schema; `columns` as in formats/avro_fields.h.
CellDecoder DecodeAvro(std::vector<std::string> columns, bool decimal_comma,
                       std::shared_ptr<const AvroSchema> schema);
// The same, of the schema that the registry's header names. Errors that are not InvalidArgument are
// those of SchemaCache::Get(), and say nothing of the value.
CellDecoder DecodeAvro(std::vector<std::string> columns, bool decimal_comma,
                       std::shared_ptr<SchemaCache> schemas);

// A line of CSV (formats/csv_parser.h), perhaps with its end, with the fields that `header` names;
// those that the encoder requires are picked, without the label if it may be missing and is.
// InvalidArgument: a column that the header has not, or a name that it has twice.
StatusOr<CellDecoder> DecodeCsv(const std::vector<std::string>& header,
                                const FeatureEncoder& encoder, char delimiter,
                                CsvColumns::Label label = CsvColumns::Label::kNeeded);

// Makes rows of values. Not thread-safe.
class RowDecoder {
 public:
  // `cells` are those of encoder.required_columns().
  RowDecoder(CellDecoder cells, FeatureEncoder encoder)
      : cells_(std::move(cells)),
        encoder_(std::move(encoder)),
        has_value_(encoder_.required_columns().size()) {}

  // Overwrites *row. InvalidArgument with the reason: there is no row. Others: of the CellDecoder.
  Status Decode(std::string_view value, Row* row);

  uint64_t rows() const { return rows_; }  // that were made
  // The columns whose cells were empty in all of these rows: maybe they are called otherwise.
  std::vector<std::string> EmptyColumns() const;

 private:
  CellDecoder cells_;
  FeatureEncoder encoder_;
  uint64_t rows_ = 0;
  std::vector<bool> has_value_;  // of each column, in one of the rows at least
};

}  // namespace millrace
