// How TopicSource and Predictor read the values of records.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "features/feature_encoder.h"
#include "formats/avro_schema.h"
#include "messages/job.pb.h"
#include "producer/row_decoder.h"
#include "producer/schema_cache.h"
#include "producer/schema_registry.h"

namespace millrace {

// Not thread-safe; its decoders share its schemas.
class SourceFormat {
 public:
  enum class Kind : uint8_t { kJson, kCsv, kAvro };

  struct Options {
    Kind kind = Kind::kJson;
    std::vector<std::string> columns;  // of kCsv: the names of a line's fields
    std::string avro_schema_file;      // of kAvro, without a registry's header
    SchemaRegistry::Options registry;  // of kAvro: which has the schemas; without a URL: none
  };

  // Reads files, and connects to nobody. `say` is that of SchemaCache; the stop flag of the
  // options outlives the format. InvalidArgument: options that make no sense; FailedPrecondition:
  // of a file.
  static StatusOr<SourceFormat> Create(const JobConfig& config, const Options& options,
                                       const SchemaCache::Say& say);

  // Of a schema that the registry has not told yet all decoders return SchemaCache's error of
  // questions in the background at once: SchemaWait calls them again.
  // Decodes the cells of encoder.required_columns(). InvalidArgument: --columns has not all of
  // them.
  StatusOr<CellDecoder> MakeDecoder(const FeatureEncoder& encoder) const;
  // Decodes the cells of these columns, which are distinct. The same error.
  StatusOr<CellDecoder> MakeDecoder(const std::vector<std::string>& columns) const;
  // The same of kAvro, of any columns, and with another decimal sign than the configuration's.
  CellDecoder MakeAvroDecoder(std::vector<std::string> columns, bool decimal_comma) const;

  // Of kAvro: the names of the fields of the record in `value`, by its schema; none where that is
  // not known.
  std::vector<std::string> FieldNames(std::string_view value) const;

  // The same for the records of another topic, whose CSV lines have these fields, by `flag`.
  SourceFormat WithColumns(std::vector<std::string> columns, std::string flag) const;

 private:
  SourceFormat() = default;

  Kind kind_ = Kind::kJson;
  std::vector<std::string> columns_;
  std::string columns_flag_ = "--columns";
  char delimiter_ = ',';
  bool decimal_comma_ = false;
  std::shared_ptr<const AvroSchema> schema_;
  std::shared_ptr<SchemaCache> schemas_;
};

}  // namespace millrace
