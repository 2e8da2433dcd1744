#include "stores/store_generation.h"

#include <optional>
#include <string_view>
#include <utility>

#include "base/big_endian.h"

namespace millrace {
namespace {

constexpr char kGenerationKey[] = "generation";

}  // namespace

StatusOr<bool> ClaimForGeneration(OrderedByteMap& store, uint64_t generation) {
  const std::string ours = EncodeBigEndian64(generation);
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<std::string> theirs, store.Get(kGenerationKey));
  if (theirs == ours) return true;
  bool is_empty = !theirs.has_value();
  if (is_empty) {
    MILLRACE_RETURN_IF_ERROR(store.Scan(
        "", "", [&is_empty](std::string_view, std::string_view) { return is_empty = false; }));
  }
  if (!is_empty) return false;
  WriteBatch batch;
  batch.Put(kGenerationKey, ours);
  MILLRACE_RETURN_IF_ERROR(store.Write(batch));
  MILLRACE_RETURN_IF_ERROR(store.Flush());
  return true;
}

Status ClaimForGeneration(OrderedByteMap& store, uint64_t generation, const std::string& folder) {
  MILLRACE_ASSIGN_OR_RETURN(const bool is_ours, ClaimForGeneration(store, generation));
  if (is_ours) return absl::OkStatus();
  return absl::DataLossError(
      folder +
      " was written by an earlier job of this name, whose topics were deleted since: it does not "
      "match the topics that exist now. Move it away, and its content is read from the topics; "
      "or give this job another name (--job)");
}

}  // namespace millrace
