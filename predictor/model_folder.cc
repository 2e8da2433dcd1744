#include "predictor/model_folder.h"

#include <sys/stat.h>

#include <utility>

#include "exports/model_files.h"
#include "exports/model_reader.h"

namespace millrace {

StatusOr<std::unique_ptr<ModelFolder>> ModelFolder::Open(std::string folder) {
  auto result = std::unique_ptr<ModelFolder>(new ModelFolder(std::move(folder)));
  MILLRACE_RETURN_IF_ERROR(result->Refresh().status());
  // There is nothing: ReadModel says it.
  if (result->model() == nullptr) MILLRACE_RETURN_IF_ERROR(result->Read(FileId()));
  return result;
}

std::shared_ptr<const ModelScorer> ModelFolder::model() const {
  const std::lock_guard lock(mutex_);
  return model_;
}

Status ModelFolder::newer() const {
  const std::lock_guard lock(mutex_);
  return newer_;
}

ModelFolder::FileId ModelFolder::Find() const {
  struct stat found {};
  if (stat((folder_ + "/" + kDescriptionFile).c_str(), &found) != 0) return FileId();
  return {.device = found.st_dev,
          .inode = found.st_ino,
          .changed_ns = found.st_ctim.tv_sec * 1'000'000'000 + found.st_ctim.tv_nsec};
}

StatusOr<bool> ModelFolder::Refresh() {
  const std::lock_guard lock(reading_);
  FileId found = Find();
  if (found == read_ && newer().ok()) return false;
  if (found == FileId() && model() != nullptr) {
    const std::lock_guard said(mutex_);
    return newer_ = absl::NotFoundError("no model in " + folder_ + " any more");
  }
  while (true) {
    Status status = Read(found);
    if (status.ok()) return true;
    // A folder that was replaced meanwhile gives files of two models.
    const FileId now = Find();
    if (now == found) return status;
    found = now;
  }
}

Status ModelFolder::Read(const FileId& found) {
  read_ = found;
  StatusOr<ExportedModel> model = ReadModel(folder_);
  const Status read = model.status();
  std::shared_ptr<const ModelScorer> scorer;
  if (read.ok()) scorer = std::make_shared<const ModelScorer>(*std::move(model));
  const std::lock_guard lock(mutex_);
  newer_ = read;
  if (scorer != nullptr) model_ = std::move(scorer);
  return newer_;
}

}  // namespace millrace
