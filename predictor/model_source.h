// Where the newest model to predict by comes from.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "exports/model_scorer.h"

namespace millrace {

// Thread-safe. Models of one source may come hundreds of times a second, and be of other features
// than the one before.
class ModelSource {
 public:
  virtual ~ModelSource() = default;

  // The newest model; null: there is none yet, and newer() says why.
  virtual std::shared_ptr<const ModelScorer> model() const = 0;
  // Why a newer model cannot be had, or none at all; OK: model() is the newest.
  virtual Status newer() const = 0;
  // What else is known of it, as members of a JSON object, each behind a comma.
  virtual std::string MoreJson() const { return ""; }
};

}  // namespace millrace
