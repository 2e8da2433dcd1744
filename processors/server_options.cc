#include "processors/server_options.h"

namespace millrace {

GradientShape GradientShapeFrom(const ServerOptions& options) {
  return {.job = options.job,
          .epoch = options.epoch,
          .shard = options.shard,
          .shards = options.shards,
          .range = options.range,
          .workers = options.workers,
          .classes = options.classes,
          .numeric_columns = options.numeric_columns,
          .row_width = options.embeddings ? options.embeddings->width() : 0,
          .values = options.values,
          .pipeline = options.pipeline};
}

}  // namespace millrace
