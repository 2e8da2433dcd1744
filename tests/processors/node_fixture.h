// Commands of nodes for tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <utility>

#include "processors/job_nodes.h"
#include "topics/node_codec.h"

namespace millrace {

inline NodeCommand NodeJoin(std::string instance, std::string role = "worker",
                            uint64_t timeout_ticks = 5) {
  NodeCommand command;
  command.mutable_join()->set_address(instance + ":7000");
  command.mutable_join()->set_instance(std::move(instance));
  command.mutable_join()->set_role(std::move(role));
  command.mutable_join()->set_timeout_ticks(timeout_ticks);
  return command;
}

inline NodeCommand NodeSign(const std::string& instance) {
  NodeCommand command;
  command.set_sign(instance);
  return command;
}

inline NodeCommand NodeLeave(const std::string& instance) {
  NodeCommand command;
  command.set_leave(instance);
  return command;
}

inline NodeCommand NodeArrive(const std::string& instance, uint64_t passing,
                              const std::string& barrier = "start", const std::string& role = "") {
  NodeCommand command;
  command.mutable_arrive()->set_instance(instance);
  command.mutable_arrive()->set_barrier(barrier);
  command.mutable_arrive()->set_role(role);
  command.mutable_arrive()->set_passing(passing);
  return command;
}

inline NodeCommand WithValue(NodeCommand command, std::string value) {
  command.mutable_arrive()->set_value(std::move(value));
  return command;
}

inline NodeCommand WithLeast(NodeCommand command, const std::string& role, uint32_t nodes) {
  NodeCount& least = *command.mutable_arrive()->add_least();
  least.set_role(role);
  least.set_nodes(nodes);
  return command;
}

// Of few instances, that come, go, arrive and are replaced; new ones follow the `joined`.
inline NodeCommand RandomNodeCommand(std::mt19937& random, uint64_t joined) {
  const uint64_t newest = joined + 2;
  const std::string instance =
      "i" + std::to_string(newest - random() % std::min<uint64_t>(newest, 8));
  const std::string role = random() % 2 == 0 ? "ps" : "worker";
  switch (random() % 8) {
    case 0:
    case 1:
      return NodeJoin(instance, role, 1 + random() % 4);
    case 2:
    case 3:
      return NodeSign(instance);
    case 4:
      return random() % 3 == 0 ? NodeLeave(instance) : NodeSign(instance);
    default: {
      NodeCommand command =
          NodeArrive(instance, 1 + random() % 4, "b" + std::to_string(random() % 3),
                     random() % 3 == 0 ? "worker" : "");
      if (random() % 2 == 0) command.mutable_arrive()->set_value(std::to_string(random() % 100));
      if (random() % 4 != 0) return command;
      return WithLeast(std::move(command), "worker", 1 + static_cast<uint32_t>(random() % 3));
    }
  }
}

inline std::string TextOfNodes(const JobNodes& nodes) {
  std::string text;
  for (const auto& [key, member] : nodes.members().members()) text += member.DebugString();
  for (const auto& [name, barrier] : nodes.barriers().barriers()) {
    text += nodes.barriers().StateOf(name).DebugString();
  }
  return text;
}

// The nodes of a job, and words for what they do.
class TestedNodes {
 public:
  // What the sender is told.
  StatusOr<NodeAnswer> Tell(NodeCommand command) {
    Do(command);
    auto answer = nodes.AnswerTo(command);
    return answer ? *std::move(answer) : StatusOr<NodeAnswer>(absl::UnavailableError("it waits"));
  }
  void Do(NodeCommand command) {
    command.set_front(front);
    command.set_number(++number);
    nodes.Apply(command);
  }
  // -1: it was refused.
  int64_t Join(const std::string& instance, const std::string& role = "worker") {
    const StatusOr<NodeAnswer> answer = Tell(NodeJoin(instance, role));
    return answer.ok() ? int64_t{answer->member.rank()} : -1;
  }
  bool Signs(const std::string& instance) { return Tell(NodeSign(instance)).ok(); }
  // "it waits"; who has passed "worker-0 worker-1", behind a "+" who died; the refusal.
  std::string Arrive(const NodeCommand& command) {
    Do(command);
    return Hears(command);
  }
  // The same, of one that has said it already.
  std::string Hears(const NodeCommand& command) const {
    const auto told = nodes.AnswerTo(command);
    if (!told) return "it waits";
    const StatusOr<NodeAnswer>& answer = *told;
    if (!answer.ok()) return std::string(answer.status().message());
    std::string text;
    for (const auto& each : answer->barrier.passed()) {
      text += (text.empty() ? "" : " ") + NodeText(each.role(), each.rank());
    }
    for (const auto& each : answer->barrier.passed_deaths()) {
      text += " +" + NodeText(each.role(), each.rank()) + ":" + each.instance();
    }
    return text;
  }
  void Ticks(uint64_t count) {
    for (; count > 0; --count) nodes.Tick(nodes.ticks() + 1);
  }

  JobNodes nodes;
  uint64_t front = 1;
  uint64_t number = 0;
};

}  // namespace millrace
