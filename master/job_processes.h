// The processes of a job, as a master is to run them. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "messages/job.pb.h"
#include "messages/master.pb.h"

namespace millrace {

// RUN-DIR where the processes are pods: the folder of their data and settings in a container.
inline constexpr char kFolderInPods[] = "/millrace";

struct JobProcessesOptions {
  std::string run_dir;            // RUN-DIR, an absolute path
  std::string program_dir;        // of ServerApp and the others, an absolute path
  uint32_t shards = 1;            // of the job
  uint32_t workers = 1;           // logical ones, of the job; WorkerApps host them
  bool has_input = false;         // CsvProducer runs
  bool serves_tasks = false;      // then it may have no processes
  uint32_t server_processes = 1;  // that share the shards; 0: none
  uint32_t worker_processes = 2;
  uint32_t slots = 0;            // so many processes at a time; 0: no limit
  uint32_t most_relaunches = 3;  // after failures in a row, of a worker and the producer
  std::optional<uint32_t> most_server_relaunches{};  // the same of a server; none: no limit
  // WorkerApps have the weights and sum their updates: a world says who hosts which logical worker.
  bool all_reduce = false;
  bool stay = false;                          // servers and workers go on when the job has ended
  std::string server_program{};               // instead of ServerApp, a path; empty: ServerApp
  std::vector<std::string> worker_command{};  // instead of WorkerApp; empty: WorkerApp
  std::vector<std::string> end_command{};     // runs when all others have ended; empty: nothing
  std::string worker_evaluation_log{};  // "{rank}" in it stands for the process's; empty: none
  // The files of the groups' settings (JobFileOf), absolute paths.
  std::string server_file;
  std::string worker_file;
  std::string producer_file;
};

// The group whose only process runs when the others have ended (end_command).
inline constexpr char kEndGroup[] = "end";

// The groups server, producer, worker and end, those with processes. InvalidArgument names the
// flag.
StatusOr<ProcessPlan> PlanJobProcesses(const JobProcessesOptions& options);

enum class JobProgram { kServer, kWorker, kProducer };
inline constexpr JobProgram kJobPrograms[] = {JobProgram::kServer, JobProgram::kWorker,
                                              JobProgram::kProducer};
std::string_view GroupOf(JobProgram program);  // "server", "worker", "producer"

// Whether a master with the plan `next` may go on with a job whose plan is `before`. Processes may
// be more or fewer, but a job whose servers or workers would be stopped for another kind of
// programs, or for none, would end without them. FailedPrecondition: it may not, and why.
Status CheckKeepsPrograms(const ProcessPlan& before, const ProcessPlan& next);

// The settings of one program: without those that concern others alone, whose change is then no
// reason to start it again. (A WorkerApp that trains by all-reduce needs what a server does.) Paths
// of files are absolute: `folder` is where relative ones begin.
JobConfig JobFileOf(const JobConfig& config, JobProgram program, std::string_view folder);

// The words of a command as a shell would take them apart: separated by spaces, together within
// single or double quotes or after a backslash. Nothing else of a shell is known.
// InvalidArgument: an open quote, or no word.
StatusOr<std::vector<std::string>> CommandWords(std::string_view command);

}  // namespace millrace
