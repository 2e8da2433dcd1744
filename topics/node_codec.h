// Nodes of a job: what they may say, checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/status.h"
#include "messages/master.pb.h"

namespace millrace {

// Ranks of a job, of all roles: of living nodes, and of dead ones that none has replaced.
inline constexpr size_t kMostNodes = 1'000;
inline constexpr size_t kMostBarriers = 100;   // of a job, that living nodes use
inline constexpr size_t kMostLeastRoles = 16;  // of a barrier
inline constexpr size_t kMostInstanceBytes = 64;
inline constexpr size_t kMostAddressBytes = 255;
inline constexpr size_t kMostBarrierNameBytes = 100;
inline constexpr size_t kMostValueBytes = 1'024;  // of a node at a barrier
// Of all nodes at a barrier: what waits and what has passed are one record of `plan`, beside which
// the longest names of kMostNodes have room in Kafka's mebibyte.
inline constexpr size_t kMostValuesBytes = size_t{128} << 10;
inline constexpr uint64_t kMostNodeTimeoutTicks = uint64_t{1} << 30;
// NodeCommand.front and .number, Arrive.passing, MemberState.incarnation, BarrierState.release.
inline constexpr uint64_t kMostNodeNumber = uint64_t{1} << 62;

// InvalidArgument, which says what is wrong.
Status CheckNodeCommand(const NodeCommand& command);
Status CheckNodeRole(const std::string& role);
Status CheckNodeInstance(const std::string& instance);
Status CheckNodeAddress(const std::string& address);
Status CheckBarrierName(const std::string& name);
Status CheckBarrierValue(const std::string& value);

// "worker-2".
std::string NodeText(const std::string& role, uint32_t rank);

}  // namespace millrace
