#include "collective/world.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/hash.h"
#include "collective/invitation.h"

namespace millrace {
namespace {

// Each gathering but the first follows a change of members, so that many follow one another only
// where a member never gives its addresses.
constexpr int kMostGatherings = 100;

// Before any port is opened.
Status CheckSize(size_t members) {
  const size_t bytes = MostInvitationBytes(members);
  if (bytes <= kMostGatherBytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "a world of ", members, " members is too large: the ports of a member may take ", bytes,
      " bytes of its value, which has room for ", kMostGatherBytes, ". Start fewer processes"));
}

std::string InvitationOf(const Mesh& mesh, uint64_t release) {
  Invitation invitation;
  invitation.release = release;
  for (const MeshAddress& address : mesh.addresses()) {
    if (!address.host.empty()) invitation.host = address.host;
    invitation.ports.push_back(address.port);
  }
  return EncodeInvitation(invitation);
}

std::vector<std::string> InstancesOf(const Gathered& gathered) {
  std::vector<std::string> instances;
  for (const Gathered::Member& member : gathered.members) instances.push_back(member.instance);
  return instances;
}

// Where each member waits for the one at this position; none: not all of them know of `release`.
std::optional<std::vector<MeshAddress>> AgreedAddresses(const Gathered& gathered, uint64_t release,
                                                        uint32_t position) {
  std::vector<MeshAddress> addresses;
  for (const Gathered::Member& member : gathered.members) {
    const auto invitation = DecodeInvitation(member.value, gathered.members.size());
    if (!invitation || invitation->release != release) return std::nullopt;
    addresses.push_back({invitation->host, invitation->ports[position]});
  }
  return addresses;
}

}  // namespace

World::World(uint64_t id, std::vector<std::string> instances, std::unique_ptr<Mesh> mesh)
    : id_(id), tag_(Mix64(id)), instances_(std::move(instances)), mesh_(std::move(mesh)) {}

StatusOr<World> World::Join(const MeshOptions& options, const std::string& instance,
                            const Gather& gather) {
  std::string value;
  std::unique_ptr<Mesh> mesh;  // for those whom `release` has released
  uint64_t release = 0;
  for (int i = 0; i < kMostGatherings; ++i) {
    MILLRACE_ASSIGN_OR_RETURN(const Gathered gathered, gather(value));
    std::vector<std::string> instances = InstancesOf(gathered);
    const auto self = std::ranges::find(instances, instance);
    if (self == instances.end()) {
      return absl::FailedPreconditionError(
          absl::StrCat("the barrier has released nodes without this instance, ", instance,
                       ": give World::Join the instance id that the node has joined with"));
    }
    const auto position = static_cast<uint32_t>(self - instances.begin());
    if (mesh != nullptr) {
      // All see the same. Those who invite all of that release are exactly its members.
      if (const auto addresses = AgreedAddresses(gathered, release, position); addresses) {
        MILLRACE_RETURN_IF_ERROR(mesh->Connect(*addresses, gathered.release));
        return World(gathered.release, std::move(instances), std::move(mesh));
      }
    }
    MILLRACE_RETURN_IF_ERROR(CheckSize(instances.size()));
    MILLRACE_ASSIGN_OR_RETURN(
        mesh, Mesh::Listen(options, position, static_cast<uint32_t>(instances.size())));
    release = gathered.release;
    value = InvitationOf(*mesh, release);
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "after ", kMostGatherings,
      " releases of the barrier its nodes still do not agree on their addresses: a node at this "
      "barrier does not use World::Join, or nodes join or die all the time"));
}

uint64_t World::NextTag(uint64_t shape) {
  tag_ = Mix64(tag_ ^ Mix64(shape));
  return tag_;
}

}  // namespace millrace
