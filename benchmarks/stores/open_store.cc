// The floor of opening a shard's store: bare RocksDB, which reads what a shard has in memory (dense
// blocks and its state), and leaves embedding rows where they are.
#include <rocksdb/db.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

namespace {

void Check(const rocksdb::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(1);
}

size_t ReadAll(rocksdb::DB& db, const std::string& prefix) {
  size_t bytes = 0;
  const std::unique_ptr<rocksdb::Iterator> at(db.NewIterator({}));
  for (at->Seek(prefix); at->Valid() && at->key().starts_with(prefix); at->Next()) {
    bytes += at->key().size() + at->value().size();
  }
  Check(at->status());
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: open_store FOLDER\n");
    return 2;
  }
  rocksdb::DB* opened = nullptr;
  Check(rocksdb::DB::Open({}, argv[1], &opened));
  const std::unique_ptr<rocksdb::DB> db(opened);
  const size_t bytes = ReadAll(*db, "p") + ReadAll(*db, "state");
  std::printf("  %.1f MiB in memory\n", static_cast<double>(bytes) / (1 << 20));
  return 0;
}
