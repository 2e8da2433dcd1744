// Gathers members of a test, threads or processes, as the barriers of a master do (docs/nodes.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "collective/world.h"

namespace millrace {

// A member lives until its end of a socket is closed, as that of a process that is killed is. All
// who live are released together, when each has given a value.
class Gatherer {
 public:
  // The end of a member, which closes it. A process that is not this member must close it, too.
  int Add(const std::string& instance);
  // Until all members have ended. Called once.
  void Serve();

  // What a member has said at its end; none: it did not come to it.
  std::optional<std::string> LastWords(const std::string& instance) const;

 private:
  struct Member {
    int fd = -1;
    std::string instance;
    std::optional<std::string> value;
  };

  void Hear(Member& member);
  void ReleaseAll();

  uint64_t release_ = 40;  // as if others had been
  std::vector<Member> members_;
  std::map<std::string, std::string> last_words_;
};

// What a member does with its end.
StatusOr<Gathered> GatherBy(int fd, const std::string& value);
void SayLastWords(int fd, const std::string& words);

// Runs so many members, each in a thread of its own: member i is "m<i>".
void RunMembers(size_t count, const std::function<void(size_t, const Gather&)>& member);

}  // namespace millrace
