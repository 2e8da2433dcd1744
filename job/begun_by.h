// Whether a job was begun by a program that this one can work with.
#pragma once

#include <google/protobuf/message.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace millrace {

// The key of a record of the job topic with what a job begins with (its features, its training
// settings): `name`, this program's protocol (kProtocol), and `writer`, a number that nobody else
// has.
std::string BeginKey(std::string_view name, uint32_t writer);

// The protocol that such a key, or that of a further chunk, names. 1 if it names none, as those of
// versions did that had no other. InvalidArgument: it is malformed.
StatusOr<uint32_t> ProtocolOfKey(std::string_view key);

// `published` is what the job, by name, began with, of a program of this protocol.
// FailedPrecondition, with what to do: the protocol is not this program's, or the message has
// fields that this program does not know.
Status CheckUnderstood(std::string_view job, uint32_t protocol,
                       const google::protobuf::Message& published);

}  // namespace millrace
