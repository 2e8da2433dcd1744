// What the programs have in common: flags in, an exit code out.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "base/status.h"

namespace millrace {

// Exit codes of every program.
inline constexpr int kExitOk = 0;  // for programs that run until their job ends: it has ended
inline constexpr int kExitError = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitInterrupted = 130;  // stopped by a signal, with everything saved
inline constexpr int kExitTakenOver = 4;      // another process has taken over (IsFenced)

// InvalidArgument, which stands for wrong usage, as FailedPrecondition: of an input that is no
// good. Any other status as it is.
Status NotOfUsage(const Status& status);

// Parses the command line, then runs `run`. A usage error prints what is wrong and where help is;
// an error of `run` is one line on stderr: "PROGRAM: message".
int RunProgram(CLI::App& app, const std::string& program, int argc, char** argv,
               const std::function<Status()>& run);

// Log lines on stderr: time, level, text.
void SetUpLogging();

}  // namespace millrace
