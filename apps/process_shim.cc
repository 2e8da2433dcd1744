// Runs a process of a job for MasterApp, and notes how it ended. No user calls it by hand.
#include <fcntl.h>

#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "apps/version.h"
#include "base/clock.h"
#include "base/utc_time.h"
#include "launcher/run_folder.h"
#include "launcher/shim.h"

namespace {

constexpr int kExitError = 1;
constexpr int kExitUsage = 2;
constexpr const char* kHelp =
    "ProcessShim FOLDER GRACE-MS PROGRAM [ARGUMENT...]\n"
    "\n"
    "MasterApp starts one for each process of a job on this machine. It runs PROGRAM, passes "
    "SIGTERM\n"
    "to it, kills it GRACE-MS milliseconds later, and writes to FOLDER how it ended. It does so "
    "once\n"
    "for each FOLDER, and goes on when MasterApp ends.\n"
    "\n"
    "Exit codes: 0 PROGRAM has ended (FOLDER/end says how), or was started before; 1 error;\n"
    "2 wrong usage.\n";

}  // namespace

int main(int argc, char** argv) {
  const std::string_view first = argc > 1 ? argv[1] : "";
  if (first == "--help" || first == "--version") {
    if (first == "--help") std::fputs(kHelp, stdout);
    if (first == "--version") std::printf("Millrace %s\n", millrace::MillraceVersion());
    return 0;
  }
  const std::optional<uint64_t> grace_ms =
      millrace::ParseNumber(argc > 2 ? std::string_view(argv[2]) : "");
  constexpr uint64_t kMostGraceMs = 1'000'000'000;
  constexpr int kFirstOfCommand = 3;
  if (argc <= kFirstOfCommand || !grace_ms || *grace_ms > kMostGraceMs) {
    std::fputs("ProcessShim: FOLDER, GRACE-MS and PROGRAM are needed; see ProcessShim --help\n",
               stderr);
    return kExitUsage;
  }
  millrace::ShimOptions options;
  options.folder = argv[1];
  options.grace = std::chrono::milliseconds(*grace_ms);
  options.command.assign(argv + kFirstOfCommand, argv + argc);
  // Called by hand, it has none.
  if (fcntl(millrace::kShimBegan, F_GETFD) >= 0) {
    options.began = millrace::Descriptor(millrace::kShimBegan);
  }
  const std::filesystem::path folder(options.folder);
  const std::string name =
      folder.parent_path().filename().string() + ", incarnation " + folder.filename().string();
  const auto say = [&](const std::string& text) {
    std::fprintf(stderr, "%s %s: %s\n", millrace::UtcTime(millrace::NowMs()).c_str(), name.c_str(),
                 text.c_str());
  };
  const millrace::Status status = millrace::RunShim(std::move(options), say);
  if (status.ok()) return 0;
  say("error: " + std::string(millrace::TextOf(status)));
  return kExitError;
}
