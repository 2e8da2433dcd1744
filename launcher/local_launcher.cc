#include "launcher/local_launcher.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <optional>
#include <utility>

#include "base/file_error.h"
#include "base/private_file.h"
#include "launcher/running_process.h"
#include "launcher/shim.h"
#include "topics/process_name.h"

extern char** environ;

namespace millrace {
namespace {

// Above what is given to a shim, so that nothing is overwritten before it is copied.
Descriptor MoveAway(Descriptor file) {
  return Descriptor(fcntl(file.number(), F_DUPFD_CLOEXEC, kShimBegan + 1));
}

// So that a process that fails again and again does not fill the disk. An incarnation that still
// writes does so to the old one. What cannot be renamed grows on, which is no reason to start
// nothing.
void RenameLongLog(const std::string& path) {
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0 || info.st_size < kMostLogBytes) return;
  (void)rename(path.c_str(), (path + ".old").c_str());
}

StatusOr<Descriptor> OpenLog(const std::string& path) {
  RenameLongLog(path);
  Descriptor file(open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC,
                       S_IRUSR | S_IWUSR));
  if (file.is_open()) file = MoveAway(std::move(file));
  if (!file.is_open()) return CannotWrite(path, errno);
  MakePrivate(file.number());
  return file;
}

// A process that shares nothing with this one but what is given to it: a session of its own, so
// that no Ctrl-C reaches it; no signals blocked or ignored; no files but these. Returns an errno.
int Spawn(std::vector<std::string> command, const Descriptor& output, const Descriptor& began,
          pid_t* pid) {
  posix_spawn_file_actions_t files;
  (void)posix_spawn_file_actions_init(&files);
  (void)posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  (void)posix_spawn_file_actions_adddup2(&files, output.number(), STDOUT_FILENO);
  (void)posix_spawn_file_actions_adddup2(&files, output.number(), STDERR_FILENO);
  (void)posix_spawn_file_actions_adddup2(&files, began.number(), kShimBegan);
  (void)posix_spawn_file_actions_addclosefrom_np(&files, kShimBegan + 1);
  posix_spawnattr_t attributes;
  (void)posix_spawnattr_init(&attributes);
  sigset_t signals;
  (void)sigfillset(&signals);
  (void)posix_spawnattr_setsigdefault(&attributes, &signals);
  (void)sigemptyset(&signals);
  (void)posix_spawnattr_setsigmask(&attributes, &signals);
  (void)posix_spawnattr_setflags(
      &attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  std::vector<char*> arguments;
  for (std::string& argument : command) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  const int error = posix_spawn(pid, arguments[0], &files, &attributes, arguments.data(), environ);
  (void)posix_spawnattr_destroy(&attributes);
  (void)posix_spawn_file_actions_destroy(&files);
  return error;
}

Status CannotSpawn(const std::string& shim, int error) {
  if (error == EAGAIN || error == ENOMEM) {
    return absl::ResourceExhaustedError(
        std::string("no process can be made: ") + std::strerror(error) +
        "; raise the limits of processes (ulimit -u) and of memory, or run fewer on this machine");
  }
  return absl::UnavailableError(
      shim + " cannot be executed: " + std::strerror(error) +
      "; install it in the folder of MasterApp, executable for this user");
}

Status CannotMakePipe(const std::string& name, int error) {
  return FileError("no pipe to start " + name + " can be made: " + std::strerror(error), error);
}

// The name as that of a folder. It comes from a topic, and must not lead out of the run folder.
StatusOr<std::string> CheckedName(const ProcessName& process) {
  MILLRACE_RETURN_IF_ERROR(CheckProcessName(process));
  return ToText(process);
}

}  // namespace

StatusOr<std::unique_ptr<LocalLauncher>> LocalLauncher::Create(LocalLauncherOptions options) {
  MILLRACE_ASSIGN_OR_RETURN(RunFolder folder,
                            RunFolder::Open(options.run_dir, options.job, options.epoch));
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<ProcessWatch> watch,
                            ProcessWatch::Create(options.on_change));
  return std::unique_ptr<LocalLauncher>(
      new LocalLauncher(std::move(options), std::move(folder), std::move(watch)));
}

LocalLauncher::LocalLauncher(LocalLauncherOptions options, RunFolder folder,
                             std::unique_ptr<ProcessWatch> watch)
    : options_(std::move(options)), folder_(std::move(folder)), watch_(std::move(watch)) {}

StatusOr<std::string> LocalLauncher::NameOf(const ProcessOrder& order) {
  MILLRACE_ASSIGN_OR_RETURN(std::string name, CheckedName(order.process()));
  if (order.incarnation() == 0) {
    return absl::InvalidArgumentError("an order for " + name + " names no incarnation");
  }
  return name;
}

Status LocalLauncher::Start(const ProcessOrder& order) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string name, NameOf(order));
  if (order.command().empty() || order.command(0).empty()) {
    return absl::InvalidArgumentError("the order to start " + name + " has no command");
  }
  MILLRACE_ASSIGN_OR_RETURN(const uint64_t first, folder_.FirstKept(name));
  if (order.incarnation() < first) {
    return absl::FailedPreconditionError(
        "cannot start incarnation " + std::to_string(order.incarnation()) + " of " + name + ": " +
        options_.run_dir + " says that all its incarnations before " + std::to_string(first) +
        " have ended. If a newer MasterApp runs this job, stop this one; if the job's topics were "
        "deleted, stop its processes and begin a new job with another --job and --run-dir");
  }
  const IncarnationFolder folder = folder_.Incarnation(name, order.incarnation());
  // In this order: what is watched no more has left its end behind.
  if (watch_->IsWatched(folder.path())) return absl::OkStatus();
  MILLRACE_RETURN_IF_ERROR(NoteFailedShims());
  if (failed_shims_.contains(folder.path())) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(const IncarnationState state, folder.Look());
  if (state.stage != IncarnationState::Stage::kNotBegun) return absl::OkStatus();
  MILLRACE_RETURN_IF_ERROR(folder.Make());
  return SpawnShim(name, folder, order);
}

Status LocalLauncher::SpawnShim(const std::string& name, const IncarnationFolder& folder,
                                const ProcessOrder& order) {
  MILLRACE_ASSIGN_OR_RETURN(const Descriptor log, OpenLog(folder_.LogPath(name)));
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return CannotMakePipe(name, errno);
  Descriptor began_read(ends[0]);
  Descriptor began_write(ends[1]);
  began_write = MoveAway(std::move(began_write));
  if (!began_write.is_open()) return CannotMakePipe(name, errno);
  std::vector<std::string> command{options_.shim, folder.path(),
                                   std::to_string(options_.grace.count())};
  command.insert(command.end(), order.command().begin(), order.command().end());
  pid_t pid = 0;
  const int error = Spawn(std::move(command), log, began_write, &pid);
  if (error != 0) return CannotSpawn(options_.shim, error);
  // It is a child that was not waited for: nobody else can have its id.
  Descriptor shim = OpenProcess(pid);
  if (!shim.is_open()) {
    return absl::UnavailableError(std::string("the process of ") + name +
                                  " cannot be watched (pidfd_open): " + std::strerror(errno) +
                                  "; MasterApp needs Linux 5.4 or newer, and a sandbox that allows "
                                  "the call");
  }
  watch_->Add(folder.path(), std::move(shim));
  watch_->Add(folder.path() + " begins", std::move(began_read));
  return absl::OkStatus();
}

Status LocalLauncher::NoteFailedShims() {
  for (const ProcessWatch::ChildEnd& child : watch_->TakeChildEnds()) {
    if (child.code == CLD_EXITED && child.status == 0) continue;
    const IncarnationFolder folder(child.key);
    MILLRACE_ASSIGN_OR_RETURN(const IncarnationState state, folder.Look());
    if (state.stage != IncarnationState::Stage::kNotBegun) continue;
    ProcessEnd& end = failed_shims_[child.key];
    end.set_cause(child.code == CLD_EXITED ? ProcessEnd::EXITED : ProcessEnd::SIGNALED);
    end.set_code(child.status);
    end.set_detail("of " + options_.shim + ", which ended before it started the program");
  }
  return absl::OkStatus();
}

Status LocalLauncher::Stop(const ProcessOrder& order) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string name, NameOf(order));
  MILLRACE_ASSIGN_OR_RETURN(const uint64_t first, folder_.FirstKept(name));
  if (order.incarnation() < first) return absl::OkStatus();
  return StopIncarnation(folder_.Incarnation(name, order.incarnation()));
}

Status LocalLauncher::StopIncarnation(const IncarnationFolder& folder) const {
  MILLRACE_ASSIGN_OR_RETURN(const IncarnationState state, folder.Look());
  if (state.stage == IncarnationState::Stage::kEnded) return absl::OkStatus();
  // A shim that takes the lock from now on does not begin; one that has it gets the signal, again
  // each time: the master that asked before may have been killed in between.
  MILLRACE_RETURN_IF_ERROR(folder.AskToStop());
  MILLRACE_ASSIGN_OR_RETURN(const Descriptor shim, folder.OpenShim());
  if (!shim.is_open()) return absl::OkStatus();
  const int error = SendSignal(shim, SIGTERM);
  if (error == 0) return absl::OkStatus();
  return absl::PermissionDeniedError("the process of " + folder.path() +
                                     " cannot be sent SIGTERM: " + std::strerror(error) +
                                     "; run MasterApp as the user that started it");
}

StatusOr<IncarnationState> LocalLauncher::LookAt(const IncarnationFolder& folder) {
  using Stage = IncarnationState::Stage;
  for (;;) {
    MILLRACE_ASSIGN_OR_RETURN(IncarnationState state, folder.Look());
    if (state.stage == Stage::kLost) {
      if (IdentityOf(state.command.pid) != state.command) return state;
      Descriptor left = OpenProcess(state.command);
      if (left.is_open()) {
        (void)SendSignal(left, SIGKILL);
        watch_->Add(folder.path(), std::move(left));
      }
      state.stage = Stage::kRunning;
      return state;
    }
    if (state.stage != Stage::kRunning || watch_->IsWatched(folder.path())) return state;
    MILLRACE_ASSIGN_OR_RETURN(Descriptor shim, folder.OpenShim());
    if (!shim.is_open()) continue;  // it has just ended
    watch_->Add(folder.path(), std::move(shim));
    return state;
  }
}

StatusOr<std::vector<ProcessReport>> LocalLauncher::Look() {
  using Stage = IncarnationState::Stage;
  MILLRACE_RETURN_IF_ERROR(NoteFailedShims());
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<KnownIncarnation> known, folder_.List());
  std::vector<ProcessReport> reports;
  for (const KnownIncarnation& one : known) {
    const IncarnationFolder folder = folder_.Incarnation(one.name, one.incarnation);
    MILLRACE_ASSIGN_OR_RETURN(const uint64_t first, folder_.FirstKept(one.name));
    if (one.incarnation < first) {
      MILLRACE_RETURN_IF_ERROR(Drop(folder));
      continue;
    }
    MILLRACE_ASSIGN_OR_RETURN(IncarnationState state, LookAt(folder));
    const auto failed = failed_shims_.find(folder.path());
    if (state.stage == Stage::kNotBegun && failed == failed_shims_.end()) continue;
    ProcessReport& report = reports.emplace_back();
    *report.mutable_process() = one.process;
    report.set_incarnation(one.incarnation);
    if (state.stage == Stage::kNotBegun) {
      *report.mutable_end() = failed->second;
    } else if (state.stage == Stage::kEnded) {
      *report.mutable_end() = std::move(state.end);
    } else if (state.stage == Stage::kLost) {
      report.mutable_end()->set_cause(ProcessEnd::UNKNOWN);
      report.mutable_end()->set_detail(
          "the process that waited for it has left no note: it was killed, or could not write one");
    }
  }
  return reports;
}

Status LocalLauncher::Forget(const ProcessName& process, uint64_t before) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string name, CheckedName(process));
  MILLRACE_RETURN_IF_ERROR(folder_.KeepFrom(name, before));
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<KnownIncarnation> known, folder_.List());
  for (const KnownIncarnation& one : known) {
    if (one.name != name || one.incarnation >= before) continue;
    MILLRACE_RETURN_IF_ERROR(Drop(folder_.Incarnation(one.name, one.incarnation)));
  }
  return absl::OkStatus();
}

// A shim that was started by a master that was meant to be dead is stopped, and its folder removed
// by a later call. If none has the lock now, none will begin: it would see that it is forgotten.
Status LocalLauncher::Drop(const IncarnationFolder& folder) {
  MILLRACE_ASSIGN_OR_RETURN(const IncarnationState state, LookAt(folder));
  MILLRACE_ASSIGN_OR_RETURN(const Descriptor shim, folder.OpenShim());
  if (shim.is_open()) return StopIncarnation(folder);
  if (state.stage == IncarnationState::Stage::kRunning) return absl::OkStatus();
  failed_shims_.erase(folder.path());
  folder.Remove();
  return absl::OkStatus();
}

std::string LocalLauncher::LogPath(const ProcessName& process) const {
  return folder_.LogPath(CheckedName(process).value());
}

}  // namespace millrace
