// A trainer that only waits for the others (ParameterManager::Barrier), by the calls for C or C++.
//
//     barrier_trainer BROKERS JOB MASTER TRAINERS TRAINER c|c++
//
// Each line of its input is the name of a barrier; when it has passed it, it prints the members of
// the job and their states, or why it has not.
#include <millrace/millrace.h>
#include <millrace/parameter_manager.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>

namespace {

using millrace::client::Member;
using millrace::client::ParameterManager;

void Say(const char* address, unsigned rank, int state) {
  std::printf("%s is %u, %s; ", address, rank,
              std::array{"live", "dead", "left"}.at(size_t(state)));
}

int Fail(const std::string& message) { return std::printf("%s\n", message.c_str()), 1; }

int RunInC(char** argv) {
  MillraceManager* manager = nullptr;
  const auto number = [argv](int i) { return uint32_t(std::strtoul(argv[i], nullptr, 10)); };
  if (millrace_connect(argv[1], argv[2], 1, number(4), number(5), 60, argv[3], nullptr, &manager)) {
    return Fail(millrace_error());
  }
  for (std::string name; std::getline(std::cin, name); std::puts(""), std::fflush(stdout)) {
    std::array<MillraceMember, 10> members{};
    size_t count = 0;
    if (millrace_barrier(manager, name.c_str(), 0) ||
        millrace_members(manager, members.data(), members.size(), &count)) {
      return Fail(millrace_error());
    }
    for (size_t i = 0; i < count; ++i) Say(members[i].address, members[i].rank, members[i].state);
  }
  return millrace_destroy(manager), 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 7) return 2;
  if (std::string(argv[6]) == "c") return RunInC(argv);
  const auto number = [argv](int i) { return uint32_t(std::strtoul(argv[i], nullptr, 10)); };
  auto connected = ParameterManager::Connect({.brokers = argv[1],
                                              .job = argv[2],
                                              .trainers = number(4),
                                              .trainer = number(5),
                                              .master = argv[3],
                                              .timeout_s = 60});
  if (!connected.ok()) return Fail(connected.status().message());
  ParameterManager& manager = **connected;
  for (std::string name; std::getline(std::cin, name); std::puts(""), std::fflush(stdout)) {
    const millrace::client::Status passed = manager.Barrier(name);
    if (!passed.ok()) return Fail(passed.message());
    const auto members = manager.Members();
    if (!members.ok()) return Fail(members.status().message());
    for (const Member& member : *members) {
      Say(member.address.c_str(), member.rank, static_cast<int>(member.state));
    }
  }
}
