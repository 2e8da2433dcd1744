#include "producer/row_decoder.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "features/quoted_value.h"
#include "formats/avro_fields.h"
#include "formats/csv_file.h"
#include "formats/csv_parser.h"
#include "formats/json_fields.h"
#include "producer/schema_header.h"

namespace millrace {
namespace {

// These columns of a CSV, whichever they are.
class PickedColumns {
 public:
  static StatusOr<PickedColumns> Find(const std::vector<std::string>& header,
                                      const std::vector<std::string>& columns,
                                      const std::string& flag) {
    PickedColumns picked;
    for (const std::string& column : columns) {
      MILLRACE_ASSIGN_OR_RETURN(const size_t position, FindColumn(header, column, flag));
      picked.positions_.push_back(position);
    }
    picked.picked_.resize(columns.size());
    return picked;
  }

  // As CsvColumns::Select(), of a record with as many fields as the header.
  StatusOr<std::span<const std::string_view>> Select(std::span<const std::string_view> fields) {
    for (size_t i = 0; i < positions_.size(); ++i) picked_[i] = fields[positions_[i]];
    return picked_;
  }

 private:
  std::vector<size_t> positions_;
  std::vector<std::string_view> picked_;
};

template <typename Columns>
class CsvLine {
 public:
  CsvLine(Columns columns, size_t fields, char delimiter, std::string flag)
      : columns_(std::move(columns)),
        fields_(fields),
        delimiter_(delimiter),
        flag_(std::move(flag)) {}

  Status Decode(std::string_view value, const TakeCells& take) {
    const std::string_view line = value.substr(0, value.find_last_not_of("\r\n") + 1);
    CsvParser parser({}, delimiter_);
    parser.Feed(line);
    parser.Finish();
    CsvRecord record;
    if (parser.Next(&record) != CsvParser::Event::kRecord) {
      return absl::InvalidArgumentError("an empty line");
    }
    if (!record.ok()) return absl::InvalidArgumentError(record.error);
    if (parser.consumed() != line.size()) {
      return absl::InvalidArgumentError("more than one line: a record has one row");
    }
    if (record.fields.size() != fields_) {
      return absl::InvalidArgumentError(
          absl::StrCat(record.fields.size(), record.fields.size() == 1 ? " field" : " fields",
                       ", but ", flag_, " names ", fields_));
    }
    MILLRACE_ASSIGN_OR_RETURN(const auto cells, columns_.Select(record.fields));
    return take(cells);
  }

 private:
  Columns columns_;
  size_t fields_;
  char delimiter_;
  std::string flag_;
};

Status CheckHeader(const std::vector<std::string>& header, const std::string& flag) {
  for (auto name = header.begin(); name != header.end(); ++name) {
    if (std::find(header.begin(), name, *name) == name) continue;
    return absl::InvalidArgumentError(absl::StrCat(flag, " names '", *name, "' twice"));
  }
  return absl::OkStatus();
}

template <typename Columns>
CellDecoder DecodeCsvLine(Columns columns, size_t fields, char delimiter, const std::string& flag) {
  CsvLine<Columns> line(std::move(columns), fields, delimiter, flag);
  return [line = std::move(line)](std::string_view value, const TakeCells& take) mutable {
    return line.Decode(value, take);
  };
}

// An error of such a record.
Status OfSchema(uint32_t schema, const Status& decoded) {
  if (decoded.ok()) return decoded;
  return Status(decoded.code(), absl::StrCat("schema ", schema, ": ", decoded.message()));
}

}  // namespace

bool IsOfNoRecord(const Status& decoded) {
  return !decoded.ok() && !absl::IsInvalidArgument(decoded);
}

CellDecoder DecodeJson(std::vector<std::string> columns, bool decimal_comma) {
  // A function can be copied, JsonFields cannot.
  auto fields = std::make_shared<JsonFields>(std::move(columns), decimal_comma ? ',' : '.',
                                             JsonFields::Absent::kEmpty);
  const auto decode = [fields](std::string_view value, const TakeCells& take) -> Status {
    MILLRACE_ASSIGN_OR_RETURN(const JsonFields::Shape shape, fields->ForEach(value, take));
    if (shape == JsonFields::Shape::kObject) return absl::OkStatus();
    return absl::InvalidArgumentError("an array of rows: a record has one row, an object");
  };
  return [decode](std::string_view value, const TakeCells& take) -> Status {
    const std::optional<HeadedValue> headed = SplitSchemaHeader(value);
    if (!headed) return decode(value, take);
    return OfSchema(headed->schema, decode(headed->body, take));
  };
}

CellDecoder DecodeAvro(std::vector<std::string> columns, bool decimal_comma,
                       std::shared_ptr<const AvroSchema> schema) {
  auto fields = std::make_shared<AvroFields>(std::move(columns), decimal_comma ? ',' : '.');
  return [fields, schema = std::move(schema)](std::string_view value, const TakeCells& take) {
    return fields->Read(*schema, value, take);
  };
}

CellDecoder DecodeAvro(std::vector<std::string> columns, bool decimal_comma,
                       std::shared_ptr<SchemaCache> schemas) {
  auto fields = std::make_shared<AvroFields>(std::move(columns), decimal_comma ? ',' : '.');
  return [fields, schemas = std::move(schemas)](std::string_view value,
                                                const TakeCells& take) -> Status {
    const std::optional<HeadedValue> headed = SplitSchemaHeader(value);
    if (!headed) {
      return absl::InvalidArgumentError(
          "no schema registry's header (a byte 0 and four of a schema's id); Avro without it needs "
          "--avro-schema");
    }
    MILLRACE_ASSIGN_OR_RETURN(const SchemaCache::Schema schema, schemas->Get(headed->schema));
    return OfSchema(headed->schema, fields->Read(*schema, headed->body, take));
  };
}

StatusOr<CellDecoder> DecodeCsv(const std::vector<std::string>& header,
                                const FeatureEncoder& encoder, char delimiter,
                                CsvColumns::Label label) {
  const std::string flag = "--columns";
  MILLRACE_RETURN_IF_ERROR(CheckHeader(header, flag));
  StatusOr<CsvColumns> columns = CsvColumns::Find(encoder, header, flag, label);
  if (!columns.ok()) return absl::InvalidArgumentError(columns.status().message());
  return DecodeCsvLine(*std::move(columns), header.size(), delimiter, flag);
}

StatusOr<CellDecoder> DecodeCsv(const std::vector<std::string>& header,
                                const std::vector<std::string>& columns, char delimiter,
                                const std::string& flag) {
  MILLRACE_RETURN_IF_ERROR(CheckHeader(header, flag));
  StatusOr<PickedColumns> picked = PickedColumns::Find(header, columns, flag);
  if (!picked.ok()) return absl::InvalidArgumentError(picked.status().message());
  return DecodeCsvLine(*std::move(picked), header.size(), delimiter, flag);
}

std::vector<std::string> KeyedColumns(const FeatureEncoder& encoder, const std::string& key) {
  const std::vector<std::string>& required = encoder.required_columns();
  std::vector<std::string> columns(required.begin() + 1, required.end());
  if (std::ranges::find(columns, key) == columns.end()) columns.push_back(key);
  return columns;
}

RowDecoder::RowDecoder(CellDecoder cells, FeatureEncoder encoder, const std::string& key)
    : cells_(std::move(cells)),
      encoder_(std::move(encoder)),
      columns_(KeyedColumns(encoder_, key)),
      key_(static_cast<size_t>(std::ranges::find(columns_, key) - columns_.begin())),
      has_value_(columns_.size()) {}

void RowDecoder::NoteValues(std::span<const std::string_view> cells) {
  for (size_t i = 0; i < cells.size(); ++i) {
    if (!cells[i].empty()) has_value_[i] = true;
  }
}

Status RowDecoder::Decode(std::string_view value, Row* row) {
  Status decoded = cells_(value, [this, row](std::span<const std::string_view> cells) {
    Status encoded = encoder_.Encode(cells, row);
    if (encoded.ok()) NoteValues(cells);
    return encoded;
  });
  if (decoded.ok()) ++rows_;
  return decoded;
}

Status RowDecoder::DecodeKeyed(std::string_view value, Row* row, std::string* key) {
  Status decoded = cells_(value, [&](std::span<const std::string_view> cells) -> Status {
    const std::string_view cell = cells[key_];
    if (cell.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("no key to find a label by: column ",
                                                     QuotedValue(columns_[key_]),
                                                     " (--join-key) is empty or not there"));
    }
    // A key that is no feature stands behind them.
    const size_t features = encoder_.required_columns().size() - 1;
    MILLRACE_RETURN_IF_ERROR(encoder_.EncodeFeatures(cells.first(features), row));
    key->assign(cell);
    NoteValues(cells);
    return absl::OkStatus();
  });
  if (decoded.ok()) ++rows_;
  return decoded;
}

std::vector<std::string> RowDecoder::EmptyColumns() const {
  std::vector<std::string> empty;
  for (size_t i = 0; i < has_value_.size(); ++i) {
    if (!has_value_[i]) empty.push_back(columns_[i]);
  }
  return empty;
}

}  // namespace millrace
