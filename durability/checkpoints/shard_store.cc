#include "durability/checkpoints/shard_store.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/big_endian.h"
#include "base/check.h"
#include "tasks/checkpoint.h"
#include "topics/topics.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kForTheLock(2);
constexpr std::chrono::milliseconds kLockAgain(50);

std::string ShardFolder(const JobConfig& config, ShardId shard) {
  return config.server().data_dir() + "/" + LayoutName(config) + "-shard-" + std::to_string(shard);
}

std::string ReplicaFolder(const JobConfig& config, ShardId shard) {
  return ShardFolder(config, shard) + "-replica";
}

bool IsThere(const std::string& folder) {
  std::error_code ignored;
  return fs::exists(folder, ignored);
}

constexpr char kRemoved[] = ".removed";

// A store without some of its files cannot be opened. So it loses its name first: who is killed
// meanwhile leaves it whole, or one that nobody opens.
Status RemoveFolder(const std::string& folder) {
  const std::string removed = folder + kRemoved;
  std::error_code error;
  fs::remove_all(removed, error);
  if (!error && fs::exists(folder, error)) fs::rename(folder, removed, error);
  if (!error) fs::remove_all(removed, error);
  if (!error) return absl::OkStatus();
  return absl::UnavailableError("cannot remove " + folder + ": " + error.message());
}

// What stands beside `folder` under its name and `suffix`, and perhaps more.
std::vector<fs::path> ListNamedAs(const fs::path& folder, const std::string& suffix) {
  const std::string prefix = folder.filename().string() + suffix;
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder.parent_path(), error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().filename().string().starts_with(prefix)) found.push_back(entry->path());
  }
  return found;
}

// Removes what RemoveFolder has left of `folder`, `folder`.2 .., since its process was killed.
void RemoveLeftOvers(const fs::path& folder) {
  std::error_code ignored;
  for (const fs::path& path : ListNamedAs(folder, ".")) {
    if (path.extension() == kRemoved) fs::remove_all(path, ignored);
  }
}

// Before a store is removed or moved. That another process has it open is no error of ours.
Status CheckClosed(const std::string& folder) {
  const OpenIn place = WhereIsOpen(folder);
  MILLRACE_CHECK(place != OpenIn::kThisProcess);
  if (place == OpenIn::kNoProcess) return absl::OkStatus();
  return absl::FailedPreconditionError("the store in " + folder +
                                       " was not touched, since another process has it open; stop "
                                       "that process, or give this one another --data-dir");
}

uint64_t BytesIn(const std::string& folder) {
  uint64_t bytes = 0;
  std::error_code error;
  for (fs::directory_iterator file(folder, error), end; !error && file != end;
       file.increment(error)) {
    std::error_code ignored;
    const uint64_t size = file->file_size(ignored);
    if (!ignored) bytes += size;
  }
  return bytes;
}

// `folder`, `folder`.2, `folder`.3 ..
std::string Numbered(const std::string& folder, unsigned number) {
  return number == 1 ? folder : folder + "." + std::to_string(number);
}

// Those of them that are there, ascending.
std::vector<std::string> ListExistingFolders(const std::string& folder) {
  std::vector<unsigned> numbers;
  if (IsThere(folder)) numbers.push_back(1);
  for (const fs::path& path : ListNamedAs(folder, ".")) {
    const std::string number =
        path.filename().string().substr(fs::path(folder).filename().string().size() + 1);
    const bool is_number =
        !number.empty() && number.size() < 7 &&
        std::ranges::all_of(number, [](unsigned char c) { return std::isdigit(c) != 0; });
    if (is_number) numbers.push_back(static_cast<unsigned>(std::stoul(number)));
  }
  std::ranges::sort(numbers);
  std::vector<std::string> folders;
  for (const unsigned number : numbers) folders.push_back(Numbered(folder, number));
  return folders;
}

std::string FindFreeName(const std::string& folder) {
  unsigned number = 1;
  while (IsThere(Numbered(folder, number))) ++number;
  return Numbered(folder, number);
}

// Whoever gives embedding rows much memory has many, and the indexes of their files grow with them.
RocksDbOptions StoreOptions(const JobConfig& config) {
  RocksDbOptions options;
  if (config.training().model() != Training::SOFTMAX) {
    options.block_cache_bytes += (size_t{config.server().embedding_cache_mib()} << 20) / 2;
  }
  return options;
}

// A process that was killed a moment ago may still hold the lock: waits for it for kForTheLock.
StatusOr<std::unique_ptr<DiskByteMap>> OpenWhenUnlocked(const JobConfig& config,
                                                        const std::string& folder) {
  const auto end = std::chrono::steady_clock::now() + kForTheLock;
  while (true) {
    StatusOr<std::unique_ptr<DiskByteMap>> store = OpenRocksDb(folder, StoreOptions(config));
    if (!IsLockedByAnother(store.status()) || std::chrono::steady_clock::now() >= end) return store;
    std::this_thread::sleep_for(kLockAgain);
  }
}

// The furthest of the shard's stores that are not locked by others (kNothing when nothing whole is
// in it); its store is null when there is none. Removes the others.
StatusOr<ShardCopy> OpenFurthest(const JobConfig& config, const std::string& folder,
                                 ShardId shard) {
  struct Opened {
    ShardCopy copy;
    Offset offset = 0;
  };
  std::vector<Opened> opened;
  for (const std::string& name : ListExistingFolders(folder)) {
    StatusOr<std::unique_ptr<DiskByteMap>> store = OpenWhenUnlocked(config, name);
    if (IsLockedByAnother(store.status())) {
      const std::string why(store.status().message());
      spdlog::warn(
          "shard {}: {}. That process hosted the shard before and may hang. It will be fenced: its "
          "next checkpoint fails, and it stops with exit code 4. Meanwhile this process uses a "
          "folder beside it ({}.2, {}.3 ..)",
          shard, why.substr(0, why.find(';')), folder, folder);
      continue;
    }
    MILLRACE_RETURN_IF_ERROR(store.status());
    const StatusOr<Offset> offset = ReadParametersOffset(**store);
    if (!offset.ok()) {
      return Status(offset.status().code(),
                    "the store in " + name + ": " + std::string(offset.status().message()));
    }
    opened.push_back({{.source = ShardCopy::Source::kDisk,
                       .bytes = BytesIn(name),
                       .folder = name,
                       .store = *std::move(store)},
                      *offset});
  }
  if (opened.empty()) return ShardCopy();
  const auto furthest = std::ranges::max_element(opened, {}, &Opened::offset);
  if (furthest->offset == 0) furthest->copy.source = ShardCopy::Source::kNothing;
  for (Opened& other : opened) {
    if (&other == &*furthest) continue;
    spdlog::info(
        "shard {}: two folders hold this shard: {} (up to offset {} of parameters) and {} (up to "
        "{}); the first is older and is removed",
        shard, other.copy.folder, other.offset, furthest->copy.folder, furthest->offset);
    other.copy.store.reset();
    MILLRACE_RETURN_IF_ERROR(RemoveFolder(other.copy.folder));
  }
  return std::move(furthest->copy);
}

// Whether there is a replica that nobody has open.
StatusOr<bool> HasReplica(const std::string& replica) {
  if (!IsThere(replica)) return false;
  const Status opened = OpenRocksDb(replica).status();
  if (IsLockedByAnother(opened)) return false;
  MILLRACE_RETURN_IF_ERROR(opened);
  return true;
}

}  // namespace

StatusOr<ShardCopy> OpenShardStore(const JobConfig& config, ShardId shard, const FetchCopy& fetch) {
  const std::string own = ShardFolder(config, shard);
  RemoveLeftOvers(own);
  RemoveLeftOvers(ReplicaFolder(config, shard));
  MILLRACE_ASSIGN_OR_RETURN(ShardCopy copy, OpenFurthest(config, own, shard));
  if (copy.store != nullptr && copy.source == ShardCopy::Source::kDisk) return copy;
  if (copy.store != nullptr) {  // of who died before anything whole was in it
    copy.store.reset();
    MILLRACE_RETURN_IF_ERROR(RemoveFolder(copy.folder));
  }
  copy.folder = FindFreeName(own);
  const std::string replica = ReplicaFolder(config, shard);
  MILLRACE_ASSIGN_OR_RETURN(const bool has_replica, HasReplica(replica));
  if (has_replica) {
    std::error_code error;
    fs::rename(replica, copy.folder, error);
    if (error) {
      return absl::UnavailableError("cannot rename " + replica + " to " + copy.folder + ": " +
                                    error.message());
    }
    spdlog::info("shard {}: uses the replica that this server kept of it as its store", shard);
    copy.source = ShardCopy::Source::kReplicaHere;
  } else if (fetch) {
    MILLRACE_ASSIGN_OR_RETURN(const std::optional<std::string> peer, fetch(shard, copy.folder));
    if (peer) {
      copy.source = ShardCopy::Source::kPeer;
      copy.peer = *peer;
    }
  }
  copy.bytes = BytesIn(copy.folder);
  MILLRACE_ASSIGN_OR_RETURN(copy.store, OpenRocksDb(copy.folder, StoreOptions(config)));
  return copy;
}

Status RemoveShardStore(const ShardCopy& copy) {
  MILLRACE_CHECK(copy.store == nullptr);
  MILLRACE_RETURN_IF_ERROR(CheckClosed(copy.folder));
  return RemoveFolder(copy.folder);
}

Status RemoveShardStores(const JobConfig& config, ShardId shard) {
  RemoveLeftOvers(ShardFolder(config, shard));
  for (const std::string& folder : ListExistingFolders(ShardFolder(config, shard))) {
    MILLRACE_RETURN_IF_ERROR(CheckClosed(folder));
    MILLRACE_RETURN_IF_ERROR(RemoveFolder(folder));
  }
  return absl::OkStatus();
}

StatusOr<std::unique_ptr<DiskByteMap>> OpenReplicaStore(const JobConfig& config, ShardId shard) {
  // What it loses when this process dies it reads again: its log is `parameters`.
  return OpenRocksDb(ReplicaFolder(config, shard), {.has_log = false});
}

Status RemoveReplicaStore(const JobConfig& config, ShardId shard) {
  const std::string replica = ReplicaFolder(config, shard);
  MILLRACE_RETURN_IF_ERROR(CheckClosed(replica));
  return RemoveFolder(replica);
}

StatusOr<std::string> SetReplicaStoreAside(const JobConfig& config, ShardId shard) {
  const std::string replica = ReplicaFolder(config, shard);
  MILLRACE_RETURN_IF_ERROR(CheckClosed(replica));
  std::string aside = FindFreeName(replica + "-set-aside");
  std::error_code error;
  fs::rename(replica, aside, error);
  if (!error) return aside;
  return absl::UnavailableError("cannot rename " + replica + " to " + aside + ": " +
                                error.message());
}

std::string FrozenReplicaFolder(const JobConfig& config, ShardId shard, uint64_t number) {
  return ReplicaFolder(config, shard) + "-frozen-" + std::to_string(number);
}

void RemoveFrozenReplicas(const JobConfig& config, ShardId shard) {
  const fs::path replica(ReplicaFolder(config, shard));
  MILLRACE_CHECK(WhereIsOpen(replica.string()) == OpenIn::kThisProcess);
  std::error_code ignored;
  for (const fs::path& folder : ListNamedAs(replica, "-frozen-")) fs::remove_all(folder, ignored);
}

}  // namespace millrace
