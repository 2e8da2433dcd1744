#include "python/src/learner_state.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>

#include "base/big_endian.h"
#include "base/crc32c.h"
#include "models/moments.h"
#include "topics/figures_codec.h"

namespace millrace {
namespace {

constexpr uint32_t kFormat = 2;
constexpr size_t kChecksumBytes = 4;

Status Bad(const std::string& why) {
  return absl::InvalidArgumentError("these bytes are no learner of Millrace: " + why);
}

template <typename Numbers>
bool IsAscending(const Numbers& numbers) {
  return std::ranges::adjacent_find(numbers, std::greater_equal<>()) == numbers.end();
}

bool AreFinite(const google::protobuf::RepeatedField<float>& values) {
  return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}

}  // namespace

StatusOr<std::string> EncodeLearner(const LearnerState& state) {
  if (state.ByteSizeLong() > size_t{std::numeric_limits<int32_t>::max()}) {
    return absl::ResourceExhaustedError(
        "the learner has more than 2 GiB, and cannot be pickled; save() writes its model");
  }
  LearnerState versioned = state;
  versioned.set_format(kFormat);
  const std::string message = versioned.SerializeAsString();
  return EncodeBigEndian32(Crc32c(message)) + message;
}

StatusOr<LearnerState> DecodeLearner(std::string_view bytes) {
  if (bytes.size() < kChecksumBytes) return Bad("there are " + std::to_string(bytes.size()));
  const std::optional<uint32_t> checksum = DecodeBigEndian32(bytes.substr(0, kChecksumBytes));
  bytes.remove_prefix(kChecksumBytes);
  if (checksum != Crc32c(bytes)) return Bad("the checksum is wrong");
  LearnerState state;
  if (bytes.size() > size_t{std::numeric_limits<int32_t>::max()} ||
      !state.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return Bad("they cannot be parsed");
  }
  if (state.format() != kFormat) {
    return absl::InvalidArgumentError("the learner has the format " +
                                      std::to_string(state.format()) + ", and this version reads " +
                                      std::to_string(kFormat) +
                                      ": unpickle it by the version that wrote it");
  }
  return state;
}

Status CheckLearner(const LearnerState& state, const LearnerShape& shape) {
  const auto count = [](const auto& numbers) { return static_cast<size_t>(numbers.size()); };
  const size_t blocks = shape.parameters / shape.block;
  if (!IsAscending(state.block()) ||
      (!state.block().empty() && *state.block().rbegin() >= blocks) ||
      count(state.parameter()) != count(state.block()) * shape.block) {
    return Bad("the parameters do not fit the columns");
  }
  if (!IsAscending(state.id()) || count(state.row()) != count(state.id()) * shape.row_width ||
      (shape.row_width == 0 && !state.id().empty())) {
    return Bad("the embedding rows do not fit the columns");
  }
  if (!AreFinite(state.parameter()) || !AreFinite(state.row()) ||
      !millrace::AreFinite(state.progressive())) {
    return Bad("not all of them are numbers");
  }
  const MomentsMessage& moments = state.moments();
  if (count(moments.count()) != shape.numeric_columns ||
      count(moments.mean()) != shape.numeric_columns ||
      count(moments.m2()) != shape.numeric_columns) {
    return Bad("the moments do not fit the columns");
  }
  const Status checks[] = {CheckMoments(moments, shape.numeric_columns, shape.classes),
                           CheckSums(state.progressive(), shape.classes)};
  for (const Status& check : checks) {
    if (!check.ok()) return Bad(std::string(check.message()));
  }
  return absl::OkStatus();
}

}  // namespace millrace
