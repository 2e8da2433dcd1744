// What an update says of its batch, and how far the worker is when it has been accepted. Pure.
#pragma once

#include "messages/records.pb.h"
#include "processors/batch_source.h"
#include "processors/batch_trainer.h"
#include "processors/worker_options.h"

namespace millrace {

// What all shards receive.
void DescribeBatch(const Batch& batch, const BatchTrainer::Result& result,
                   Gradient::Update& update);
// What only shard 0 receives. `begin`: what the update is made for.
void AddBatchFigures(const WorkerOptions& options, const Progress& begin, const Batch& batch,
                     const BatchTrainer::Result& result, Gradient::Update& update);
Progress AfterBatch(const Progress& begin, const Batch& batch);

}  // namespace millrace
