// What has to follow from what nodes say, computed in another way.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "processors/job_nodes.h"
#include "topics/node_codec.h"

namespace millrace {

// The rules of Membership and Barriers over the list of all nodes that ever joined: slow, and
// without anything that the fold keeps, forgets or looks up.
class NodeReferee {
 public:
  struct Node {
    std::string role;
    uint32_t rank = 0;
    std::string instance;
    std::string address;
    uint64_t timeout = 0;
    uint64_t signed_at = 0;
    bool lives = true;
    bool is_dead = false;

    std::string name() const { return NodeText(role, rank); }
  };

  // A command that is behind all before it.
  void Apply(const NodeCommand& command) {
    if (command.has_join()) Join(command.join());
    if (command.has_sign()) Sign(command.sign());
    if (command.has_leave()) {
      if (Node* node = Living(command.leave()); node != nullptr) node->lives = false;
    }
    if (command.has_arrive()) {
      Sign(command.arrive().instance());
      Arrive(command.arrive());
    }
    Settle();
  }

  void Tick() {
    ++ticks_;
    for (Node& node : all_) {
      if (!node.lives || ticks_ < node.signed_at + node.timeout) continue;
      node.lives = false;
      node.is_dead = true;
      for (auto& [name, gathering] : gatherings_) {
        if (IsFor(gathering, node)) gathering.deaths[{node.role, node.rank}] = node.instance;
      }
    }
    Settle();
  }

  // Null: it has not joined.
  const Node* Find(const std::string& instance) const {
    for (const Node& node : all_) {
      if (node.instance == instance) return &node;
    }
    return nullptr;
  }

  // What this instance was told, or is to be told, of this passing; empty: it was not released.
  std::string Release(const std::string& barrier, const std::string& instance,
                      uint64_t passing) const {
    const auto release = releases_.find({barrier, instance, passing});
    return release == releases_.end() ? "" : release->second;
  }

  static std::string TextOf(const BarrierState& barrier) {
    std::string text;
    for (const auto& each : barrier.passed()) {
      text += NodeText(each.role(), each.rank()) + ":" + each.instance() + "@" + each.address() +
              "=" + each.value() + " ";
    }
    for (const auto& each : barrier.passed_deaths()) {
      text += "+" + NodeText(each.role(), each.rank()) + ":" + each.instance() + " ";
    }
    return barrier.release() > 0 ? text + "#" + std::to_string(barrier.release()) : text;
  }

  // Who lives, and who waits where, and what the last release said.
  std::string Text() const {
    std::map<std::string, std::string> lines;
    for (const Node& node : all_) {
      if (node.lives) lines[node.name()] = node.instance;
    }
    for (const auto& [name, gathering] : gatherings_) {
      std::string& line = lines["barrier " + name];
      for (const Node& node : all_) {
        if (!gathering.arrived.contains(node.instance)) continue;
        line += node.name() + "=" + gathering.values.at(node.instance) + " ";
      }
      line += "; " + gathering.said;
    }
    return Joined(lines);
  }
  static std::string TextOf(const JobNodes& nodes) {
    std::map<std::string, std::string> lines;
    for (const auto& [key, member] : nodes.members().members()) {
      if (member.phase() != MemberState::LIVE) continue;
      lines[NodeText(key.first, key.second)] = member.instance();
    }
    for (const auto& [name, barrier] : nodes.barriers().barriers()) {
      std::string& line = lines["barrier " + name];
      for (const auto& [incarnation, each] : barrier.arrived) {
        line += NodeText(each.role(), each.rank()) + "=" + each.value() + " ";
      }
      line += "; " + TextOf(nodes.barriers().StateOf(name));
    }
    return Joined(lines);
  }

 private:
  struct Gathering {
    std::string role;
    std::map<std::string, uint64_t> arrived;    // by instance the passing
    std::map<std::string, std::string> values;  // by instance, of the newest arrival
    std::map<std::string, uint32_t> least;
    std::map<std::pair<std::string, uint32_t>, std::string> deaths;
    std::map<std::string, uint64_t> passed;
    std::string said;
  };

  static std::string Joined(const std::map<std::string, std::string>& lines) {
    std::string text;
    for (const auto& [key, line] : lines) text.append(key).append(": ").append(line).append("\n");
    return text;
  }
  static bool IsFor(const Gathering& gathering, const Node& node) {
    return gathering.role.empty() || gathering.role == node.role;
  }

  Node* Living(const std::string& instance) {
    for (Node& node : all_) {
      if (node.lives && node.instance == instance) return &node;
    }
    return nullptr;
  }
  void Sign(const std::string& instance) {
    if (Node* node = Living(instance); node != nullptr) node->signed_at = ticks_;
  }

  void Join(const NodeCommand::Join& join) {
    if (const Node* known = Find(join.instance()); known != nullptr) {
      if (known->role == join.role()) Sign(join.instance());
      return;
    }
    Node node{join.role(), 0, join.instance(), join.address(), join.timeout_ticks(), ticks_};
    const auto is_taken = [&](const Node& other) {
      return other.lives && other.role == node.role && other.rank == node.rank;
    };
    while (std::ranges::any_of(all_, is_taken)) ++node.rank;
    all_.push_back(node);
  }

  void Arrive(const NodeCommand::Arrive& arrive) {
    const Node* node = Living(arrive.instance());
    if (node == nullptr || (!arrive.role().empty() && arrive.role() != node->role)) return;
    const bool is_new = !gatherings_.contains(arrive.barrier());
    Gathering& gathering = gatherings_[arrive.barrier()];
    if (is_new) {
      gathering.role = arrive.role();
      for (const Node& each : all_) {  // of each rank the newest
        const std::pair key(each.role, each.rank);
        gathering.deaths.erase(key);
        if (each.is_dead && IsFor(gathering, each)) gathering.deaths[key] = each.instance;
      }
    }
    if (gathering.role != arrive.role()) return;
    const auto passed = gathering.passed.find(node->instance);
    if (passed != gathering.passed.end() && arrive.passing() <= passed->second) return;
    uint64_t& passing = gathering.arrived[node->instance];
    if (arrive.passing() < passing) return;
    passing = arrive.passing();
    gathering.values[node->instance] = arrive.value();
    for (const NodeCount& least : arrive.least()) {
      gathering.least[least.role()] = std::max(gathering.least[least.role()], least.nodes());
    }
  }

  void Settle() {
    for (auto& [name, gathering] : gatherings_) {
      std::erase_if(gathering.arrived,
                    [this](const auto& each) { return Living(each.first) == nullptr; });
      if (IsComplete(gathering)) Let(name, gathering);
    }
    std::erase_if(gatherings_, [this](const auto& entry) {
      return entry.second.arrived.empty() &&
             std::ranges::none_of(entry.second.passed, [this](const auto& each) {
               return Living(each.first) != nullptr;
             });
    });
  }

  bool IsComplete(const Gathering& gathering) const {
    const auto lacks = [&](const Node& node) {
      return node.lives && IsFor(gathering, node) && !gathering.arrived.contains(node.instance);
    };
    if (gathering.arrived.empty() || std::ranges::any_of(all_, lacks)) return false;
    return std::ranges::all_of(gathering.least, [this](const auto& least) {
      const auto count = std::ranges::count_if(
          all_, [&](const Node& node) { return node.lives && node.role == least.first; });
      return count >= static_cast<int64_t>(least.second);
    });
  }

  void Let(const std::string& name, Gathering& gathering) {
    gathering.said.clear();
    for (const Node& node : all_) {
      if (!gathering.arrived.contains(node.instance)) continue;
      gathering.said += node.name() + ":" + node.instance + "@" + node.address + "=" +
                        gathering.values.at(node.instance) + " ";
    }
    for (const auto& [key, instance] : gathering.deaths) {
      gathering.said += "+" + NodeText(key.first, key.second) + ":" + instance + " ";
    }
    gathering.said += "#" + std::to_string(++released_);
    for (const auto& [instance, passing] : gathering.arrived) {
      releases_[{name, instance, passing}] = gathering.said;
    }
    gathering.passed = std::exchange(gathering.arrived, {});
    gathering.deaths.clear();
    gathering.least.clear();
  }

  std::vector<Node> all_;  // as they joined
  uint64_t ticks_ = 0;
  uint64_t released_ = 0;
  std::map<std::string, Gathering> gatherings_;
  std::map<std::tuple<std::string, std::string, uint64_t>, std::string> releases_;
};

}  // namespace millrace
