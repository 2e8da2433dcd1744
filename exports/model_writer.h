// Writes an exported model.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "base/status.h"
#include "base/types.h"
#include "messages/exported_model.pb.h"
#include "models/moments.h"

namespace millrace {

struct ModelToWrite {
  // Without format, version, files and checksum, which the writer adds.
  ModelDescription description;
  std::span<const float> weights;  // of the model, all of them
  const Moments& moments;          // of the numeric columns
  using TakeRow = std::function<Status(EmbeddingId id, std::span<const float> row)>;
  // Of a model with embedding rows: hands them over, by ascending ids. It is called more than once.
  std::function<Status(const TakeRow& take)> visit_rows = nullptr;
};

// Writes the model to `folder_name`.partial, which then gets its name. A model that is there is
// replaced, also behind a link; anything else that is there, and another process that writes a
// model there, are errors (FailedPrecondition). InvalidArgument or DataLoss when it is no model, or
// weights or rows are no numbers: nothing is left then. Others name the file that cannot be
// written.
Status WriteModel(const std::string& folder_name, const ModelToWrite& model);

// Whether WriteModel may write here: nothing is there, or an empty folder, or a model and nothing
// else. FailedPrecondition with the remedy.
Status CheckModelFolder(const std::string& folder);

}  // namespace millrace
