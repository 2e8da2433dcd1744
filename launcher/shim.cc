#include "launcher/shim.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <sstream>
#include <utility>

#include "base/file_error.h"
#include "base/printable.h"
#include "launcher/incarnation_folder.h"
#include "launcher/oom_kills.h"
#include "launcher/run_folder.h"
#include "launcher/running_process.h"

namespace millrace {
namespace {

using Clock = std::chrono::steady_clock;

// As shells say that they found a program and could not execute it.
constexpr int kCannotExecute = 126;

// As a shell finds it, except that a file that is in no format of a program is not run by sh.
// Empty: it is nowhere.
std::string FindProgram(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "/bin:/usr/bin" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::string file = (folder.empty() ? "." : folder) + "/" + name;
    struct stat info {};
    if (stat(file.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
        access(file.c_str(), X_OK) == 0) {
      return file;
    }
  }
  return "";
}

// Errors of exec that may be over when it is tried again.
bool IsPassing(int error) {
  return error == EAGAIN || error == ENOMEM || error == ETXTBSY || error == EMFILE ||
         error == ENFILE || error == EIO;
}

ProcessEnd EndOfFailedExec(const std::string& program, int error) {
  ProcessEnd end;
  if (IsPassing(error)) {
    end.set_cause(ProcessEnd::EXITED);
    end.set_code(kCannotExecute);
  } else {
    end.set_cause(ProcessEnd::NOT_STARTED);
  }
  constexpr size_t kMostProgramBytes = 1000;
  end.set_detail(program.substr(0, kMostProgramBytes) +
                 " cannot be executed: " + std::strerror(error));
  return end;
}

std::string Describe(const ProcessEnd& end) {
  const std::string detail = end.detail().empty() ? "" : " (" + end.detail() + ")";
  const std::string code = std::to_string(end.code());
  switch (end.cause()) {
    case ProcessEnd::EXITED:
      return "ended with exit code " + code + detail;
    case ProcessEnd::SIGNALED:
      return "ended by signal " + code + detail;
    case ProcessEnd::NOT_STARTED:
      return "was not started" + detail;
    default:
      return "was killed" + detail;
  }
}

// What is done in the child until it is the command. Returns only if that fails, with an errno.
int BecomeCommand(const std::string& program, char* const* arguments, int go) {
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (int number = 1; number < NSIG; ++number) (void)signal(number, SIG_DFL);
  sigset_t none;
  (void)sigemptyset(&none);
  (void)sigprocmask(SIG_SETMASK, &none, nullptr);
  // The end of the pipe instead of a byte: the shim is gone, or cannot go on.
  char byte = 0;
  if (read(go, &byte, 1) != 1) _exit(kCannotExecute);
  (void)close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
  (void)execv(program.c_str(), arguments);
  return errno;
}

Status NoPipeToCommand(int error) {
  return FileError(std::string("no pipe to the command can be made: ") + std::strerror(error),
                   error);
}

class Shim {
 public:
  Shim(ShimOptions options, const std::function<void(const std::string&)>& say)
      : options_(std::move(options)), folder_(options_.folder), say_(say) {}

  Status Run();

 private:
  Status CatchSignals();
  // False: there is nothing to do.
  StatusOr<bool> MayBegin();
  Status Begin();
  Status Spawn(const std::string& program, int go[2], int failed[2]);
  void WaitForAll();
  bool ReapEnded();
  void WaitForEvent();
  void SignalAll(int signal) const;
  void AskOrphans() const;
  ProcessEnd HowItEnded() const;

  ShimOptions options_;
  IncarnationFolder folder_;
  const std::function<void(const std::string&)>& say_;
  Descriptor signals_;
  Descriptor lock_;
  std::optional<uint64_t> oom_kills_;  // before it began
  pid_t command_ = 0;                  // also its process group
  int status_ = 0;                     // of waitpid
  bool command_ended_ = false;
  std::optional<ProcessEnd> failed_exec_;
  std::optional<Clock::time_point> kill_at_;  // once all were asked to end
  bool is_killing_ = false;
  bool command_was_killed_ = false;  // by this shim
};

Status Shim::Run() {
  MILLRACE_RETURN_IF_ERROR(CatchSignals());
  MILLRACE_ASSIGN_OR_RETURN(lock_, folder_.TakeLock());
  if (!lock_.is_open()) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(const bool may_begin, MayBegin());
  if (!may_begin) return absl::OkStatus();
  MILLRACE_RETURN_IF_ERROR(Begin());
  options_.began.Close();
  WaitForAll();
  const ProcessEnd end = failed_exec_ ? *failed_exec_ : HowItEnded();
  say_(Describe(end));
  return folder_.WriteEnd(end);
}

// Before the lock is taken: from then on a launcher may send SIGTERM.
Status Shim::CatchSignals() {
  sigset_t all;
  (void)sigfillset(&all);
  (void)sigprocmask(SIG_SETMASK, &all, nullptr);
  // Who ignores it has no children to wait for.
  (void)signal(SIGCHLD, SIG_DFL);
  sigset_t caught;
  (void)sigemptyset(&caught);
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGCHLD}) (void)sigaddset(&caught, number);
  signals_ = Descriptor(signalfd(-1, &caught, SFD_CLOEXEC | SFD_NONBLOCK));
  if (signals_.is_open()) return absl::OkStatus();
  return FileError(std::string("signals cannot be received: ") + std::strerror(errno), errno);
}

StatusOr<bool> Shim::MayBegin() {
  MILLRACE_ASSIGN_OR_RETURN(const bool was_begun, folder_.WasBegun());
  if (was_begun) return false;
  MILLRACE_ASSIGN_OR_RETURN(const bool is_forgotten, IsForgotten(folder_.path()));
  if (is_forgotten) return false;
  MILLRACE_ASSIGN_OR_RETURN(const bool is_to_stop, folder_.IsAskedToStop());
  if (!is_to_stop) return true;
  say_("does not begin: it was stopped before");
  MILLRACE_RETURN_IF_ERROR(folder_.WriteEnd(EndOfNotBegun()));
  return false;
}

Status Shim::Begin() {
  // Whatever the command leaves behind becomes a child of this process.
  (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
  oom_kills_ = CountOomKills(options_.root);
  const std::string program = FindProgram(options_.command[0]);
  int go[2];
  int failed[2];
  if (pipe2(go, O_CLOEXEC) != 0) return NoPipeToCommand(errno);
  const Descriptor go_read(go[0]);
  Descriptor go_write(go[1]);
  if (pipe2(failed, O_CLOEXEC) != 0) return NoPipeToCommand(errno);
  const Descriptor failed_read(failed[0]);
  Descriptor failed_write(failed[1]);
  MILLRACE_RETURN_IF_ERROR(Spawn(program, go, failed));
  const std::optional<ProcessIdentity> identity = IdentityOf(command_);
  Status written = identity ? folder_.WriteStarted(*identity)
                            : absl::UnavailableError("/proc does not show process " +
                                                     std::to_string(command_) + "; mount it");
  if (written.ok() && write(go_write.number(), "g", 1) != 1) {
    written = absl::UnavailableError(std::string("the command cannot be started: ") +
                                     std::strerror(errno));
  }
  go_write.Close();
  if (!written.ok()) {  // the child ends when the pipe does
    (void)waitpid(command_, nullptr, 0);
    return written;
  }
  failed_write.Close();
  int error = 0;
  if (read(failed_read.number(), &error, sizeof(error)) == sizeof(error)) {
    failed_exec_ = EndOfFailedExec(options_.command[0], error);
  }
  return absl::OkStatus();
}

Status Shim::Spawn(const std::string& program, int go[2], int failed[2]) {
  std::vector<char*> arguments;
  for (std::string& argument : options_.command) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  std::string line;
  for (const std::string& argument : options_.command) line += " " + argument;
  constexpr size_t kMostBytesOfLine = 2000;
  say_("begins:" + Printable(line, kMostBytesOfLine));
  command_ = fork();
  if (command_ < 0) {
    return absl::ResourceExhaustedError(
        std::string("no process can be made: ") + std::strerror(errno) +
        "; raise the limits of processes (ulimit -u) and of memory, or run fewer on this machine");
  }
  if (command_ == 0) {
    (void)close(go[1]);  // its own, or it would never see the shim's end
    const int error = BecomeCommand(program, arguments.data(), go[0]);
    (void)!write(failed[1], &error, sizeof(error));
    _exit(kCannotExecute);
  }
  // Here and not in the child, so that it is done before the first signal is passed on.
  (void)setpgid(command_, command_);
  return absl::OkStatus();
}

void Shim::WaitForAll() {
  while (ReapEnded()) {
    if (is_killing_) {
      SignalAll(SIGKILL);
      // What is left and cannot be found cannot be waited for.
      if (command_ended_ && OwnChildren().empty()) return;
    }
    WaitForEvent();
  }
}

// False: no child is left.
bool Shim::ReapEnded() {
  for (;;) {
    siginfo_t ended{};
    if (waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) != 0) return errno == EINTR;
    if (ended.si_pid == 0) return true;
    const bool is_command = ended.si_pid == command_;
    const bool was_asked = kill_at_.has_value();
    // As long as the command was not waited for, its group's id is not another's.
    if (is_command && !was_asked) {
      SignalAll(SIGTERM);
      kill_at_ = Clock::now() + options_.grace;
    }
    int status = 0;
    if (waitpid(ended.si_pid, &status, 0) != ended.si_pid || !is_command) continue;
    status_ = status;
    command_ended_ = true;
    command_was_killed_ = is_killing_;
    if (was_asked) AskOrphans();
  }
}

// The command's group has been asked, and a second SIGTERM may mean to end at once.
void Shim::AskOrphans() const {
  for (const pid_t child : OwnChildren()) {
    if (getpgid(child) != command_) (void)kill(child, SIGTERM);
  }
}

void Shim::WaitForEvent() {
  // Who was killed may leave children, of which nothing is heard until they end.
  constexpr std::chrono::milliseconds kKillAgain{100};
  int timeout_ms = -1;
  if (is_killing_) {
    timeout_ms = static_cast<int>(kKillAgain.count());
  } else if (kill_at_) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*kill_at_ - Clock::now());
    timeout_ms = static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1'000'000));
  }
  pollfd ready{signals_.number(), POLLIN, 0};
  (void)poll(&ready, 1, timeout_ms);
  for (signalfd_siginfo info{}; read(signals_.number(), &info, sizeof(info)) == sizeof(info);) {
    if (info.ssi_signo == SIGCHLD || kill_at_) continue;
    say_("is asked to end");
    SignalAll(SIGTERM);
    kill_at_ = Clock::now() + options_.grace;
  }
  if (!is_killing_ && kill_at_ && Clock::now() >= *kill_at_) {
    say_("has not ended in time, and is killed");
    is_killing_ = true;
  }
}

// The command's group, and what has left the group and lost its parent. To others of the command's
// descendants a signal comes when their parents end.
void Shim::SignalAll(int signal) const {
  if (!command_ended_) (void)kill(-command_, signal);
  for (const pid_t child : OwnChildren()) {
    if (command_ended_ || getpgid(child) != command_) (void)kill(child, signal);
  }
}

ProcessEnd Shim::HowItEnded() const {
  ProcessEnd end;
  if (WIFEXITED(status_)) {
    end.set_cause(ProcessEnd::EXITED);
    end.set_code(WEXITSTATUS(status_));
    return end;
  }
  end.set_cause(ProcessEnd::SIGNALED);
  end.set_code(WTERMSIG(status_));
  end.set_detail(strsignal(WTERMSIG(status_)));
  if (WTERMSIG(status_) != SIGKILL) return end;
  const std::optional<uint64_t> kills = CountOomKills(options_.root);
  if (command_was_killed_) {
    end.set_detail("it had not ended " + std::to_string(options_.grace.count()) +
                   " ms after SIGTERM");
  } else if (kills && oom_kills_ && *kills > *oom_kills_) {
    end.set_cause(ProcessEnd::OUT_OF_MEMORY);
    end.set_code(0);
    end.set_detail("give it more memory, or run fewer processes beside it");
  }
  return end;
}

}  // namespace

Status RunShim(ShimOptions options, const std::function<void(const std::string&)>& say) {
  return Shim(std::move(options), say).Run();
}

}  // namespace millrace
