// Encodes a shard's state as the bytes that a checkpoint saves, and decodes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "messages/records.pb.h"
#include "processors/server_processor.h"
#include "tasks/checkpoint.h"
#include "topics/message_codec.h"

namespace millrace {

// The state in pieces, each a ShardState after its length (8 bytes, big-endian): with the held
// updates of all workers it may be larger than one message can be. A piece takes at most
// `most_piece_bytes`; the members, held updates and unfinished messages of the state are never
// divided. Takes the state apart. ResourceExhausted when one of them is larger than a piece.
StatusOr<std::vector<std::string>> EncodeState(ShardState state,
                                               size_t most_piece_bytes = kMostMessageBytes);

// Of a piece of the state, in a shard's store and in `parameters`.
std::string StateKey(uint32_t chunk);
// The state as a checkpoint has it: EncodeState in frames. (The frames' message is the state's
// position.)
StatusOr<std::vector<Checkpoint::Entry>> EncodeStateEntries(ShardState state,
                                                            const ServerOptions& options);

// DataLoss when `bytes`, all pieces one after the other, are damaged.
StatusOr<ShardState> DecodeState(std::string_view bytes);

}  // namespace millrace
