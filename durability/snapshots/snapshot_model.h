// Exports the model of a snapshot.
#pragma once

#include <string>

#include "base/status.h"
#include "messages/snapshot.pb.h"

namespace millrace {

// Where a snapshot has its model.
std::string SnapshotModelFolder(const std::string& snapshot);

// Writes the model that the snapshot's weights are to `model`, as WriteModel does: a pure function
// of the snapshot. Returns why the model has no ONNX graph; empty if it has. REQUIRES: ReadManifest
// or CheckSnapshot has returned the manifest. Errors name the file of the snapshot that is no good,
// or are WriteModel's.
StatusOr<std::string> ExportSnapshot(const std::string& snapshot, const SnapshotManifest& manifest,
                                     const std::string& model);

// Logs that ExportSnapshot has written a model.
void LogModel(const std::string& model, const std::string& why_no_graph);

}  // namespace millrace
