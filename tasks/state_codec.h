// Encodes a shard's state as the bytes that a checkpoint saves, and decodes it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "messages/records.pb.h"
#include "topics/message_codec.h"

namespace millrace {

// The state in pieces, each a ShardState after its length (8 bytes, big-endian): with the held
// updates of all workers it may be larger than one message can be. A piece takes at most
// `most_piece_bytes`; the members, held updates and unfinished messages of the state are never
// divided. Takes the state apart. ResourceExhausted when one of them is larger than a piece.
StatusOr<std::vector<std::string>> EncodeState(ShardState state,
                                               size_t most_piece_bytes = kMostMessageBytes);

// DataLoss when `bytes`, all pieces one after the other, are damaged.
StatusOr<ShardState> DecodeState(std::string_view bytes);

}  // namespace millrace
