// The process that the store tests kill, lock out and put on a full disk:
//   write FOLDER        goes on with the scripted batches, for ever; "written N", "flushed N"
//   bulk FOLDER         the same, every other 25 of them in bulk
//   runs FOLDER         the same, some of them sorted runs
//   hold FOLDER         opens the folder, says "open", and waits for the end of its input
//   open FOLDER         opens the folder and says "ok" or the error
//   memory FOLDER       writes 100 MB and reads some; says by how many kB its memory grew
//   disk FOLDER full|readonly|bulk|run
//                       mounts a small disk on the folder and writes, maybe in bulk or a sorted
//                       run, until it fails; says the error, or "no mount" where that is not
//                       allowed
//   after FOLDER log|none
//                       the same, with a log or without; then copies the map, gets room, writes and
//                       closes: says the error of each, and "closed"
//   scratch FOLDER      mounts a small disk on the folder and puts more rows into a space than fit;
//                       says how many bytes did and the error, or "no mount"
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iostream>
#include <random>
#include <string>
#include <thread>

#include "base/big_endian.h"
#include "stores/rocksdb_byte_map.h"
#include "stores/row_space.h"
#include "tests/stores/batch_script.h"

namespace millrace {
namespace {

int Say(const std::string& line) {
  std::cout << line << std::endl;
  return 0;
}

Status WriteScripted(DiskByteMap& map, uint64_t n, bool in_runs) {
  if (!in_runs || !IsScriptedRun(n)) return map.Write(ScriptedBatch(n));
  return map.WriteSortedRun([n](const OrderedByteMap::Take& take) -> Status {
    for (const auto& [key, value] : ScriptedRun(n)) MILLRACE_RETURN_IF_ERROR(take(key, value));
    return absl::OkStatus();
  });
}

int Write(DiskByteMap& map, const std::string& how) {
  const bool in_bulk = how == "bulk";
  constexpr uint64_t kBulk = 25;
  uint64_t n = 0;
  const auto position = map.Get(kPositionKey);
  if (!position.ok()) return Say(position.status().ToString());
  if (*position) n = *DecodeBigEndian64(**position);
  Say("open");
  const auto write_some = [&]() -> Status {
    for (uint64_t i = 0; i < kBulk; ++i) {
      ++n;
      MILLRACE_RETURN_IF_ERROR(WriteScripted(map, n, how == "runs"));
      Say("written " + std::to_string(n));
    }
    return absl::OkStatus();
  };
  Status status;
  while (status.ok()) {
    status = in_bulk ? map.FillInBulk(write_some) : absl::OkStatus();
    if (status.ok() && in_bulk) Say("flushed " + std::to_string(n));
    if (status.ok()) status = write_some();
    if (status.ok()) status = map.Flush();
    if (status.ok()) Say("flushed " + std::to_string(n));
  }
  return Say(status.ToString());
}

int64_t ResidentKilobytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t pages = 0;
  statm >> pages >> pages;
  return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

int Memory(const std::string& folder) {
  const int64_t before = ResidentKilobytes();
  auto map = OpenRocksDb(folder);
  if (!map.ok()) return Say(map.status().ToString());
  std::mt19937_64 random(1);
  int64_t most = 0;
  for (int round = 0; round < 200; ++round) {
    WriteBatch batch;
    for (int i = 0; i < 500; ++i) {
      std::string value;
      while (value.size() < 1000) value += EncodeBigEndian64(random());
      batch.Put(EncodeBigEndian64(random() % 100'000), value);
    }
    Status status = (*map)->Write(batch);
    for (int i = 0; i < 50 && status.ok(); ++i) {
      status = (*map)->Get(EncodeBigEndian64(random() % 100'000)).status();
    }
    if (!status.ok()) return Say(status.ToString());
    most = std::max(most, ResidentKilobytes());
  }
  return Say(std::to_string(most - before));
}

// In a namespace of our own: nobody else sees the mount, and it goes with this process.
bool MountSmallDisk(const std::string& folder, bool is_readonly) {
  return unshare(CLONE_NEWNS | (geteuid() == 0 ? 0 : CLONE_NEWUSER)) == 0 &&
         mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("tmpfs", folder.c_str(), "tmpfs", is_readonly ? MS_RDONLY : 0, "size=6m") == 0;
}

int Scratch(const std::string& folder) {
  if (!MountSmallDisk(folder, false)) return Say("no mount");
  constexpr size_t kRowBytes = 1024;
  RowSpace space(kRowBytes, {.memory_bytes = size_t{2} << 20,
                             .scratch_bytes = size_t{100} << 20,
                             .scratch_folder = folder});
  const auto byte_of = [](size_t row) { return static_cast<int>(row * 7 % 251); };
  constexpr size_t kRows = 20 * 1024;
  for (size_t row = 0; row < kRows; ++row) {
    space.Add();
    std::memset(space.at(row), byte_of(row), kRowBytes);
  }
  for (size_t row = 0; row < kRows; ++row) {
    const std::byte* const bytes = space.at(row);
    const auto byte = static_cast<std::byte>(byte_of(row));
    if (std::count(bytes, bytes + kRowBytes, byte) != kRowBytes) return Say("another row");
  }
  return Say(std::to_string(space.fitting() * kRowBytes) + " " + space.scratch_status().ToString());
}

int Disk(const std::string& folder, const std::string& kind) {
  if (!MountSmallDisk(folder, kind == "readonly")) return Say("no mount");
  auto map = OpenRocksDb(folder + "/map");
  if (!map.ok()) return Say(map.status().ToString());
  std::mt19937_64 random(1);
  const auto write = [&](uint64_t batches) -> Status {
    for (uint64_t i = 0; i < batches; ++i) {
      std::string value(10'000, '\0');
      for (char& c : value) c = static_cast<char>(random());
      WriteBatch batch;
      batch.Put(EncodeBigEndian64(i), value);
      MILLRACE_RETURN_IF_ERROR((*map)->Write(batch));
    }
    return absl::OkStatus();
  };
  if (kind == "run") {
    const auto entries = [&](const OrderedByteMap::Take& take) -> Status {
      for (uint64_t i = 0; i < 10'000; ++i) {
        std::string value(10'000, '\0');
        for (char& c : value) c = static_cast<char>(random());
        MILLRACE_RETURN_IF_ERROR(take(EncodeBigEndian64(i), value));
      }
      return absl::OkStatus();
    };
    return Say((*map)->WriteSortedRun(entries).ToString());
  }
  if (kind != "bulk") return Say(write(10'000).ToString());
  // What is in memory at the end is more than the disk has room for.
  return Say((*map)->FillInBulk([&] { return write(2'000); }).ToString());
}

// What is called after an error must end in that error, and never in RocksDB's assertions.
int AfterAFullDisk(const std::string& folder, bool has_log) {
  if (!MountSmallDisk(folder, false)) return Say("no mount");
  RocksDbOptions options;
  options.has_log = has_log;
  options.write_buffer_bytes = size_t{256} << 10;
  auto map = OpenRocksDb(folder + "/map", options);
  if (!map.ok()) return Say(map.status().ToString());
  std::mt19937_64 random(1);
  const auto write = [&]() -> Status {
    std::string value(1'000, '\0');
    for (char& c : value) c = static_cast<char>(random());
    WriteBatch batch;
    batch.Put(EncodeBigEndian64(random()), value);
    return (*map)->Write(batch);
  };
  Status status;
  while (status.ok()) status = write();
  Say(status.ToString());
  // RocksDB writes lines into a log of its own about each of these. (One may find room: files that
  // are not needed any more are deleted meanwhile.)
  for (int i = 0; i < 200; ++i) (*map)->CopyTo(folder + "/copy").IgnoreError();
  Say(write().ToString());
  if (mount("none", folder.c_str(), nullptr, MS_REMOUNT, "size=64m") != 0) return Say("no room");
  // RocksDB looks every five seconds whether there is room again, and then takes writes.
  for (int i = 0; i < 70; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    status = write();
  }
  Say(status.ToString());
  map->reset();
  return Say("closed");
}

int Main(const std::string& action, const std::string& folder, const std::string& kind) {
  if (action == "memory") return Memory(folder);
  if (action == "scratch") return Scratch(folder);
  if (action == "after") return AfterAFullDisk(folder, kind == "log");
  if (action == "disk") return Disk(folder, kind);
  RocksDbOptions options;
  // So that files are written in the middle of what is in bulk.
  if (action == "bulk") options.write_buffer_bytes = size_t{128} << 10;
  auto map = OpenRocksDb(folder, options);
  if (!map.ok()) return Say(map.status().ToString());
  if (action == "write" || action == "bulk" || action == "runs") return Write(**map, action);
  Say(action == "hold" ? "open" : "ok");
  if (action == "hold") std::cin.get();
  return 0;
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  return millrace::Main(argv[1], argv[2], argc > 3 ? argv[3] : "");
}
