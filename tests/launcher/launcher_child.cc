// A process with a launcher, or a shim, for tests.
//
//   launcher_child start SHIM RUN-DIR      starts what each line of standard input says, "RANK
//                                          INCARNATION COMMAND", by sh; answers "ok" or an error
//   launcher_child shim FOLDER ROOT COMMAND
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "launcher/local_launcher.h"
#include "launcher/shim.h"

namespace millrace {
namespace {

int StartLines(const std::string& shim, const std::string& run_dir) {
  LocalLauncherOptions options;
  options.run_dir = run_dir;
  options.job = "tests";
  options.epoch = 1;
  options.shim = shim;
  options.on_change = [] {};
  const auto launcher = LocalLauncher::Create(options);
  std::cout << (launcher.ok() ? "ok" : launcher.status().ToString()) << std::endl;
  for (std::string line; launcher.ok() && std::getline(std::cin, line);) {
    std::istringstream words(line);
    uint32_t rank = 0;
    uint64_t incarnation = 0;
    words >> rank >> incarnation;
    ProcessOrder order;
    order.mutable_process()->set_group("worker");
    order.mutable_process()->set_rank(rank);
    order.set_incarnation(incarnation);
    order.add_command("/bin/sh");
    order.add_command("-c");
    std::getline(words, *order.add_command());
    const Status started = (*launcher)->Start(order);
    std::cout << (started.ok() ? "ok" : started.ToString()) << std::endl;
  }
  return 0;
}

int RunOne(const std::string& folder, const std::string& root, const std::string& command) {
  ShimOptions options;
  options.folder = folder;
  options.grace = std::chrono::seconds(60);
  options.command = {"/bin/sh", "-c", command};
  options.root = root;
  const Status status = RunShim(std::move(options), [](const std::string&) {});
  std::cout << status.ToString() << std::endl;
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv, argv + argc);
  if (words.size() == 4 && words[1] == "start") return millrace::StartLines(words[2], words[3]);
  if (words.size() == 5 && words[1] == "shim")
    return millrace::RunOne(words[2], words[3], words[4]);
  return 2;
}
