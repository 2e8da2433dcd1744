#include "stores/rocksdb_byte_map.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <functional>
#include <mutex>
#include <system_error>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/file_error.h"
#include "base/private_file.h"
#include "base/side_by_side.h"
#include "rocksdb/convenience.h"
#include "rocksdb/db.h"
#include "rocksdb/env.h"
#include "rocksdb/options.h"
#include "rocksdb/sst_file_writer.h"
#include "rocksdb/utilities/checkpoint.h"
#include "rocksdb/write_batch.h"
#include "stores/rocksdb_log.h"
#include "stores/rocksdb_settings.h"

namespace millrace {

namespace {

rocksdb::Slice ToSlice(std::string_view bytes) { return {bytes.data(), bytes.size()}; }
std::string_view ToView(const rocksdb::Slice& bytes) { return {bytes.data(), bytes.size()}; }

std::string Place(const std::string& path, const std::string& what) {
  return "the store in folder '" + path + "': " + what;
}

std::string Message(const std::string& path, const std::string& what, std::string_view remedy) {
  return Place(path, what) + "; " + std::string(remedy);
}

Status DamagedStore(const std::string& path, const std::string& what) {
  return absl::DataLossError(Message(path, what,
                                     "the store is damaged: move it away and start again; its "
                                     "content is read again from Kafka"));
}

// RocksDB tells the reason of an I/O error in words only, those of strerror.
int ParseErrno(const rocksdb::Status& status, const std::string& text) {
  if (status.IsNoSpace()) return ENOSPC;
  for (const int error : {ENOSPC, EDQUOT, EMFILE, ENFILE, EACCES, EPERM, EROFS}) {
    if (text.ends_with(std::generic_category().message(error))) return error;
  }
  return EIO;
}

Status FromRocksDb(const rocksdb::Status& status, const std::string& path) {
  if (status.ok()) return absl::OkStatus();
  const std::string text = status.ToString();
  if (status.IsCorruption()) return DamagedStore(path, text);
  // The folder's own list of files names one that is not there.
  if (status.IsPathNotFound()) return DamagedStore(path, text);
  // A write that waited for a flush that failed is "incomplete", with the flush's error as its
  // text.
  if (status.IsIOError() || (status.IsIncomplete() && text.find("IO error") != std::string::npos)) {
    return FileError(Place(path, text), ParseErrno(status, text));
  }
  if (status.IsInvalidArgument() || status.IsNotSupported()) {
    return absl::FailedPreconditionError(Message(
        path, text, "another program or version wrote it: delete it or choose another folder"));
  }
  return absl::UnavailableError(Message(path, text, "check the disk and the folder"));
}

// "process 123" if the operating system names who holds the lock of the folder. Asks by opening
// the lock file, and closing it again gives up any lock that *this* process has on it: not to be
// called when it has one.
std::string LockHolder(const std::string& path) {
  const int file = open((path + "/LOCK").c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return "another process";
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  const bool is_known = fcntl(file, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
  close(file);
  // A process of another container has no number here.
  return is_known && lock.l_pid > 0 ? "process " + std::to_string(lock.l_pid) : "another process";
}

constexpr char kLocked[] = "millrace/locked";

// Whether RocksDB did not get the lock because this process has it.
bool IsLockedByUs(const rocksdb::Status& status) {
  return status.IsIOError() &&
         status.ToString().find("lock hold by current process") != std::string::npos;
}

Status OpenError(const rocksdb::Status& status, const std::string& path) {
  const std::string text = status.ToString();
  if (IsLockedByUs(status)) {
    return absl::FailedPreconditionError(
        Message(path, "this process has it open already", "use another --data-dir"));
  }
  if (status.IsIOError() && text.find("While lock file: ") != std::string::npos) {
    Status locked = absl::FailedPreconditionError(
        Message(path, "it is locked by " + LockHolder(path),
                "stop that process, or give this one another folder"));
    locked.SetPayload(kLocked, absl::Cord(path));
    return locked;
  }
  return FromRocksDb(status, path);
}

// Threads that read many keys, each a part of them. RocksDB (as Debian builds it) reads a block at
// a time: whoever wants many waits for the disk once for each, or, where they are in the page
// cache, for one processor.
constexpr size_t kReaders = 4;
constexpr size_t kKeysWorthAReader = 128;

// The file of a sorted run until it is one of the map's. RocksDB lets it be, whose names differ.
std::string UnfinishedRun(const std::string& path) { return path + "/unfinished-run"; }

// Before another is written: a kill may leave it as a second name of a file of the map.
Status RemoveUnfinishedRun(const std::string& path) {
  std::error_code error;
  std::filesystem::remove(UnfinishedRun(path), error);
  return error ? FileError(Place(path, "unfinished-run cannot be removed: " + error.message()),
                           error.value())
               : absl::OkStatus();
}

class RocksDbByteMap final : public DiskByteMap {
 public:
  // `memory`: null when other maps have it, too.
  RocksDbByteMap(std::string path, bool has_log, std::shared_ptr<RocksDbMemory> memory,
                 std::unique_ptr<rocksdb::DB> db)
      : path_(std::move(path)), has_log_(has_log), memory_(std::move(memory)), db_(std::move(db)) {
    write_options_.disableWAL = !has_log;
  }

  Status FillInBulk(const std::function<Status()>& fill) override {
    MILLRACE_CHECK(memory_ != nullptr);
    write_options_.disableWAL = true;
    MILLRACE_RETURN_IF_ERROR(SetBuffers(
        std::max(memory_->usual_write_buffer_bytes, kBulkBufferBytes), kFilesMergedAtInBulk));
    MILLRACE_RETURN_IF_ERROR(fill());
    // Before anything is logged again: the log must not go on after a gap.
    MILLRACE_RETURN_IF_ERROR(FromRocksDb(db_->Flush(rocksdb::FlushOptions()), path_));
    write_options_.disableWAL = !has_log_;
    return SetBuffers(memory_->usual_write_buffer_bytes, kFilesMergedAt);
  }

  StatusOr<std::optional<std::string>> Get(std::string_view key) const override {
    std::string value;
    const rocksdb::Status status = db_->Get(rocksdb::ReadOptions(), ToSlice(key), &value);
    if (status.IsNotFound()) return std::optional<std::string>();
    if (!status.ok()) return FromRocksDb(status, path_);
    return std::optional<std::string>(std::move(value));
  }

  Status GetMany(
      std::span<const std::string> keys,
      const std::function<void(size_t i, std::string_view value)>& visit) const override {
    MILLRACE_CHECK(std::ranges::is_sorted(keys));
    if (keys.empty()) return absl::OkStatus();
    const std::vector<rocksdb::Slice> slices(keys.begin(), keys.end());
    std::vector<rocksdb::PinnableSlice> values(keys.size());
    std::vector<rocksdb::Status> statuses(keys.size());
    const size_t parts = std::clamp<size_t>(keys.size() / kKeysWorthAReader, 1, kReaders);
    const auto read = [&](size_t part) {
      const size_t begin = part * keys.size() / parts;
      const size_t end = (part + 1) * keys.size() / parts;
      // Whoever asks for many keys at random has a cache of its own: their blocks would only push
      // the indexes out of this one.
      rocksdb::ReadOptions options;
      options.fill_cache = false;
      db_->MultiGet(options, db_->DefaultColumnFamily(), end - begin, &slices[begin],
                    &values[begin], &statuses[begin], /*sorted_input=*/true);
    };
    // (Who comes while another has the readers reads alone.)
    const std::unique_lock<std::mutex> lock(readers_mutex_, std::try_to_lock);
    if (parts > 1 && lock.owns_lock()) {
      readers_.Run(parts, read);
    } else {
      for (size_t part = 0; part < parts; ++part) read(part);
    }
    for (size_t i = 0; i < keys.size(); ++i) {
      if (statuses[i].IsNotFound()) continue;
      if (!statuses[i].ok()) return FromRocksDb(statuses[i], path_);
      visit(i, ToView(values[i]));
    }
    return absl::OkStatus();
  }

  Status Write(const WriteBatch& batch) override {
    // RocksDB takes writes again when a full disk has room, and fails an assertion at the first:
    // its log still has the error.
    if (!failed_.ok()) return failed_;
    batch_.Clear();
    for (const WriteBatch::Change& change : batch.changes()) {
      const rocksdb::Status status =
          change.value ? batch_.Put(change.key, *change.value) : batch_.Delete(change.key);
      if (!status.ok()) return FromRocksDb(status, path_);
    }
    return failed_ = FromRocksDb(db_->Write(write_options_, &batch_), path_);
  }

  Status WriteSortedRun(const std::function<Status(const Take& take)>& entries) override {
    if (!failed_.ok()) return failed_;
    size_t count = 0;
    rocksdb::SstFileWriter file(rocksdb::EnvOptions(), db_->GetOptions(), /*column_family=*/nullptr,
                                /*invalidate_page_cache=*/false);
    rocksdb::Status written = file.Open(UnfinishedRun(path_));
    std::string last;
    const Status handed = entries([&](std::string_view key, std::string_view value) {
      MILLRACE_CHECK(count == 0 || last < key);
      last = key;
      ++count;
      if (written.ok()) written = file.Put(ToSlice(key), ToSlice(value));
      return FromRocksDb(written, path_);
    });
    // (An empty file cannot be finished. Of a full disk RocksDB speaks only here.)
    if (written.ok() && handed.ok() && count > 0) written = file.Finish();
    if (written.ok() && handed.ok() && count > 0) written = TakeUnfinishedRun();
    failed_ = FromRocksDb(written, path_);
    if (const Status removed = RemoveUnfinishedRun(path_); failed_.ok()) failed_ = removed;
    return failed_.ok() ? handed : failed_;
  }

  // Each Write has handed its batch to the operating system.
  Status Flush() override { return FromRocksDb(db_->FlushWAL(/*sync=*/false), path_); }

  Status Scan(std::string_view begin, std::string_view end,
              const std::function<bool(std::string_view key, std::string_view value)>& visit)
      const override {
    rocksdb::ReadOptions options;
    const rocksdb::Slice upper_bound = ToSlice(end);
    if (!end.empty()) options.iterate_upper_bound = &upper_bound;
    const std::unique_ptr<rocksdb::Iterator> entry(db_->NewIterator(options));
    for (entry->Seek(ToSlice(begin)); entry->Valid(); entry->Next()) {
      if (!visit(ToView(entry->key()), ToView(entry->value()))) break;
    }
    return FromRocksDb(entry->status(), path_);
  }

  // What is in memory only is written to a file first, so that there is no log to be copied.
  Status CopyTo(const std::string& folder) const override {
    rocksdb::Checkpoint* raw = nullptr;
    const rocksdb::Status made = rocksdb::Checkpoint::Create(db_.get(), &raw);
    const std::unique_ptr<rocksdb::Checkpoint> checkpoint(raw);
    if (!made.ok()) return FromRocksDb(made, path_);
    MILLRACE_RETURN_IF_ERROR(
        FromRocksDb(checkpoint->CreateCheckpoint(folder, /*log_size_for_flush=*/0), folder));
    std::error_code error;
    std::filesystem::permissions(folder, std::filesystem::perms::owner_all, error);
    return error ? CannotWrite(folder, error.value()) : absl::OkStatus();
  }

 private:
  // Makes the file one of the map's: all of it or, after a crash, nothing.
  rocksdb::Status TakeUnfinishedRun() {
    // What was written before must not be lost where this is kept.
    rocksdb::Status synced =
        write_options_.disableWAL ? db_->Flush(rocksdb::FlushOptions()) : db_->SyncWAL();
    if (!synced.ok()) return synced;
    rocksdb::IngestExternalFileOptions options;
    options.move_files = true;
    options.write_global_seqno = false;
    return db_->IngestExternalFile({UnfinishedRun(path_)}, options);
  }

  Status SetBuffers(size_t bytes, int merged_at) {
    memory_->write_buffers->SetBufferSize(bytes);
    return FromRocksDb(
        db_->SetOptions({{"write_buffer_size", std::to_string(BufferBytes(bytes))},
                         {"level0_file_num_compaction_trigger", std::to_string(merged_at)}}),
        path_);
  }

  const std::string path_;
  const bool has_log_;
  const std::shared_ptr<RocksDbMemory> memory_;  // of this map alone
  const std::unique_ptr<rocksdb::DB> db_;
  rocksdb::WriteOptions write_options_;
  rocksdb::WriteBatch batch_;  // kept for its memory
  Status failed_;              // of the first write that did
  mutable std::mutex readers_mutex_;
  mutable SideBySide readers_{kReaders};  // last: they read the map
};

}  // namespace

StatusOr<std::unique_ptr<DiskByteMap>> OpenRocksDb(const std::string& path,
                                                   const RocksDbOptions& options) {
  if (const std::error_code error = MakePrivateFolder(path); error) {
    return FileError(Place(path, "it cannot be created: " + error.message()), error.value());
  }
  const std::shared_ptr<RocksDbMemory> memory =
      options.memory != nullptr
          ? options.memory
          : MakeRocksDbMemory(options.block_cache_bytes, options.write_buffer_bytes);
  rocksdb::DB* db = nullptr;
  rocksdb::Options settings = RocksDbSettings(options, *memory);
  settings.info_log = MakeRocksDbLog(path);
  const rocksdb::Status status = rocksdb::DB::Open(settings, path, &db);
  if (!status.ok()) return OpenError(status, path);
  std::unique_ptr<rocksdb::DB> opened(db);
  MILLRACE_RETURN_IF_ERROR(RemoveUnfinishedRun(path));  // of a process that was killed
  return std::make_unique<RocksDbByteMap>(
      path, options.has_log, options.memory == nullptr ? memory : nullptr, std::move(opened));
}

OpenIn WhereIsOpen(const std::string& path) {
  const std::string file = path + "/LOCK";
  std::error_code error;
  if (!std::filesystem::exists(file, error)) return OpenIn::kNoProcess;
  rocksdb::Env& env = *rocksdb::Env::Default();
  rocksdb::FileLock* lock = nullptr;
  const rocksdb::Status locked = env.LockFile(file, &lock);
  if (IsLockedByUs(locked)) return OpenIn::kThisProcess;
  if (locked.ok()) (void)env.UnlockFile(lock);
  // (Other errors are for whoever wants to do something to the folder.)
  const bool held =
      !locked.ok() && locked.ToString().find("While lock file: ") != std::string::npos;
  return held ? OpenIn::kAnotherProcess : OpenIn::kNoProcess;
}

bool IsLockedByAnother(const Status& status) { return status.GetPayload(kLocked).has_value(); }

}  // namespace millrace
