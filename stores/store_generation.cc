#include "stores/store_generation.h"

#include <optional>
#include <string_view>
#include <utility>

#include "base/big_endian.h"

namespace millrace {
namespace {

constexpr char kGenerationKey[] = "generation";

}  // namespace

Status ClaimForGeneration(OrderedByteMap& store, uint64_t generation, const std::string& folder) {
  const std::string ours = EncodeBigEndian64(generation);
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<std::string> theirs, store.Get(kGenerationKey));
  if (theirs == ours) return absl::OkStatus();
  bool is_empty = !theirs.has_value();
  if (is_empty) {
    MILLRACE_RETURN_IF_ERROR(store.Scan(
        "", "", [&is_empty](std::string_view, std::string_view) { return is_empty = false; }));
  }
  if (!is_empty) {
    return absl::DataLossError(
        folder +
        " was written by an earlier job of this name, whose topics were deleted since: it does not "
        "match the topics that exist now. Move it away, and its content is read from the topics; "
        "or give this job another name (--job)");
  }
  WriteBatch batch;
  batch.Put(kGenerationKey, ours);
  MILLRACE_RETURN_IF_ERROR(store.Write(batch));
  return store.Flush();
}

}  // namespace millrace
