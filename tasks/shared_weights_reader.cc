#include "tasks/shared_weights_reader.h"

#include <utility>

namespace millrace {

StatusOr<std::shared_ptr<const SharedWeights>> SharedWeightsReader::Take(std::string_view key,
                                                                         std::string_view value) {
  MILLRACE_ASSIGN_OR_RETURN(const auto body, joiner_.Take(key, value));
  if (!body) return std::shared_ptr<const SharedWeights>();
  MILLRACE_ASSIGN_OR_RETURN(SharedWeights message, DecodeSharedWeights(*body, shape_));
  return std::make_shared<const SharedWeights>(std::move(message));
}

}  // namespace millrace
