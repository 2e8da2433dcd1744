#include "apps/program.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdio>

namespace millrace {

void SetUpLogging() {
  spdlog::set_default_logger(spdlog::stderr_color_mt("millrace"));
  spdlog::set_pattern("%H:%M:%S.%e %^%l%$ %v");
}

int RunProgram(CLI::App& app, const std::string& program, int argc, char** argv,
               const std::function<Status()>& run) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // --help and --version are no errors: CLI11 prints them and says 0.
    return app.exit(error) == 0 ? kExitOk : kExitUsage;
  }
  SetUpLogging();
  const Status status = run();
  if (status.ok()) return kExitOk;
  if (absl::IsCancelled(status)) return kExitInterrupted;
  std::fprintf(stderr, "%s: %s\n", program.c_str(), std::string(status.message()).c_str());
  return absl::IsInvalidArgument(status) ? kExitUsage : kExitError;
}

}  // namespace millrace
