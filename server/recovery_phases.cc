#include "server/recovery_phases.h"

#include <spdlog/fmt/fmt.h>

namespace millrace {
namespace {

std::string BytesText(uint64_t bytes) {
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
}

}  // namespace

std::string SourceName(const RecoveryPhases& phases) {
  switch (phases.source) {
    case ShardCopy::Source::kNothing:
      return "no copy, all of parameters";
    case ShardCopy::Source::kDisk:
      return "own disk";
    case ShardCopy::Source::kReplicaHere:
      return "replica on this disk";
    case ShardCopy::Source::kPeer:
      return "replica of " + phases.peer;
  }
  return "";
}

std::string RecoveryText(const RecoveryPhases& phases) {
  const std::string down = phases.down_ms ? fmt::format(", down for {:.1f} s",
                                                        static_cast<double>(*phases.down_ms) / 1e3)
                                          : "";
  const std::string restored =
      phases.restored_bytes > 0 ? ", " + BytesText(phases.restored_bytes) : "";
  return fmt::format(
      "recovered in {:.2f} s{}: {:.2f} s to restore ({}{}), {:.2f} s for {} records of parameters "
      "({}), {:.2f} s for {} gradients",
      phases.total_s, down, phases.restore_s, SourceName(phases), restored, phases.parameters_s,
      phases.parameters_records, BytesText(phases.parameters_bytes), phases.gradients_s,
      phases.gradients_records);
}

MetricPoint::ServerProgress::Recovery ToRecoveryPoint(const RecoveryPhases& phases) {
  MetricPoint::ServerProgress::Recovery recovery;
  recovery.set_down_ms(phases.down_ms.value_or(0));
  recovery.set_source(SourceName(phases));
  recovery.set_restored_bytes(phases.restored_bytes);
  recovery.set_restore_s(phases.restore_s);
  recovery.set_parameters_records(phases.parameters_records);
  recovery.set_parameters_bytes(phases.parameters_bytes);
  recovery.set_parameters_s(phases.parameters_s);
  recovery.set_gradients_records(phases.gradients_records);
  recovery.set_gradients_s(phases.gradients_s);
  recovery.set_total_s(phases.total_s);
  return recovery;
}

}  // namespace millrace
