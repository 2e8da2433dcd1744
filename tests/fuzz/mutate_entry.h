// Hostile blocks, embedding rows and states out of honest ones.
#pragma once

#include <string>
#include <string_view>

#include "tests/fuzz/byte_source.h"

namespace millrace::fuzz {

// Changes the value of an entry of a shard's store, or of a record of `parameters`: fields of its
// message, or its bytes.
void MutateEntry(std::string_view key, std::string& value, ByteSource& bytes);

}  // namespace millrace::fuzz
