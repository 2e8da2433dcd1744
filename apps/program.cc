#include "apps/program.h"

#include <malloc.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>
#include <new>

#include "apps/stderr_pipe.h"
#include "apps/usage_error.h"
#include "base/error_marks.h"

namespace millrace {
namespace {

// Each round takes messages and gradients of megabytes and lets go of them again. glibc maps blocks
// of 32 MB and more, and unmaps them, so that every page is cleared and faulted in again: a fifth
// of the rounds of a model of ten million weights. What was taken once is kept instead.
void KeepLargeBlocks() {
  constexpr int kMostBytes = 1 << 30;
  mallopt(M_MMAP_THRESHOLD, kMostBytes);
  mallopt(M_TRIM_THRESHOLD, kMostBytes);
}

const char* program_name = "";

// Memory that there is not is no fault of the program's: it says so and ends, without a core dump.
[[noreturn]] void OutOfMemory() {
  std::fprintf(
      stderr,
      "%s: out of memory. A dense model takes 16 bytes and more for each of its weights: "
      "(features + 1) * classes. Lower --text-buckets or --categorical-buckets, give it more "
      "shards and machines (--shards), or let rows be sent (--wide-above)\n",
      program_name);
  std::_Exit(kExitError);
}

}  // namespace

void SetUpLogging() {
  spdlog::set_default_logger(spdlog::stderr_color_mt("millrace"));
  spdlog::set_pattern("%H:%M:%S.%e %^%l%$ %v");
}

Status NotOfUsage(const Status& status) {
  return absl::IsInvalidArgument(status) ? absl::FailedPreconditionError(status.message()) : status;
}

int RunProgram(CLI::App& app, const std::string& program, int argc, char** argv,
               const std::function<Status()>& run) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // --help and --version are no errors: CLI11 prints them.
    if (error.get_exit_code() == 0) return app.exit(error);
    std::fprintf(stderr, "%s: %s\n", program.c_str(), UsageError(app, program, error).c_str());
    return kExitUsage;
  }
  StopWaitingForTheLogsReader();
  SetUpLogging();
  KeepLargeBlocks();
  program_name = program.c_str();
  std::set_new_handler(OutOfMemory);
  // What they write are rows, weights and logs of a job: nobody else's business.
  (void)umask(S_IRWXG | S_IRWXO);
  const Status status = run();
  if (status.ok()) return kExitOk;
  if (absl::IsCancelled(status)) return kExitInterrupted;
  std::fprintf(stderr, "%s: %s\n", program.c_str(), std::string(status.message()).c_str());
  if (IsFenced(status)) return kExitTakenOver;
  return absl::IsInvalidArgument(status) ? kExitUsage : kExitError;
}

}  // namespace millrace
