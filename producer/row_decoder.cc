#include "producer/row_decoder.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "formats/avro_fields.h"
#include "formats/csv_parser.h"
#include "formats/json_fields.h"
#include "producer/schema_header.h"

namespace millrace {
namespace {

class CsvLine {
 public:
  CsvLine(CsvColumns columns, size_t fields, char delimiter)
      : columns_(std::move(columns)), fields_(fields), delimiter_(delimiter) {}

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
                       ", but --columns names ", fields_));
    }
    MILLRACE_ASSIGN_OR_RETURN(const auto cells, columns_.Select(record.fields));
    return take(cells);
  }

 private:
  CsvColumns columns_;
  size_t fields_;
  char delimiter_;
};

// An error of such a record.
Status OfSchema(uint32_t schema, const Status& decoded) {
  if (decoded.ok()) return decoded;
  return Status(decoded.code(), absl::StrCat("schema ", schema, ": ", decoded.message()));
}

}  // namespace

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
  for (auto name = header.begin(); name != header.end(); ++name) {
    if (std::find(header.begin(), name, *name) == name) continue;
    return absl::InvalidArgumentError(absl::StrCat("--columns names '", *name, "' twice"));
  }
  StatusOr<CsvColumns> columns = CsvColumns::Find(encoder, header, "--columns", label);
  if (!columns.ok()) return absl::InvalidArgumentError(columns.status().message());
  CsvLine line(*std::move(columns), header.size(), delimiter);
  return [line = std::move(line)](std::string_view value, const TakeCells& take) mutable {
    return line.Decode(value, take);
  };
}

Status RowDecoder::Decode(std::string_view value, Row* row) {
  Status decoded = cells_(value, [this, row](std::span<const std::string_view> cells) {
    Status encoded = encoder_.Encode(cells, row);
    if (!encoded.ok()) return encoded;
    for (size_t i = 0; i < cells.size(); ++i) {
      if (!cells[i].empty()) has_value_[i] = true;
    }
    return encoded;
  });
  if (decoded.ok()) ++rows_;
  return decoded;
}

std::vector<std::string> RowDecoder::EmptyColumns() const {
  std::vector<std::string> empty;
  for (size_t i = 0; i < has_value_.size(); ++i) {
    if (!has_value_[i]) empty.push_back(encoder_.required_columns()[i]);
  }
  return empty;
}

}  // namespace millrace
