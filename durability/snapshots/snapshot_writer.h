// Writes a shard's part of a snapshot, and the manifest over all parts.
#pragma once

#include <optional>
#include <string>

#include "base/status.h"
#include "messages/snapshot.pb.h"
#include "processors/server_processor.h"
#include "stores/ordered_byte_map.h"

namespace millrace {

// Writes the files of a shard as it is, then part-S.json. The store holds the processor's complete
// state, as of its last checkpoint: embedding rows are read from there. `head` names job, epoch,
// snapshot and shard. Creates the folder if needed. Errors name the file.
Status WriteSnapshotPart(const std::string& folder, SnapshotPart head, const ServerOptions& options,
                         const ServerProcessor& processor, const OrderedByteMap& store);

// Writes the manifest if all parts exist, else returns false. `head` has the fields that parts do
// not have. DataLoss when the parts are not of one cut.
StatusOr<bool> WriteManifest(const std::string& folder, SnapshotManifest head);

}  // namespace millrace
