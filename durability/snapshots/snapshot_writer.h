// Writes a shard's part of a snapshot, and the manifest over all parts.
#pragma once

#include <optional>
#include <string>

#include "base/status.h"
#include "messages/snapshot.pb.h"
#include "processors/server_processor.h"
#include "stores/ordered_byte_map.h"

namespace millrace {

// Writes the files of a shard as it is, then part-S.json. The store holds what the processor has
// saved last, which is all of it: embedding rows are read from there. `head` says job, epoch,
// snapshot and shard. The folder is made when it is not there. Errors name the file.
Status WriteSnapshotPart(const std::string& folder, SnapshotPart head, const ServerOptions& options,
                         const ServerProcessor& processor, const OrderedByteMap& store);

// Writes the manifest if all parts are there: false when they are not. `head` says what the parts
// do not. DataLoss when the parts are not of one cut.
StatusOr<bool> WriteManifest(const std::string& folder, SnapshotManifest head);

}  // namespace millrace
