// An exported model in a folder, which may be replaced by a newer one at any time.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "base/status.h"
#include "exports/model_scorer.h"
#include "predictor/model_source.h"

namespace millrace {

// Thread-safe.
class ModelFolder final : public ModelSource {
 public:
  // Reads the model. Errors: those of ReadModel.
  static StatusOr<std::unique_ptr<ModelFolder>> Open(std::string folder);

  // The newest model that could be read; never null.
  std::shared_ptr<const ModelScorer> model() const override;
  // Why what is there now could not be read, or that nothing is; OK: it is model().
  Status newer() const override;

  // Reads the folder again if another model stands in it, or if what stood there the last time
  // could not be read. Returns whether there is a new one; if there is none the one before stays.
  StatusOr<bool> Refresh();

  const std::string& folder() const { return folder_; }

 private:
  // What tells a file from another under the same name.
  struct FileId {
    uint64_t device = 0;
    uint64_t inode = 0;
    int64_t changed_ns = 0;  // of the inode, which no copy can set
    bool operator==(const FileId&) const = default;
  };

  explicit ModelFolder(std::string folder) : folder_(std::move(folder)) {}

  FileId Find() const;
  Status Read(const FileId& found);

  const std::string folder_;
  std::mutex reading_;  // held by who reads
  FileId read_;         // guarded by reading_
  mutable std::mutex mutex_;
  std::shared_ptr<const ModelScorer> model_;  // guarded by mutex_
  Status newer_;                              // guarded by mutex_
};

}  // namespace millrace
