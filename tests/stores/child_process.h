// Another process, talked to over pipes.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <vector>

#include "base/check.h"

extern char** environ;

namespace millrace {

// Started by posix_spawn: RocksDB's threads do not survive a fork without exec. Killed at the
// latest when this object goes.
class ChildProcess {
 public:
  explicit ChildProcess(std::vector<std::string> command) {
    int to_child[2];
    int from_child[2];
    MILLRACE_CHECK(pipe2(to_child, O_CLOEXEC) == 0 && pipe2(from_child, O_CLOEXEC) == 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, to_child[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, from_child[1], STDOUT_FILENO);
    std::vector<char*> arguments;
    for (std::string& argument : command) arguments.push_back(argument.data());
    arguments.push_back(nullptr);
    MILLRACE_CHECK(posix_spawn(&pid_, arguments[0], &actions, nullptr, arguments.data(), environ) ==
                   0);
    posix_spawn_file_actions_destroy(&actions);
    close(to_child[0]);
    close(from_child[1]);
    input_ = to_child[1];
    output_ = from_child[0];
  }
  ~ChildProcess() {
    Kill();
    close(input_);
    close(output_);
  }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }

  // Empty at the end of the output, and for a line that has no end.
  std::optional<std::string> ReadLine() {
    std::string line;
    for (char c; read(output_, &c, 1) == 1;) {
      if (c == '\n') return line;
      line += c;
    }
    return std::nullopt;
  }

  // The line, and its end.
  void WriteLine(const std::string& line) {
    const std::string text = line + "\n";
    MILLRACE_CHECK(write(input_, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  }

  // SIGKILL; returns when the process is gone.
  void Kill() {
    if (is_waited_for_) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    is_waited_for_ = true;
  }

 private:
  pid_t pid_ = 0;
  int input_ = -1;
  int output_ = -1;
  bool is_waited_for_ = false;
};

}  // namespace millrace
