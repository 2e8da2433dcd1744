#include "processors/server_options.h"

#include <optional>
#include <utility>
#include <vector>

#include "topics/parameter_layout.h"

namespace millrace {

std::vector<NamedTable> TablesOf(const std::vector<ServedParameter>& parameters) {
  std::vector<NamedTable> tables;
  for (uint32_t number = 0; number < parameters.size(); ++number) {
    const size_t width = parameters[number].row_width;
    if (width > 0) tables.push_back({.parameter = number, .width = width});
  }
  return tables;
}

GradientShape GradientShapeFrom(const ServerOptions& options) {
  std::vector<KeyRange> parameters;
  for (const ServedParameter& parameter : options.parameters) {
    parameters.push_back(PartOf(parameter.keys, options.range));
  }
  std::vector<uint32_t> sources;
  for (const GroupPeer& source : options.sources) sources.push_back(source.group);
  return {.job = options.job,
          .epoch = options.epoch,
          .shard = options.shard,
          .shards = options.shards,
          .range = options.range,
          .workers = options.workers,
          .classes = options.classes,
          .numeric_columns = options.numeric_columns,
          .row_width = options.embeddings ? options.embeddings->width() : 0,
          .parameters = std::move(parameters),
          .tables = TablesOf(options.parameters),
          .values = options.values,
          .pipeline = options.pipeline,
          .neighbor = options.neighbor ? std::optional(options.neighbor->peer.group) : std::nullopt,
          .sources = std::move(sources)};
}

}  // namespace millrace
