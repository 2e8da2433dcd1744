// Reads an exported model.
#pragma once

#include <string>

#include "base/status.h"
#include "exports/exported_model.h"

namespace millrace {

// All of it is checked: files and checksums, that description, features and arrays are those of one
// model, that ids ascend and floats are finite. Errors are those of CheckModelFiles.
StatusOr<ExportedModel> ReadModel(const std::string& folder);

}  // namespace millrace
