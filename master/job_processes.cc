#include "master/job_processes.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <filesystem>
#include <initializer_list>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "topics/control_codec.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kServerPriority = 3;
constexpr uint32_t kProducerPriority = 2;
constexpr uint32_t kWorkerPriority = 1;
constexpr uint32_t kEndPriority = 0;

ProcessGroup& AddGroup(JobProgram program, uint32_t count, uint32_t priority, ProcessPlan& plan) {
  ProcessGroup& group = *plan.add_groups();
  group.set_name(std::string(GroupOf(program)));
  group.set_count(count);
  group.set_priority(priority);
  return group;
}

std::string PathOf(const JobProcessesOptions& options, const char* program) {
  return absl::StrCat(options.program_dir, "/", program);
}

// PROGRAM --config FILE
void SetProgram(const std::string& program, const std::string& file, ProcessGroup& group) {
  for (const std::string& word : {program, std::string("--config"), file}) group.add_command(word);
}

// ServerApp and WorkerApp have it.
void AddStay(const JobProcessesOptions& options, ProcessGroup& group) {
  if (options.stay) group.add_command("--stay");
}

// Both learn from the plan what they host.
void AddProcess(ProcessGroup& group) {
  group.add_command("--process");
  group.add_command(
      absl::StrCat(group.name(), "-", kRankPlaceholder, ":", kIncarnationPlaceholder));
}

void AddServers(const JobProcessesOptions& options, ProcessPlan& plan) {
  ProcessGroup& group =
      AddGroup(JobProgram::kServer, options.server_processes, kServerPriority, plan);
  group.set_least(options.server_processes);
  if (options.most_server_relaunches) {
    group.set_most_failures(*options.most_server_relaunches + 1);
  }
  SetProgram(options.server_program.empty() ? PathOf(options, "ServerApp") : options.server_program,
             options.server_file, group);
  group.add_command("--data-dir");
  group.add_command(absl::StrCat(options.run_dir, "/server-", kRankPlaceholder));
  AddStay(options, group);
  group.set_shards(options.shards);
  AddProcess(group);
}

void AddProducer(const JobProcessesOptions& options, ProcessPlan& plan) {
  ProcessGroup& group = AddGroup(JobProgram::kProducer, 1, kProducerPriority, plan);
  group.set_least(1);
  group.set_most_failures(options.most_relaunches + 1);
  SetProgram(PathOf(options, "CsvProducer"), options.producer_file, group);
}

void AddWorkers(const JobProcessesOptions& options, ProcessPlan& plan) {
  ProcessGroup& group =
      AddGroup(JobProgram::kWorker, options.worker_processes, kWorkerPriority, plan);
  group.set_least(1);
  group.set_most_failures(options.most_relaunches + 1);
  if (!options.worker_command.empty()) {
    for (const std::string& word : options.worker_command) group.add_command(word);
    return;
  }
  SetProgram(PathOf(options, "WorkerApp"), options.worker_file, group);
  if (!options.all_reduce) {
    group.set_logical_workers(options.workers);
    AddProcess(group);
  }
  group.add_command("--data-dir");
  group.add_command(absl::StrCat(options.run_dir, "/worker-", kRankPlaceholder));
  AddStay(options, group);
  if (options.worker_evaluation_log.empty()) return;
  group.add_command("--evaluation-log");
  group.add_command(options.worker_evaluation_log);
}

void AddEnd(const JobProcessesOptions& options, ProcessPlan& plan) {
  ProcessGroup& group = *plan.add_groups();
  group.set_name(kEndGroup);
  group.set_count(1);
  group.set_priority(kEndPriority);
  group.set_least(1);
  group.set_most_failures(options.most_relaunches + 1);
  group.set_at_end(true);
  for (const std::string& word : options.end_command) group.add_command(word);
}

// Null: there are no such processes.
const ProcessGroup* FindGroup(const ProcessPlan& plan, JobProgram program) {
  const auto found = std::ranges::find(plan.groups(), GroupOf(program), &ProcessGroup::name);
  return found == plan.groups().end() ? nullptr : &*found;
}

// Or a program of one's own.
bool RunsWorkerApp(const ProcessGroup& workers) {
  return workers.command_size() > 0 && fs::path(workers.command(0)).filename() == "WorkerApp";
}

Status CheckEnd(const JobProcessesOptions& options, bool has_processes) {
  if (options.end_command.empty()) return absl::OkStatus();
  if (options.stay) {
    return absl::InvalidArgumentError(
        "--end-command runs when the job's processes have ended, and --stay keeps them running: "
        "leave one of the two out");
  }
  if (has_processes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "--end-command runs when the job's processes have ended, and this job has none: it deals out "
      "tasks until it is stopped. Trainers can be given a task at the end: --end-task");
}

Status CheckCounts(const JobProcessesOptions& options) {
  const uint32_t servers = options.server_processes;
  if (servers > options.shards) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--server-processes ", servers, ": give at most as many as --shards (", options.shards,
        "), which is what the job began with, also after MasterApp reshard"));
  }
  const bool has_processes = servers > 0 || options.worker_processes > 0 || options.has_input;
  if (!has_processes && !options.serves_tasks) {
    return absl::InvalidArgumentError(
        "no process is to run: give --server-processes, --worker-processes or --input; or "
        "--master-address, to deal out tasks alone (docs/tasks.md)");
  }
  MILLRACE_RETURN_IF_ERROR(CheckEnd(options, has_processes));
  const std::string& log = options.worker_evaluation_log;
  if (options.worker_processes > 1 && !log.empty() &&
      log.find(kRankPlaceholder) == std::string::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("--worker-evaluation-log ", log, " (worker.evaluation_log) is one file for ",
                     options.worker_processes,
                     " worker processes: put {rank} into its name, such as worker-{rank}.csv"));
  }
  return absl::OkStatus();
}

std::string Absolute(const std::string& path, std::string_view folder) {
  if (path.empty() || path == "-") return path;
  return (fs::path(folder) / path).lexically_normal().string();  // of an absolute path, that one
}

// Fields that are not set stay so.
void MakeFieldsAbsolute(std::string_view folder, std::initializer_list<const char*> fields,
                        google::protobuf::Message& message) {
  for (const char* const name : fields) {
    const google::protobuf::FieldDescriptor* const field =
        message.GetDescriptor()->FindFieldByName(name);
    MILLRACE_CHECK(field != nullptr);
    const google::protobuf::Reflection& reflection = *message.GetReflection();
    if (!reflection.HasField(message, field)) continue;
    reflection.SetString(&message, field, Absolute(reflection.GetString(message, field), folder));
  }
}

void MakePathsAbsolute(std::string_view folder, JobConfig& file) {
  if (file.producer().has_input() && !file.producer().has_reject_file()) {
    // Its default is in the folder where CsvProducer was started.
    file.mutable_producer()->set_reject_file(fs::path(file.producer().input()).filename().string() +
                                             ".rejects.csv");
  }
  if (file.has_producer()) {
    MakeFieldsAbsolute(folder, {"input", "reject_file"}, *file.mutable_producer());
  }
  if (file.has_server()) {
    file.mutable_server()->clear_server_ids();
    file.mutable_server()->clear_data_dir();
    // What a server that is started by hand is told does not make one of many.
    file.mutable_server()->clear_checkpoint_now();
    file.mutable_server()->clear_stay();
    MakeFieldsAbsolute(folder,
                       {"test_file", "evaluation_log", "weights_file", "snapshot_dir",
                        "from_snapshot", "replica_tls_cert", "replica_tls_key", "replica_tls_ca"},
                       *file.mutable_server());
  }
  if (file.has_worker()) {
    file.mutable_worker()->clear_data_dir();
    file.mutable_worker()->clear_stay();
    file.mutable_worker()->clear_evaluation_log();  // it stands in the command
  }
}

}  // namespace

std::string_view GroupOf(JobProgram program) {
  switch (program) {
    case JobProgram::kServer:
      return "server";
    case JobProgram::kWorker:
      return "worker";
    case JobProgram::kProducer:
      return "producer";
  }
  MILLRACE_CHECK(false);
}

StatusOr<ProcessPlan> PlanJobProcesses(const JobProcessesOptions& options) {
  MILLRACE_RETURN_IF_ERROR(CheckCounts(options));
  ProcessPlan plan;
  plan.set_slots(options.slots);
  plan.set_run_dir(options.run_dir);
  if (options.server_processes > 0) AddServers(options, plan);
  if (options.has_input) AddProducer(options, plan);
  if (options.worker_processes > 0) AddWorkers(options, plan);
  if (!options.end_command.empty()) AddEnd(options, plan);
  return plan;
}

Status CheckKeepsPrograms(const ProcessPlan& before, const ProcessPlan& next) {
  const std::string remedy =
      ", and the job would end without them. Give the flags that the job was begun with, or "
      "another "
      "--job for another job";
  const ProcessGroup* const servers = FindGroup(before, JobProgram::kServer);
  if (servers != nullptr && FindGroup(next, JobProgram::kServer) == nullptr) {
    return absl::FailedPreconditionError(
        "MasterApp runs the servers of this job, and by these flags it would stop them" + remedy);
  }
  const ProcessGroup* const old_workers = FindGroup(before, JobProgram::kWorker);
  if (old_workers == nullptr) return absl::OkStatus();
  const ProcessGroup* const new_workers = FindGroup(next, JobProgram::kWorker);
  if (new_workers == nullptr) {
    // (With servers a person may start WorkerApps by hand from now on.)
    if (servers != nullptr || !RunsWorkerApp(*old_workers)) return absl::OkStatus();
  } else if (RunsWorkerApp(*old_workers) == RunsWorkerApp(*new_workers)) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "MasterApp runs ", RunsWorkerApp(*old_workers) ? "WorkerApps" : "a --worker-command",
      " in this job, and by these flags it would stop these processes", remedy));
}

JobConfig JobFileOf(const JobConfig& config, JobProgram program, std::string_view folder) {
  JobConfig file = config;
  const bool is_both = program == JobProgram::kWorker &&
                       config.training().distribution_strategy() == Training::ALL_REDUCE;
  if (program != JobProgram::kServer && !is_both) file.clear_server();
  if (program != JobProgram::kWorker) file.clear_worker();
  if (program != JobProgram::kProducer) {  // it publishes the features
    file.clear_producer();
    file.clear_features();
  }
  if (program != JobProgram::kServer) {
    file.clear_shards();
    file.clear_topology();  // what follows from it for the others stands there
  }
  if (program == JobProgram::kWorker && !is_both) {  // servers publish how the job learns
    file.clear_training();
    file.clear_csv();
  }
  MakePathsAbsolute(folder, file);
  return file;
}

StatusOr<std::vector<std::string>> CommandWords(std::string_view command) {
  std::vector<std::string> words;
  std::string word;
  bool in_word = false;
  char quote = 0;  // the open one
  for (size_t i = 0; i < command.size(); ++i) {
    const char c = command[i];
    if (c == '\\' && quote != '\'' && i + 1 < command.size()) {
      word += command[++i];
      in_word = true;
    } else if (quote != 0) {
      if (c == quote) {
        quote = 0;
      } else {
        word += c;
      }
    } else if (c == '"' || c == '\'') {
      quote = c;
      in_word = true;
    } else if (c == ' ' || c == '\t' || c == '\n') {
      if (std::exchange(in_word, false)) words.push_back(std::exchange(word, ""));
    } else {
      word += c;
      in_word = true;
    }
  }
  if (quote != 0)
    return absl::InvalidArgumentError(absl::StrCat("a ", std::string(1, quote), " is not closed"));
  if (in_word) words.push_back(word);
  if (words.empty()) {
    return absl::InvalidArgumentError("the command is empty: give a program and its arguments");
  }
  return words;
}

}  // namespace millrace
