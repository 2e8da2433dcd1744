// A source of models that come when a test says so.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "exports/exported_model.h"
#include "predictor/model_source.h"

namespace millrace {

// Thread-safe.
class GivenModels final : public ModelSource {
 public:
  void Give(ExportedModel model) {
    const std::lock_guard lock(mutex_);
    model_ = std::make_shared<const ModelScorer>(std::move(model));
  }
  std::shared_ptr<const ModelScorer> model() const override {
    const std::lock_guard lock(mutex_);
    return model_;
  }
  Status newer() const override { return absl::NotFoundError("the job has not begun"); }
  std::string MoreJson() const override { return ",\"ended\":false"; }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const ModelScorer> model_;
};

}  // namespace millrace
