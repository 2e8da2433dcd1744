#include "follower/weights_feed.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "topics/server_groups.h"

namespace millrace {
WeightsFeed::WeightsFeed(JobModel model)
    : model_(std::move(model)),
      reader_(ShapeOfAnswers(model_.features(), model_.training(), model_.model())),
      parts_(ShardsOfGroup(model_.training())) {
  MILLRACE_CHECK(model_.model().row_width() == 0);
}

StatusOr<std::shared_ptr<const SharedWeights>> WeightsFeed::Take(std::string_view key,
                                                                 std::string_view value,
                                                                 int64_t timestamp_ms) {
  MILLRACE_ASSIGN_OR_RETURN(std::shared_ptr<const SharedWeights> weights, reader_.Take(key, value));
  if (weights == nullptr) return weights;
  Part& part = parts_.at(weights->shard());
  if (part.weights != nullptr && weights->version() <= part.weights->version()) {
    return std::shared_ptr<const SharedWeights>();
  }
  part = {.weights = weights, .sent_ms = timestamp_ms};
  return weights;
}

size_t WeightsFeed::missing() const {
  return static_cast<size_t>(
      std::ranges::count_if(parts_, [](const Part& part) { return part.weights == nullptr; }));
}

int64_t WeightsFeed::sent_ms() const {
  MILLRACE_CHECK(missing() == 0);
  return std::ranges::min_element(parts_, {}, &Part::sent_ms)->sent_ms;
}

StatusOr<ExportedModel> WeightsFeed::ToModel() const {
  MILLRACE_CHECK(missing() == 0);
  std::vector<float> weights(model_.model().parameter_count());
  for (const Part& part : parts_) {
    const Slice& slice = part.weights->slice();
    std::ranges::copy(slice.dense(), weights.begin() + static_cast<ptrdiff_t>(slice.begin()));
  }
  MILLRACE_ASSIGN_OR_RETURN(ExportedModel model,
                            model_.Export(weights, parts_.front().weights->moments()));
  model.description.set_created_ms(sent_ms());
  model.description.set_rows(parts_.front().weights->rows_trained());
  model.description.set_clock(parts_.front().weights->clock());
  return model;
}

}  // namespace millrace
