// What the referee's files take out of messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "messages/records.pb.h"

namespace millrace::simulation {

uint64_t BigEndian(const std::string& bytes, size_t begin, size_t count);

// What a slice says of each key; a slice may be dense, sparse or empty.
std::vector<std::pair<size_t, float>> Values(const Slice& slice);

bool IsPoison(const Gradient::Update& message);

}  // namespace millrace::simulation
