#include "producer/source_batch.h"

#include <utility>

#include "base/check.h"
#include "formats/text_beginning.h"
#include "producer/source_positions.h"
#include "topics/dead_letter.h"
#include "topics/frame.h"

namespace millrace {
namespace {

RecordPlace PlaceOf(const ConsumedRecord& record) {
  return {record.partition, record.offset, record.timestamp_ms, record.value.size()};
}

}  // namespace

SourceBatch::SourceBatch(SourceState state, const Dealing& dealing, bool reasons_only)
    : dealing_(dealing),
      reasons_only_(reasons_only),
      state_(std::move(state)),
      partitions_(dealing.workers) {
  for (WorkerId worker = 0; worker < dealing.workers; ++worker) {
    partitions_[worker].end = RowsOfWorker(state_.rows(), worker, dealing);
  }
}

bool SourceBatch::IsNew(const ConsumedRecord& record) const {
  return record.offset >= NextOffset(state_, record.partition);
}

void SourceBatch::Count(const RecordPlace& record) {
  SetNextOffset(state_, record.partition, record.offset + 1);
  NoteLastRecord(state_, record.partition, record.timestamp_ms);
  state_.set_bytes(state_.bytes() + record.bytes);
  has_moved_ = true;
}

void SourceBatch::AddRow(const ConsumedRecord& record, const Row& row) {
  AddRow(PlaceOf(record), row);
}

void SourceBatch::AddRow(const RecordPlace& record, const Row& row) {
  const RowPlace place = PlaceOfRow(state_.rows(), dealing_);
  if (!partitions_[place.worker].batch.Takes(row)) Finish(place.worker);
  Partition& partition = partitions_[place.worker];
  MILLRACE_CHECK(place.row == partition.end);
  partition.batch.Add(row);
  partition.origins.push_back(
      {record.timestamp_ms, static_cast<uint32_t>(record.partition), record.offset});
  ++partition.end;
  ++rows_;
  bytes_ += EncodedBytesOf(row);
  state_.set_rows(state_.rows() + 1);
  Count(record);
}

void SourceBatch::AddUnlabelled(const RecordPlace& record) { Count(record); }

void SourceBatch::AddLetter(const std::string& topic, const ConsumedRecord& record,
                            const Status& why) {
  const std::string_view reason = reasons_only_ ? WithoutBeginning(TextOf(why)) : TextOf(why);
  const DeadLetter letter = MakeDeadLetter({.topic = topic,
                                            .partition = record.partition,
                                            .offset = record.offset,
                                            .key = record.key,
                                            .value = record.value},
                                           std::string(reason), reasons_only_);
  for (std::string& frame : MakeFrames(letter.SerializeAsString(), 0)) {
    bytes_ += frame.size();
    letters_.push_back(std::move(frame));
  }
}

void SourceBatch::AddUnusable(const ConsumedRecord& record, const Status& why) {
  AddLetter(state_.topic(), record, why);
  state_.set_dead_letters(state_.dead_letters() + 1);
  Count(PlaceOf(record));
}

void SourceBatch::AddTombstone(const ConsumedRecord& record) {
  state_.set_tombstones(state_.tombstones() + 1);
  Count(PlaceOf(record));
}

void SourceBatch::AddUnusableLabel(const ConsumedRecord& record, const Status& why) {
  AddLetter(state_.labels().topic(), record, why);
  has_moved_ = true;
}

void SourceBatch::SetLabels(SourceState::Labels labels) {
  *state_.mutable_labels() = std::move(labels);
  has_moved_ = true;
}

void SourceBatch::Skip(int32_t partition, Offset next) {
  if (next <= NextOffset(state_, partition)) return;
  SetNextOffset(state_, partition, next);
  has_moved_ = true;
}

void SourceBatch::Lose(int32_t partition, Offset next) {
  const Offset present = NextOffset(state_, partition);
  MILLRACE_CHECK(next > present);
  state_.set_lost(state_.lost() + static_cast<uint64_t>(next - present));
  Skip(partition, next);
}

void SourceBatch::Finish(WorkerId worker) {
  Partition& partition = partitions_[worker];
  const uint32_t rows = partition.batch.rows();
  InputDataRecord record = {
      worker, {RowNumber(partition.end - rows), rows}, EncodeRows(partition.batch)};
  AppendOrigins(partition.origins, record.value);
  partition.origins.clear();
  records_.push_back(std::move(record));
}

void SourceBatch::EndOthers(uint32_t workers) {
  MILLRACE_CHECK(state_.number() == 0 && records_.empty());
  for (WorkerId worker(dealing_.workers); worker < workers; ++worker) {
    records_.push_back({worker, {RowNumber(0), 0}, EncodeEnd(RowNumber(0))});
  }
}

SourceBatch::Transaction SourceBatch::Take() {
  for (WorkerId worker = 0; worker < dealing_.workers; ++worker) {
    if (partitions_[worker].batch.rows() > 0) Finish(worker);
  }
  if (ends_) {
    for (WorkerId worker = 0; worker < dealing_.workers; ++worker) {
      const RowNumber end = partitions_[worker].end;
      records_.push_back({worker, {end, 0}, EncodeEnd(end)});
    }
  }
  state_.set_number(state_.number() + 1);
  Transaction transaction;
  // The last record of all is the last one of its partition, too, so a tail has the state.
  if (records_.empty()) {
    transaction.state = EncodeSourceState(state_);
  } else {
    AppendSourceState(state_, records_.back().value);
  }
  transaction.rows = std::exchange(records_, {});
  transaction.letters = std::exchange(letters_, {});
  rows_ = 0;
  bytes_ = 0;
  has_moved_ = false;
  return transaction;
}

}  // namespace millrace
