#include "processors/worker_options.h"

namespace millrace {

WeightsShape WeightsShapeFrom(const WorkerOptions& options, const Model& model) {
  return {.job = options.job,
          .epoch = options.epoch,
          .shards = options.shards,
          .workers = options.workers,
          .parameters = model.parameter_count(),
          .classes = options.classes,
          .numeric_columns = options.numeric_columns,
          .row_width = model.row_width(),
          .tables = options.tables,
          .pipeline = options.pipeline};
}

}  // namespace millrace
