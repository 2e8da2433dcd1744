// Labels that come later than their rows, on a topic of their own: reads them, keeps the rows that
// wait for them, and hands over to a transaction what may be written (docs/late-labels.md).
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "kafka/admin.h"
#include "kafka/consumer.h"
#include "kafka/options.h"
#include "messages/source.pb.h"
#include "models/row.h"
#include "producer/label_decoder.h"
#include "producer/label_join.h"
#include "producer/progress_display.h"
#include "producer/read_ends.h"
#include "producer/source_batch.h"
#include "producer/source_notes.h"
#include "producer/source_reader.h"

namespace millrace {

// What the user says of them.
struct LateLabelOptions {
  std::string topic{};                 // empty: labels are in the rows
  std::string key{};                   // the column that rows and labels have in common
  std::vector<std::string> columns{};  // of CSV lines of labels; empty: the key and the label
  std::optional<double> window_s{};
  std::optional<std::string> unmatched_label{};  // of rows without one; none: these are left out
  std::optional<uint64_t> memory_mb{};           // of what waits, about; none: 512
};

// InvalidArgument: settings that make no sense together. `rows` is the topic of the rows.
Status CheckLateLabels(const LateLabelOptions& options, const std::string& rows);

// Used by one thread.
class LateLabels {
 public:
  struct Surroundings {
    KafkaOptions kafka;           // of the cluster of both topics
    KafkaAdmin* admin = nullptr;  // outlives this, as do the others
    ProgressDisplay* display = nullptr;
    const std::atomic<bool>* stop = nullptr;
    // Calls the function until it is known whether the record has a label (SchemaWait).
    std::function<Status(const std::function<Status()>&)> decode;
    bool until_end = false;
    bool continue_on_data_loss = false;
  };

  // FailedPrecondition: --unmatched-label is no label of the job.
  static StatusOr<std::unique_ptr<LateLabels>> Create(const LateLabelOptions& options,
                                                      LabelDecoder decoder,
                                                      Surroundings surroundings);

  // Of a job that begins: `offsets` are those of the labels' topic.
  SourceState::Labels FirstState(const std::vector<Offset>& offsets) const;
  // What was read before is forgotten; continues as `state` says. FailedPrecondition: that is of
  // other labels. DataLoss: labels were deleted.
  Status Begin(const SourceState& state, int32_t row_partitions, int32_t label_partitions);

  // ---- what is read of the rows' topic ----

  Offset next_row(int32_t partition) const { return join_->next_row(partition); }
  void AddRow(const ConsumedRecord& record, const std::string& key, const Row& row);
  void AddUnusable(const ConsumedRecord& record, const Status& why);
  void AddTombstone(const ConsumedRecord& record);
  // There are no records before `end` that are still to be read: the partition ends there now.
  void EndRows(int32_t partition, Offset end);
  void LoseRows(int32_t partition, Offset next);
  void AddRowPartition(int32_t partition);

  // ---- the work ----

  struct RowReading {
    SourceReader& reader;
    const SourceReader::Handler& handler;
    const ReadEnds& ends;
    int32_t partitions = 0;
    std::function<bool()> is_full;  // whether the batch takes no more
  };
  // Reads labels, and moves what may be written to `batch`. To be called after each Poll() of the
  // rows; returns how much there was to do. FailedPrecondition: memory is full.
  StatusOr<size_t> Work(const RowReading& rows, SourceBatch& batch);
  // Nothing waits, and until_end all labels were read.
  bool IsAtEnd() const;

 private:
  using Time = std::chrono::steady_clock::time_point;

  LateLabels(const LateLabelOptions& options, LabelDecoder decoder, Surroundings surroundings);

  void SetHandler();
  Status StartReading(int32_t partitions);
  Status Take(const ConsumedRecord& record);
  Status OnDeleted(int32_t partition, Offset begin);
  HeldRecord Held(const ConsumedRecord& record) const;
  HeldRecord Failed(const ConsumedRecord& record, const Status& why) const;

  void NoteEnds(const RowReading& rows);
  Status Look(const RowReading& rows);
  Status LookForPartitions();
  Status Balance(const RowReading& rows);
  Status CheckMemory() const;
  size_t Leave(const RowReading& rows, SourceBatch& batch);
  void PutRow(const LabelJoin::LeavingRow& leaving, SourceBatch& batch);
  void PutLabel(const LabelJoin::LeavingLabel& leaving, SourceBatch& batch);
  SourceState::Labels State() const;
  void Tell(Time now);

  const LateLabelOptions options_;
  const SourceTopic topic_;
  const int64_t window_ms_;
  const size_t memory_;
  const Surroundings around_;
  LabelDecoder decoder_;
  std::optional<JoinedLabel> default_;

  // Of the present client.
  std::unique_ptr<LabelJoin> join_;
  std::unique_ptr<SourceReader> reader_;
  SourceReader::Handler handler_;
  ReadEnds ends_;
  int32_t partitions_ = 0;
  std::set<int32_t> rows_at_end_;  // partitions, since their last record
  std::set<int32_t> labels_at_end_;
  std::set<int32_t> held_rows_;  // partitions that are ahead of the others
  std::set<int32_t> held_labels_;
  SourceState::Labels counts_;  // without positions
  Time next_look_;
  Time next_partitions_;

  bool was_warned_ = false;
  uint64_t told_ = 0;  // rows
  Time next_line_;
};

}  // namespace millrace
