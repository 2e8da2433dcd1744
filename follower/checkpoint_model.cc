#include "follower/checkpoint_model.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "models/online_softmax.h"
#include "tasks/model_description.h"

namespace millrace {
namespace {

constexpr size_t kRowsAtOnce = 4096;

struct FoundRow {
  CheckpointImage::RowPlace row;
  const CheckpointImage* image = nullptr;
};

// All of them, by their ids.
std::vector<FoundRow> FindRows(std::span<const CheckpointImage* const> images) {
  std::vector<FoundRow> found;
  std::vector<CheckpointImage::RowPlace> of_shard;
  for (const CheckpointImage* const image : images) {
    of_shard.clear();
    image->AppendRows(of_shard);
    for (const CheckpointImage::RowPlace& row : of_shard) found.push_back({row, image});
  }
  std::ranges::sort(found, {}, [](const FoundRow& each) { return each.row.id; });
  return found;
}

// `parameters`: the dense ones.
void AddRows(const Model& job, const std::vector<float>& parameters,
             std::span<const CheckpointImage* const> images, ExportedModel& model) {
  const size_t width = job.row_width();
  if (width == 0) return;
  const std::vector<FoundRow> found = FindRows(images);
  model.ids.reserve(found.size());
  model.rows.reserve(found.size() * model.description.shape().row_width());
  std::vector<float> values;
  for (size_t begin = 0; begin < found.size(); begin += kRowsAtOnce) {
    const size_t count = std::min(kRowsAtOnce, found.size() - begin);
    values.resize(count * width);
    for (size_t i = 0; i < count; ++i) {
      const FoundRow& each = found[begin + i];
      model.ids.push_back(each.row.id);
      each.image->ReadRow(each.row.place, std::span(values).subspan(i * width, width));
    }
    const std::vector<float> rows =
        job.online() != nullptr ? job.online()->MixBlocks(parameters, values) : values;
    model.rows.insert(model.rows.end(), rows.begin(), rows.end());
  }
}

}  // namespace

StatusOr<ExportedModel> ModelOfCheckpoints(const JobModel& job,
                                           std::span<const CheckpointImage* const> images) {
  std::vector<float> parameters(job.model().parameter_count());
  int64_t updated_ms = INT64_MAX;
  for (const CheckpointImage* const image : images) {
    std::ranges::copy(image->weights(),
                      parameters.begin() + static_cast<ptrdiff_t>(image->range().begin));
    updated_ms = std::min(updated_ms, image->state().seen_ms());
  }
  const ShardState& first = images.front()->state();
  MILLRACE_ASSIGN_OR_RETURN(ExportedModel model, job.Export(parameters, first.moments()));
  DescribeFigures(first, model.description);
  model.description.set_created_ms(updated_ms);
  for (const ShardState::Member& member : first.members()) {
    model.description.set_clock(std::max<uint64_t>(model.description.clock(), member.clock()));
  }
  AddRows(job.model(), parameters, images, model);
  const auto is_number = [](float value) { return std::isfinite(value); };
  if (!std::ranges::all_of(model.rows, is_number)) return job.NoNumbers();
  return model;
}

}  // namespace millrace
