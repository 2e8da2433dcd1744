#include "processors/update_figures.h"

#include <algorithm>

#include "models/moments.h"
#include "topics/figures_codec.h"

namespace millrace {

void DescribeBatch(const Batch& batch, const BatchTrainer::Result& result,
                   Gradient::Update& update) {
  const BatchLoss& loss = result.loss;
  update.set_row_count(result.trained.size());
  update.set_weight_sum(loss.weight_sum);
  update.set_rows_end(batch.rows_end);
  update.set_repeated_end(batch.repeated_end);
  update.set_train_loss(loss.weight_sum > 0 ? loss.loss_sum / loss.weight_sum : 0);
}

void AddBatchFigures(const WorkerOptions& options, const Progress& begin, const Batch& batch,
                     const BatchTrainer::Result& result, Gradient::Update& update) {
  if (options.pipeline > 1) update.set_rows_begin(begin.rows_end);
  update.set_new_rows(result.new_trained);
  ToProto(result.progressive, *update.mutable_progressive());
  if (result.tail.rows > 0) ToProto(result.tail, *update.mutable_tail());
  if (options.training.scaling() == Training::RUNNING) {
    ToProto(result.new_moments, *update.mutable_moments());
  } else {
    Moments counted;  // the columns are used as they are
    counted.class_rows = result.new_moments.class_rows;
    counted.target = result.new_moments.target;
    ToProto(counted, *update.mutable_moments());
  }
  *update.mutable_dead_letters() = {batch.dead_letters.begin(), batch.dead_letters.end()};
}

// As the server counts it (RowHistory::Count).
Progress AfterBatch(const Progress& begin, const Batch& batch) {
  const bool has_new = batch.rows_end > begin.rows_end;
  return {begin.clock + 1, batch.rows_end, has_new ? 0 : begin.updates_without_rows + 1,
          std::max(begin.repeated_end, batch.repeated_end)};
}

}  // namespace millrace
