// The store paths against bare RocksDB and bare memory, in the same run and in turns.
//   bench_stores [--json FILE] [--folder FOLDER] [--rounds N]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/big_endian.h"
#include "base/check.h"
#include "base/hash.h"
#include "rocksdb/db.h"
#include "rocksdb/options.h"
#include "rocksdb/write_batch.h"
#include "stores/embedding_table.h"
#include "stores/frozen_rows.h"
#include "stores/rocksdb_byte_map.h"
#include "stores/rocksdb_settings.h"
#include "stores/training_buffer.h"

namespace millrace {
namespace {

constexpr size_t kValueBytes = 500;
constexpr size_t kBufferRows = 1024;
constexpr size_t kPoolRows = 4096;

// Values as they come from a fetch buffer: half of their bytes compress.
class Values {
 public:
  Values() : bytes_(kPoolRows * kValueBytes, '\0') {
    std::mt19937_64 random(1);
    for (char& c : bytes_) c = static_cast<char>(random() % 2 == 0 ? 'a' : random());
  }
  std::string_view operator[](size_t i) const {
    return std::string_view(bytes_).substr(i % kPoolRows * kValueBytes, kValueBytes);
  }

 private:
  std::string bytes_;
};

rocksdb::Slice ToSlice(std::string_view bytes) { return {bytes.data(), bytes.size()}; }

// Keeps the compiler from leaving out what nobody reads.
template <typename T>
void Keep(const T& value) {
  asm volatile("" : : "r,m"(value) : "memory");
}

// The settings of OpenRocksDb, so that what differs is our code and not RocksDB's work.
std::unique_ptr<rocksdb::DB> OpenBare(const std::string& folder) {
  const RocksDbOptions ours;
  const auto memory = MakeRocksDbMemory(ours.block_cache_bytes, ours.write_buffer_bytes);
  const rocksdb::Options options = RocksDbSettings(ours, *memory);
  rocksdb::DB* db = nullptr;
  const rocksdb::Status status = rocksdb::DB::Open(options, folder, &db);
  if (!status.ok()) {
    std::cerr << status.ToString() << "\n";
    std::exit(1);
  }
  return std::unique_ptr<rocksdb::DB>(db);
}

// A side of a comparison works on a folder of its own, from empty, and says how many items it did
// and in how many seconds.
struct Work {
  double items = 0;
  double seconds = 0;
};
using Side = std::function<Work(const std::string& folder)>;

Work Timed(double items, const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  return {items, seconds.count()};
}

struct Result {
  std::string name;
  double ours;
  double floor;
  std::string unit;
};

class Bench {
 public:
  Bench(std::string folder, int rounds) : folder_(std::move(folder)), rounds_(rounds) {
    std::printf("%-58s %14s %14s %7s\n", "", "ours", "floor", "ratio");
  }

  // The median of a few rounds; ours and the floor take turns, so that both meet the same machine.
  void Compare(const std::string& name, const std::string& unit, const Side& ours,
               const Side& floor) {
    std::vector<double> our_rates;
    std::vector<double> floor_rates;
    for (int round = 0; round < rounds_; ++round) {
      our_rates.push_back(Rate(ours));
      floor_rates.push_back(Rate(floor));
    }
    const Result result{name, Median(our_rates), Median(floor_rates), unit};
    std::printf("%-58s %14.0f %14.0f %7.2f  %s\n", name.c_str(), result.ours, result.floor,
                result.ours / result.floor, unit.c_str());
    std::fflush(stdout);
    results_.push_back(result);
  }

  bool WriteJson(const std::string& path) const {
    std::ofstream file(path);
    file << "[";
    for (size_t i = 0; i < results_.size(); ++i) {
      const Result& result = results_[i];
      file << (i == 0 ? "\n" : ",\n") << "  {\"name\": \"" << result.name
           << "\", \"ours\": " << result.ours << ", \"floor\": " << result.floor
           << ", \"ratio\": " << result.ours / result.floor << ", \"unit\": \"" << result.unit
           << "\"}";
    }
    file << "\n]\n";
    file.close();
    return file.good();
  }

 private:
  double Rate(const Side& side) {
    std::filesystem::remove_all(folder_);
    const Work work = side(folder_);
    std::filesystem::remove_all(folder_);
    return work.items / work.seconds;
  }
  static double Median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
  }

  std::string folder_;
  int rounds_;
  std::vector<Result> results_;
};

std::unique_ptr<OrderedByteMap> OpenOurs(const std::string& folder) {
  auto map = OpenRocksDb(folder);
  if (!map.ok()) {
    std::cerr << map.status() << "\n";
    std::exit(1);
  }
  return *std::move(map);
}

// Rows into a full buffer; the rows and the position are written every `commit_rows`.
Work IngestOurs(const std::string& folder, const Values& values, size_t rows, size_t commit_rows) {
  const std::unique_ptr<OrderedByteMap> map = OpenOurs(folder);
  TrainingBuffer buffer({}, "b");
  WriteBatch batch;
  return Timed(static_cast<double>(rows), [&] {
    for (size_t row = 0; row < rows; ++row) {
      buffer.Add(RowNumber(row), static_cast<int64_t>(row), values[row]);
      if ((row + 1) % commit_rows == 0) {
        batch.Clear();
        buffer.WriteTo(batch);
        batch.Put("position", EncodeBigEndian64(row));
        MILLRACE_CHECK(map->Write(batch).ok());
      }
    }
  });
}

std::string SlotKey(size_t row) {
  return "b" + EncodeBigEndian32(static_cast<uint32_t>(row % kBufferRows));
}

// Writes at each commit what the buffer holds then, and nothing in between.
Work IngestFinalContent(const std::string& folder, const Values& values, size_t rows,
                        size_t commit_rows) {
  const std::unique_ptr<rocksdb::DB> db = OpenBare(folder);
  rocksdb::WriteBatch batch;
  return Timed(static_cast<double>(rows), [&] {
    for (size_t end = commit_rows; end <= rows; end += commit_rows) {
      batch.Clear();
      for (size_t row = end - std::min(commit_rows, kBufferRows); row < end; ++row) {
        MILLRACE_CHECK(batch.Put(SlotKey(row), ToSlice(values[row])).ok());
      }
      MILLRACE_CHECK(batch.Put("position", EncodeBigEndian64(end)).ok());
      MILLRACE_CHECK(db->Write(rocksdb::WriteOptions(), &batch).ok());
    }
  });
}

Work IngestEveryRow(const std::string& folder, const Values& values, size_t rows) {
  const std::unique_ptr<rocksdb::DB> db = OpenBare(folder);
  return Timed(static_cast<double>(rows), [&] {
    for (size_t row = 0; row < rows; ++row) {
      MILLRACE_CHECK(db->Put(rocksdb::WriteOptions(), SlotKey(row), ToSlice(values[row])).ok());
    }
  });
}

void BenchIngest(Bench& bench, const Values& values) {
  bench.Compare(
      "buffer add, against copying into a ring of strings", "rows/s",
      [&](const std::string&) {
        constexpr size_t kRows = 3'000'000;
        TrainingBuffer buffer({}, "b");
        return Timed(kRows, [&] {
          for (size_t row = 0; row < kRows; ++row) {
            buffer.Add(RowNumber(row), static_cast<int64_t>(row), values[row]);
          }
          Keep(buffer.newest());
        });
      },
      [&](const std::string&) {
        constexpr size_t kRows = 3'000'000;
        std::vector<std::string> ring(kBufferRows);
        return Timed(kRows, [&] {
          for (size_t row = 0; row < kRows; ++row) ring[row % kBufferRows].assign(values[row]);
          Keep(ring);
        });
      });
  for (const size_t commit_rows : {1'000, 10'000}) {
    const size_t rows = commit_rows * 20;
    bench.Compare(
        "ingest, commit every " + std::to_string(commit_rows) + ", against the final content",
        "rows/s",
        [&](const std::string& folder) { return IngestOurs(folder, values, rows, commit_rows); },
        [&](const std::string& folder) {
          return IngestFinalContent(folder, values, rows, commit_rows);
        });
  }
  bench.Compare(
      "ingest, commit every 10000, against a put of every row", "rows/s",
      [&](const std::string& folder) { return IngestOurs(folder, values, 200'000, 10'000); },
      [&](const std::string& folder) { return IngestEveryRow(folder, values, 100'000); });
}

void BenchMap(Bench& bench, const Values& values) {
  constexpr size_t kKeys = 10'000;
  const auto key = [](size_t i) { return EncodeBigEndian64(i % kKeys); };

  for (const size_t entries : {1, 100}) {
    const size_t batches = entries == 1 ? 50'000 : 1'000;
    const double items = static_cast<double>(batches * entries);
    bench.Compare(
        "map write, " + std::to_string(entries) + " in a batch", "entries/s",
        [&](const std::string& folder) {
          const std::unique_ptr<OrderedByteMap> map = OpenOurs(folder);
          WriteBatch batch;
          return Timed(items, [&] {
            for (size_t i = 0; i < batches; ++i) {
              batch.Clear();
              for (size_t j = i * entries; j < (i + 1) * entries; ++j) {
                batch.Put(key(j), std::string(values[j]));
              }
              MILLRACE_CHECK(map->Write(batch).ok());
            }
          });
        },
        [&](const std::string& folder) {
          const std::unique_ptr<rocksdb::DB> db = OpenBare(folder);
          rocksdb::WriteBatch batch;
          return Timed(items, [&] {
            for (size_t i = 0; i < batches; ++i) {
              batch.Clear();
              for (size_t j = i * entries; j < (i + 1) * entries; ++j) {
                MILLRACE_CHECK(batch.Put(key(j), ToSlice(values[j])).ok());
              }
              MILLRACE_CHECK(db->Write(rocksdb::WriteOptions(), &batch).ok());
            }
          });
        });
  }

  // Reads take turns on maps that are filled once and closed, so that they come from files.
  constexpr size_t kGets = 100'000;
  constexpr size_t kScans = 20;
  const auto fill_ours = [&](const std::string& folder) {
    {
      const std::unique_ptr<OrderedByteMap> map = OpenOurs(folder);
      for (size_t i = 0; i < 3 * kKeys; ++i) {
        WriteBatch batch;
        batch.Put(key(i), std::string(values[i]));
        MILLRACE_CHECK(map->Write(batch).ok());
      }
    }
    return OpenOurs(folder);
  };
  const auto fill_bare = [&](const std::string& folder) {
    {
      const std::unique_ptr<rocksdb::DB> db = OpenBare(folder);
      for (size_t i = 0; i < 3 * kKeys; ++i) {
        MILLRACE_CHECK(db->Put(rocksdb::WriteOptions(), key(i), ToSlice(values[i])).ok());
      }
    }
    return OpenBare(folder);
  };
  bench.Compare(
      "map get", "gets/s",
      [&](const std::string& folder) {
        const std::unique_ptr<OrderedByteMap> map = fill_ours(folder);
        std::mt19937_64 random(2);
        return Timed(kGets, [&] {
          for (size_t i = 0; i < kGets; ++i) {
            const auto value = map->Get(key(random()));
            MILLRACE_CHECK(value.ok() && *value && (*value)->size() == kValueBytes);
          }
        });
      },
      [&](const std::string& folder) {
        const std::unique_ptr<rocksdb::DB> db = fill_bare(folder);
        std::mt19937_64 random(2);
        return Timed(kGets, [&] {
          for (size_t i = 0; i < kGets; ++i) {
            std::string value;
            MILLRACE_CHECK(db->Get(rocksdb::ReadOptions(), key(random()), &value).ok() &&
                           value.size() == kValueBytes);
          }
        });
      });
  bench.Compare(
      "map scan", "entries/s",
      [&](const std::string& folder) {
        const std::unique_ptr<OrderedByteMap> map = fill_ours(folder);
        return Timed(kScans * kKeys, [&] {
          size_t bytes = 0;
          for (size_t scan = 0; scan < kScans; ++scan) {
            MILLRACE_CHECK(map->Scan("", "",
                                     [&](std::string_view, std::string_view value) {
                                       bytes += value.size();
                                       return true;
                                     })
                               .ok());
          }
          MILLRACE_CHECK(bytes == kScans * kKeys * kValueBytes);
        });
      },
      [&](const std::string& folder) {
        const std::unique_ptr<rocksdb::DB> db = fill_bare(folder);
        return Timed(kScans * kKeys, [&] {
          size_t bytes = 0;
          for (size_t scan = 0; scan < kScans; ++scan) {
            const std::unique_ptr<rocksdb::Iterator> entry(db->NewIterator(rocksdb::ReadOptions()));
            for (entry->SeekToFirst(); entry->Valid(); entry->Next()) {
              bytes += entry->value().size();
            }
          }
          MILLRACE_CHECK(bytes == kScans * kKeys * kValueBytes);
        });
      });
}

// Embedding rows of 16 floats (and as many of AdaGrad's state), of which a tenth fits the cache: a
// round updates a thousand random rows and reads the thousand of the next. The floor reads and
// writes as many rows of as many bytes, and computes nothing: no table that keeps a tenth of its
// rows in memory and the others in RocksDB can be quicker.
constexpr size_t kTableRows = 1'000'000;
constexpr size_t kRoundRows = 1000;
constexpr size_t kRounds = 300;
constexpr size_t kBatchRows = 50'000;

std::vector<EmbeddingId> RandomIds(std::mt19937_64& random) {
  std::vector<EmbeddingId> ids(kRoundRows);
  for (EmbeddingId& id : ids) id = Mix64(random() % kTableRows);
  std::ranges::sort(ids);
  ids.erase(std::ranges::unique(ids).begin(), ids.end());
  return ids;
}

FrozenRows SomeRows(size_t begin, size_t end) {
  FrozenRows rows(/*table=*/0, /*width=*/16, /*slot_floats=*/16);
  const std::vector<float> floats(32, 0.5f);
  for (size_t i = begin; i < end; ++i) rows.Add(Mix64(i), 0, {1, 1}, floats);
  rows.SortById();
  return rows;
}

Work RoundsOfOurs(const std::string& folder) {
  const std::unique_ptr<OrderedByteMap> map = OpenOurs(folder);
  const auto save = [&map](const FrozenRows& rows) {
    WriteBatch batch;
    rows.Encode(0, [&batch](std::string_view key, std::string_view value) {
      batch.Put(std::string(key), std::string(value));
      return true;
    });
    MILLRACE_CHECK(map->Write(batch).ok());
  };
  for (size_t i = 0; i < kTableRows; i += kBatchRows) save(SomeRows(i, i + kBatchRows));
  EmbeddingTableOptions options;
  options.initial_limit.assign(16, 0.1f);
  options.slot_floats = 16;
  options.cache_bytes = size_t{20} << 20;
  EmbeddingTable table(options, map.get());
  const EmbeddingTable::Step step = [](std::span<const float> gradient, std::span<float> values,
                                       std::span<float> slots) {
    for (size_t k = 0; k < gradient.size(); ++k) values[k] += slots[k] += gradient[k];
  };
  std::mt19937_64 random(1);
  std::vector<EmbeddingId> ids = RandomIds(random);
  std::vector<float> values(kRoundRows * 16);
  const auto round = [&] {
    const std::span<float> block(values.data(), ids.size() * 16);
    MILLRACE_CHECK(table.Update(ids, block, {.ms = 1}, 0, step).ok());
    ids = RandomIds(random);
    MILLRACE_CHECK(table.Read(ids, {.ms = 1}, {values.data(), ids.size() * 16}).ok());
    if (!table.is_short_of_room()) return;
    FrozenRows rows = table.FreezeUpdated();
    rows.SortById();
    save(rows);
    table.Saved(rows);
  };
  for (size_t i = 0; i < kRounds; ++i) round();  // the cache fills
  return Timed(kRounds * kRoundRows, [&] {
    for (size_t i = 0; i < kRounds; ++i) round();
  });
}

Work RoundsOfRocksDb(const std::string& folder) {
  const std::unique_ptr<rocksdb::DB> db = OpenBare(folder);
  rocksdb::WriteBatch batch;
  const auto save = [&] {
    MILLRACE_CHECK(db->Write(rocksdb::WriteOptions(), &batch).ok());
    batch.Clear();
  };
  for (size_t i = 0; i < kTableRows; i += kBatchRows) {
    SomeRows(i, i + kBatchRows).Encode(0, [&](std::string_view key, std::string_view value) {
      return batch.Put(ToSlice(key), ToSlice(value)).ok();
    });
    save();
  }
  std::mt19937_64 random(1);
  rocksdb::ReadOptions options;
  options.fill_cache = false;
  std::vector<rocksdb::PinnableSlice> values(kRoundRows);
  std::vector<rocksdb::Status> statuses(kRoundRows);
  size_t unsaved = 0;
  const auto round = [&] {
    const std::vector<EmbeddingId> ids = RandomIds(random);
    std::vector<std::string> keys;
    for (const EmbeddingId id : ids) keys.push_back(EmbeddingRowKey(0, id));
    const std::vector<rocksdb::Slice> slices(keys.begin(), keys.end());
    const size_t missing = slices.size() * 9 / 10;  // the others the cache would have
    for (size_t i = 0; i < missing; ++i) values[i].Reset();
    db->MultiGet(options, db->DefaultColumnFamily(), missing, slices.data(), values.data(),
                 statuses.data(), /*sorted_input=*/true);
    for (size_t i = 0; i < slices.size(); ++i) {
      MILLRACE_CHECK(i >= missing || statuses[i].ok());
      MILLRACE_CHECK(batch.Put(slices[i], values[i % missing]).ok());
    }
    unsaved += slices.size();
    if (unsaved < kBatchRows) return;
    save();
    unsaved = 0;
  };
  for (size_t i = 0; i < kRounds; ++i) round();
  return Timed(kRounds * kRoundRows, [&] {
    for (size_t i = 0; i < kRounds; ++i) round();
  });
}

void BenchEmbeddings(Bench& bench) {
  bench.Compare("embedding rows read and updated, a tenth in memory", "rows/s", RoundsOfOurs,
                RoundsOfRocksDb);
}

int Main(const std::vector<std::string>& arguments) {
  std::string json;
  std::string folder = (std::filesystem::temp_directory_path() / "millrace_bench_stores").string();
  int rounds = 5;
  for (size_t i = 0; i < arguments.size(); i += 2) {
    const bool has_value = i + 1 < arguments.size();
    if (has_value && arguments[i] == "--json") {
      json = arguments[i + 1];
    } else if (has_value && arguments[i] == "--folder") {
      folder = arguments[i + 1] + "/millrace_bench_stores";
    } else if (has_value && arguments[i] == "--rounds" && std::atoi(arguments[i + 1].c_str()) > 0) {
      rounds = std::atoi(arguments[i + 1].c_str());
    } else {
      std::cerr << "usage: bench_stores [--json FILE] [--folder FOLDER] [--rounds N]\n";
      return 2;
    }
  }
  const Values values;
  Bench bench(folder, rounds);
  BenchIngest(bench, values);
  BenchMap(bench, values);
  BenchEmbeddings(bench);
  if (!json.empty() && !bench.WriteJson(json)) {
    std::cerr << "cannot write '" << json << "'\n";
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) { return millrace::Main({argv + 1, argv + argc}); }
