// Streams of rows to a broker in memory.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "producer/row_fingerprint.h"
#include "producer/stream_rows.h"
#include "tests/formats/memory_rejects.h"
#include "tests/producer/scratch_folder.h"
#include "topics/row_codec.h"

namespace millrace {

inline constexpr RowShape kStreamShape = {.numeric = 1, .features = 1, .classes = 2};
inline constexpr size_t kNever = std::numeric_limits<size_t>::max();

struct MemoryRecord {
  std::string key;
  std::string value;
  bool operator==(const MemoryRecord&) const = default;
};
using MemoryTopic = std::vector<std::vector<MemoryRecord>>;  // by partition

// A broker in memory that takes what it is sent later, partition by partition, and a producer that
// may die with some of it on its way.
class MemorySender final : public RowSender {
 public:
  MemorySender(MemoryTopic& topic, uint32_t seed, size_t dies_after)
      : topic_(topic), on_their_way_(topic.size()), random_(seed), dies_after_(dies_after) {}
  // What is on its way now arrives in part: of each partition a prefix.
  ~MemorySender() override {
    for (size_t i = 0; i < topic_.size(); ++i)
      Deliver(i, random_() % (on_their_way_[i].size() + 1));
  }

  Status Send(WorkerId worker, const InputKey& key, std::string& value) override {
    on_send();
    if (dies_after_ == 0) return absl::AbortedError("killed");
    if (outstanding() >= room || random_() % 8 == 0) return absl::ResourceExhaustedError("full");
    --dies_after_;
    on_their_way_[worker].push_back({EncodeInputKey(key), std::move(value)});
    return absl::OkStatus();
  }
  Status Wait(std::chrono::milliseconds) override {
    ++waits;
    const size_t partition = random_() % topic_.size();
    Deliver(partition, on_their_way_[partition].size());
    return absl::OkStatus();
  }
  size_t outstanding() const override {
    size_t count = 0;
    for (const auto& records : on_their_way_) count += records.size();
    return count;
  }
  uint64_t rows_outstanding() override { return 0; }
  const std::string& topic() const override { return name_; }

  int waits = 0;
  size_t room = kNever;
  std::function<void()> on_send = [] {};

 private:
  void Deliver(size_t partition, size_t count) {
    auto& records = on_their_way_[partition];
    const auto end = records.begin() + static_cast<ptrdiff_t>(count);
    topic_[partition].insert(topic_[partition].end(), records.begin(), end);
    records.erase(records.begin(), end);
  }

  MemoryTopic& topic_;
  MemoryTopic on_their_way_;
  std::mt19937 random_;
  size_t dies_after_;
  std::string name_ = "job.input-data";
};

inline ResumePlan PlanOf(const MemoryTopic& topic, uint32_t rows_per_turn,
                         uint32_t most_rows_per_turn = 0, uint32_t dealt_workers = 0) {
  std::vector<PartitionTail> tails;
  for (const auto& records : topic) {
    tails.emplace_back();
    for (const MemoryRecord& record : records) {
      const StatusOr<PartitionTail> tail = TailOfRecord(record.key, record.value, kStreamShape);
      if (!absl::IsNotFound(tail.status())) tails.back() = tail.value();  // a flush is no tail
    }
  }
  const auto workers = static_cast<uint32_t>(tails.size());
  const Dealing dealing = {.workers = dealt_workers > 0 ? dealt_workers : workers,
                           .rows_per_turn = rows_per_turn,
                           .most_rows_per_turn = most_rows_per_turn};
  return ResumePlan(std::move(tails), dealing);
}

// Each row as a record of its own, however they were put together.
inline MemoryTopic RowsOf(const MemoryTopic& topic) {
  MemoryTopic rows(topic.size());
  for (size_t i = 0; i < topic.size(); ++i) {
    for (const MemoryRecord& record : topic[i]) {
      const InputKey key = DecodeInputKey(record.key).value();
      InputRecord message;
      EXPECT_TRUE(DecodeInput(key, record.value, kStreamShape, message).ok());
      if (message.has_end()) rows[i].push_back(record);
      RowBatchReader reader;
      if (key.has_rows()) reader.Begin(message.rows(), kStreamShape);
      for (RowNumber number = key.first; number < key.end(); ++number) {
        Row row;
        EXPECT_TRUE(reader.Next(row).ok());
        rows[i].push_back({EncodeInputKey({number, 1}), EncodeRow(row)});
      }
    }
  }
  return rows;
}

class StreamRowsTest : public testing::Test {
 protected:
  StreamRowsTest() {
    options_.spec.set_label("y");
    options_.spec.add_classes("0");
    options_.spec.add_classes("1");
    options_.spec.add_numeric("x");
    around_.stop = &stop_;
    around_.tick = [this] {
      ++ticks_;
      return absl::OkStatus();
    };
    around_.now = [this] { return now_; };
    around_.sleep = [this](Pacer::Time::duration time) { now_ += time; };
    around_.accept = [this] {
      ++accepts_;
      return absl::OkStatus();
    };
    around_.warn = [this](const std::string& line) { warnings_.push_back(line); };
  }

  void Input(const std::string& text) { path_ = folder_.Write("input.csv", text); }
  // Rows 0 to count - 1, with a malformed one after each that `bad` names.
  void InputRows(int count, const std::function<bool(int)>& bad) {
    std::string text = "x,y\n";
    for (int i = 0; i < count; ++i) {
      text += std::to_string(i) + "," + std::to_string(i % 2) + "\n";
      if (bad(i)) text += "bad,row\n";
    }
    Input(text);
  }

  // A run of a producer, to its end or death.
  Status Run(MemoryTopic& topic, uint32_t seed = 1, size_t dies_after = kNever) {
    MemorySender sender(topic, seed, dies_after);
    return Run(topic, sender);
  }
  Status Run(const MemoryTopic& topic, MemorySender& sender) {
    rejects_.rows.clear();
    counts_ = {};
    accepts_ = 0;
    auto stream = CsvStream::Create(CsvFile::Open(path_, file_options_).value(), file_options_,
                                    options_, rejects_)
                      .value();
    return StreamRows(*stream, Plan(topic), pacer_, sender, around_, counts_);
  }

  ResumePlan Plan(const MemoryTopic& topic) const {
    return PlanOf(topic, rows_per_turn_, most_rows_per_turn_, dealt_workers_);
  }

  // What an undisturbed run gives, by definition.
  MemoryTopic Expected(int rows, uint32_t workers) const {
    MemoryTopic topic(workers);
    std::vector<RowFingerprint> fingerprints(workers);
    uint64_t worker = 0;
    uint64_t turn = rows_per_turn_;
    uint64_t left = turn;  // of the worker's turn
    uint64_t rounds = 0;
    const auto next = [&] {
      if (--left == 0) {
        worker = (worker + 1) % (dealt_workers_ > 0 ? dealt_workers_ : workers);
        if (worker == 0) ++rounds;
        const bool doubles = worker == 0 && rounds >= 32 && rounds % 16 == 0;
        if (doubles && 2 * turn <= most_rows_per_turn_) turn *= 2;
        left = turn;
      }
    };
    for (uint32_t e = 0; e < options_.epochs; ++e) {
      for (int i = 0; i < rows; ++i, next()) {
        const Row row{static_cast<uint32_t>(i % 2), {static_cast<double>(i)}, {}, {}, e > 0};
        fingerprints[worker].Add(row);
        topic[worker].push_back(
            {EncodeInputKey({RowNumber(topic[worker].size()), 1}), EncodeRow(row)});
      }
    }
    for (size_t i = 0; i < workers; ++i) {
      const RowNumber end(topic[i].size());
      topic[i].push_back({EncodeInputKey({end, 0}), EncodeEnd(end, fingerprints[i].value())});
    }
    return topic;
  }

  ScratchFolder folder_;
  std::string path_;
  MemoryRejects rejects_;
  CsvStream::Options options_;
  CsvFile::Options file_options_;
  uint32_t rows_per_turn_ = 1;
  uint32_t most_rows_per_turn_ = 0;
  uint32_t dealt_workers_ = 0;  // 0: all
  Pacer pacer_ = Pacer::Unpaced();
  std::atomic<bool> stop_ = false;
  int ticks_ = 0;
  int accepts_ = 0;
  std::vector<std::string> warnings_;
  Pacer::Time now_{std::chrono::hours(1000)};
  StreamSurroundings around_;
  StreamCounts counts_;
};

}  // namespace millrace
