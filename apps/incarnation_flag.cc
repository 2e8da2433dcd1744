#include "apps/incarnation_flag.h"

#include "base/printable.h"

namespace millrace {

StatusOr<std::optional<Incarnation>> IncarnationFlag(const std::string& process) {
  if (process.empty()) return std::optional<Incarnation>();
  const StatusOr<Incarnation> parsed = Incarnation::Parse(process);
  if (parsed.ok()) return std::optional<Incarnation>(*parsed);
  return absl::InvalidArgumentError("--process " + Printable(process) + ": " +
                                    std::string(TextOf(parsed.status())));
}

}  // namespace millrace
