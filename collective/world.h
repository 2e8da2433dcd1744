// Members that compute together, connected to each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "collective/mesh.h"

namespace millrace {

// What all who were gathered together are told, each the same: docs/nodes.md has a barrier that
// does so.
struct Gathered {
  struct Member {
    std::string instance;  // no other process has or had it
    std::string value;     // that it gave
  };
  uint64_t release = 0;         // its number, which no other gathering has
  std::vector<Member> members;  // by position
};

// Waits until all who live have given a value, of kMostGatherBytes at most. Errors end the joining.
using Gather = std::function<StatusOr<Gathered>(const std::string& value)>;
inline constexpr size_t kMostGatherBytes = 1'024;

// The same members, in the same positions, from its begin to its end: when one of them dies, all
// exchanges fail and whoever is left joins the next world. Used by one thread at a time.
class World {
 public:
  // Gathers until all know where each waits for the others, twice at least, and connects. Errors:
  // those of `gather`; Unavailable, a member is not there any more: join again; those of
  // Mesh::Listen; ResourceExhausted: there are more members than a value has room for;
  // FailedPrecondition: the members do not come to an agreement, or the instance is not among them.
  static StatusOr<World> Join(const MeshOptions& options, const std::string& instance,
                              const Gather& gather);

  uint64_t id() const { return id_; }  // no other world of the job has it
  uint32_t position() const { return mesh_->position(); }
  uint32_t size() const { return mesh_->size(); }
  const std::vector<std::string>& instances() const { return instances_; }  // by position
  Mesh& mesh() { return *mesh_; }

  // For the next exchange. It is the same in all members that have begun as many exchanges, of the
  // same shapes: whoever does something else finds nobody to exchange with, until the timeout.
  uint64_t NextTag(uint64_t shape);

 private:
  World(uint64_t id, std::vector<std::string> instances, std::unique_ptr<Mesh> mesh);

  uint64_t id_;
  uint64_t tag_;
  std::vector<std::string> instances_;
  std::unique_ptr<Mesh> mesh_;
};

}  // namespace millrace
