// What a worker does with the steps of a trainer of one's own, in place of batches of rows.

#include <memory>
#include <utility>
#include <vector>

#include "base/check.h"
#include "processors/shard_view.h"
#include "processors/trainer_steps.h"
#include "processors/update_figures.h"
#include "processors/worker_training_processor.h"
#include "topics/gradient_codec.h"
#include "topics/message_bytes.h"
#include "topics/partitioning.h"
#include "topics/weights_codec.h"

namespace millrace {
namespace {

// What the bytes of a message to one shard have views of.
struct ViewedStep {
  explicit ViewedStep(std::shared_ptr<const TrainerStep> of) : step(std::move(of)) {}

  std::shared_ptr<const TrainerStep> step;
  StepRows rows;  // of the shard, if there are others
};

}  // namespace

WorkerTrainingProcessor::WorkerTrainingProcessor(const WorkerOptions& options, const Model& model,
                                                 TrainerSteps& steps, uint64_t last_number)
    : WorkerTrainingProcessor(options, model, static_cast<BatchSource&>(steps), last_number) {
  steps_ = &steps;
}

void WorkerTrainingProcessor::OfferValues() {
  if (steps_ == nullptr || !steps_->WantsValues(next_.clock)) return;
  std::vector<std::shared_ptr<const Slice>> values;
  std::vector<std::span<const uint32_t>> put;
  for (const Part& part : parts_) {
    const Weights& message = MessageOf(part);
    MILLRACE_CHECK(HasWeights(message) && (part.values != nullptr || !message.has_shared()));
    values.push_back(SliceOf(AnswerOf(part), part.values));
    const auto& has_values = message.has_values();
    put.emplace_back(has_values.data(), static_cast<size_t>(has_values.size()));
  }
  steps_->TakeValues(next_.clock, std::move(values), put);
}

void WorkerTrainingProcessor::OfferRows(WorkerOutput& output) {
  if (steps_ == nullptr || steps_->MissingRows().empty()) return;
  if (steps_->values_at() != next_.clock) return;  // they are of a step that is over
  if (options_.pipeline > 1 && steps_->WantsNewRows()) {
    for (Part& part : parts_) part.rows.Clear();
  }
  std::vector<std::vector<EmbeddingId>> needed =
      SplitByShard(steps_->MissingRows(), options_.shards);
  if (needed != needed_) {
    needed_ = std::move(needed);
    for (Part& part : parts_) part.asked_for_embeddings.reset();
  }
  if (!HasEmbeddings(output)) return;
  AssembleEmbeddings();
  steps_->TakeRows(rows_.values);
}

void WorkerTrainingProcessor::SendStep(WorkerOutput& output) {
  const std::shared_ptr<const TrainerStep> shared = steps_->Of(next_.clock);
  const TrainerStep& step = *shared;
  Gradient message = NewMessage();
  message.set_clock(next_.clock);
  Gradient::Update& update = *message.mutable_update();
  *update.mutable_mark() = Mark();
  update.set_attempt(++attempts_);
  update.set_row_count(step.rows);
  update.set_weight_sum(step.weight);
  if (options_.pipeline > 1) update.set_rows_begin(next_.rows_end);
  update.set_rows_end(batch_.rows_end);
  SendParts(
      message.number(),
      [&](ShardId shard) -> StatusOr<MessageBytes> {
        update.set_new_rows(shard == 0 ? step.rows : 0);
        steps_->NameRows(step, shard, update);
        const auto kept = std::make_shared<ViewedStep>(shared);
        MILLRACE_ASSIGN_OR_RETURN(
            MessageBytes bytes,
            SerializeStep(message, steps_->Cut(step.put, shard), steps_->Cut(step.part, shard),
                          steps_->CutRows(step, shard, kept->rows), options_.most_message_bytes));
        bytes.Keep(kept);
        return bytes;
      },
      output);
}

}  // namespace millrace
