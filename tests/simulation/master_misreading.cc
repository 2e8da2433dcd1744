#include "tests/simulation/master_misreading.h"

#include <algorithm>

#include "tests/simulation/end_group.h"
#include "tests/simulation/simulated_plan.h"
#include "topics/control_codec.h"
#include "topics/process_name.h"

namespace millrace::simulation {

bool IsFailure(const ProcessEnd& end) {
  return (end.cause() == ProcessEnd::EXITED && end.code() == 1) ||
         (end.cause() == ProcessEnd::SIGNALED && end.code() == 11) ||
         end.cause() == ProcessEnd::OUT_OF_MEMORY;
}

std::string AsMisread(MasterError error, const MasterProcessor& processor,
                      const std::string& value) {
  StatusOr<ControlRecord> record = DecodeControl(value, kMasterEpoch);
  if (!record.ok()) return value;
  if (error == MasterError::kForgetsALogicalWorker && record->has_plan()) {
    for (ProcessGroup& group : *record->mutable_plan()->mutable_groups()) {
      group.set_logical_workers(std::max(group.logical_workers(), 1u) - 1);
    }
    return EncodeControl(*record);
  }
  if (error == MasterError::kIgnoresSlots && record->has_plan()) {
    record->mutable_plan()->clear_slots();
    return EncodeControl(*record);
  }
  if (error == MasterError::kEndsBesideOthers && record->has_plan()) {
    for (ProcessGroup& group : *record->mutable_plan()->mutable_groups()) group.clear_at_end();
    return EncodeControl(*record);
  }
  if (!record->has_report()) return value;
  ProcessReport& report = *record->mutable_report();
  if (error == MasterError::kCountsOldReports) {
    for (const ProcessState& process : processor.processes()) {
      if (ToText(process.process()) != ToText(report.process())) continue;
      report.set_incarnation(std::max(report.incarnation(), process.incarnation()));
    }
    return EncodeControl(*record);
  }
  if (error == MasterError::kEndsTwice && report.process().group() == kSimulatedEnd &&
      report.end().cause() == ProcessEnd::EXITED) {
    report.mutable_end()->set_cause(ProcessEnd::SIGNALED);
    report.mutable_end()->set_code(9);
    return EncodeControl(*record);
  }
  if (error == MasterError::kForgetsBackOff && IsFailure(report.end())) {
    report.mutable_end()->set_cause(ProcessEnd::SIGNALED);
    report.mutable_end()->set_code(9);
    return EncodeControl(*record);
  }
  return value;
}

}  // namespace millrace::simulation
