#include "producer/source_format.h"

#include <chrono>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/whole_file.h"
#include "formats/csv_dialect.h"
#include "producer/schema_header.h"

namespace millrace {
namespace {

Status CheckFormat(const JobConfig& config, const SourceFormat::Options& options) {
  const bool is_avro = options.kind == SourceFormat::Kind::kAvro;
  const bool has_registry = !options.registry.url.empty();
  if (options.kind == SourceFormat::Kind::kCsv && options.columns.empty()) {
    return absl::InvalidArgumentError(
        "lines of CSV have no header here: name the fields of a line by --columns A,B,...");
  }
  if (options.kind != SourceFormat::Kind::kCsv && !options.columns.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--columns names the fields of CSV lines, and needs --format csv: ",
                     is_avro ? "Avro" : "JSON", " has the names"));
  }
  if (config.csv().encoding() != CsvFormat::UTF8) {
    return absl::InvalidArgumentError("csv.encoding: records are read as UTF-8 only");
  }
  if (!has_registry && (!options.registry.user_file.empty() || !options.registry.ca_file.empty())) {
    return absl::InvalidArgumentError(
        "--schema-registry-user-file and --schema-registry-ca need --schema-registry URL");
  }
  if (!is_avro && (has_registry || !options.avro_schema_file.empty())) {
    return absl::InvalidArgumentError(
        "--schema-registry and --avro-schema need --format avro (JSON is read without its schema; "
        "a registry's header before it is passed over)");
  }
  if (is_avro && has_registry != options.avro_schema_file.empty()) {
    return absl::InvalidArgumentError(
        "--format avro needs the schemas: give --schema-registry URL, or, of records without a "
        "registry's header, --avro-schema FILE");
  }
  return absl::OkStatus();
}

StatusOr<std::shared_ptr<const AvroSchema>> ReadSchemaFile(const std::string& path) {
  StatusOr<std::string> text = ReadWholeFile(path, kMostSchemaBytes);
  StatusOr<AvroSchema> schema = text.ok() ? AvroSchema::Parse(*text) : text.status();
  if (!schema.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("--avro-schema ", path, ": ", schema.status().message()));
  }
  return std::make_shared<const AvroSchema>(*std::move(schema));
}

}  // namespace

StatusOr<SourceFormat> SourceFormat::Create(const JobConfig& config, const Options& options,
                                            const SchemaCache::Say& say) {
  MILLRACE_RETURN_IF_ERROR(CheckFormat(config, options));
  SourceFormat format;
  format.kind_ = options.kind;
  format.columns_ = options.columns;
  format.decimal_comma_ = config.features().decimal_comma();
  if (config.csv().has_delimiter()) {
    const StatusOr<char> delimiter = ParseDelimiter(config.csv().delimiter());
    if (!delimiter.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--delimiter: ", delimiter.status().message()));
    }
    format.delimiter_ = *delimiter;
  }
  if (!options.avro_schema_file.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(format.schema_, ReadSchemaFile(options.avro_schema_file));
  }
  if (!options.registry.url.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(std::shared_ptr<SchemaRegistry> registry,
                              SchemaRegistry::Create(options.registry));
    format.schemas_ = std::make_shared<SchemaCache>(
        [registry](uint32_t id) { return registry->Schema(id); },
        [registry](const SchemaReference& reference) { return registry->Schema(reference); }, say);
  }
  return format;
}

StatusOr<CellDecoder> SourceFormat::MakeDecoder(const FeatureEncoder& encoder) const {
  if (kind_ == Kind::kCsv) return DecodeCsv(columns_, encoder, delimiter_);
  return MakeDecoder(encoder.required_columns());
}

StatusOr<CellDecoder> SourceFormat::MakeDecoder(const std::vector<std::string>& columns) const {
  if (kind_ == Kind::kCsv) return DecodeCsv(columns_, columns, delimiter_, columns_flag_);
  if (kind_ == Kind::kJson) return DecodeJson(columns, decimal_comma_);
  return MakeAvroDecoder(columns, decimal_comma_);
}

CellDecoder SourceFormat::MakeAvroDecoder(std::vector<std::string> columns,
                                          bool decimal_comma) const {
  MILLRACE_CHECK(kind_ == Kind::kAvro);
  if (schema_ != nullptr) return DecodeAvro(std::move(columns), decimal_comma, schema_);
  return DecodeAvro(std::move(columns), decimal_comma, schemas_);
}

std::vector<std::string> SourceFormat::FieldNames(std::string_view value) const {
  if (schema_ != nullptr) return schema_->root().names;
  const std::optional<HeadedValue> headed = SplitSchemaHeader(value);
  if (!headed || schemas_ == nullptr) return {};
  const StatusOr<SchemaCache::Schema> schema = schemas_->Get(headed->schema);
  return schema.ok() ? (*schema)->root().names : std::vector<std::string>();
}

SourceFormat SourceFormat::WithColumns(std::vector<std::string> columns, std::string flag) const {
  SourceFormat other = *this;
  other.columns_ = std::move(columns);
  other.columns_flag_ = std::move(flag);
  return other;
}

}  // namespace millrace
