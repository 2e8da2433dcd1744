#include "master/status_words.h"

#include "absl/strings/str_cat.h"
#include "launcher/run_folder.h"
#include "master/job_processes.h"
#include "topics/process_name.h"

namespace millrace {

std::string JobPhaseText(MasterState::Phase phase) {
  switch (phase) {
    case MasterState::IDLE:
      return "idle";
    case MasterState::ACTIVE:
      return "active";
    case MasterState::STOPPING:
      return "stopping";
    case MasterState::ENDED:
      return "ended";
    case MasterState::STOPPED:
      return "stopped";
    case MasterState::FAILED:
      return "failed";
    default:
      return "unknown";
  }
}

std::string ProcessPhaseText(ProcessState::Phase phase) {
  switch (phase) {
    case ProcessState::WAITING:
      return "waiting";
    case ProcessState::STARTING:
      return "starting";
    case ProcessState::RUNNING:
      return "running";
    case ProcessState::STOPPING:
      return "stopping";
    case ProcessState::ENDED:
      return "ended";
    case ProcessState::FAILED:
      return "failed";
    case ProcessState::STOPPED:
      return "stopped";
    default:
      return "unknown";
  }
}

std::string NodePhaseText(MemberState::Phase phase) {
  switch (phase) {
    case MemberState::LIVE:
      return "live";
    case MemberState::DEAD:
      return "dead";
    case MemberState::LEFT:
      return "left";
    default:
      return "unknown";
  }
}

std::string WorkerStateText(const WorkerLeases& worker) {
  if (worker.left()) return "left";
  return worker.last() ? "leaving" : "active";
}

std::string LogOf(const ProcessState& process, const MasterState& state) {
  const std::string& run_dir = state.plan().run_dir();
  return run_dir.empty() || run_dir == kFolderInPods
             ? ""
             : ProcessLogPath(run_dir, ToText(process.process()));
}

std::string ToText(const ServersAlone& alone) {
  return absl::StrCat(
      alone.ended, " ended with exit code 0, and ", alone.for_s,
      " s later the servers still run: they wait for trainers that have not left the job, unless "
      "they are still writing its end. Let each trainer leave at its end "
      "(docs/parameter-manager.md); to train on, start MasterApp again with another "
      "--worker-command; to end the job as it is, MasterApp stop");
}

}  // namespace millrace
