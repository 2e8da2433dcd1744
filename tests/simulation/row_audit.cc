#include "tests/simulation/row_audit.h"

#include <algorithm>
#include <set>
#include <utility>

#include "tests/simulation/inspector_compare.h"
#include "tests/simulation/stored_snapshot.h"

namespace millrace::simulation {

RowAudit::RowAudit(const Scenario& scenario) : scenario_(scenario), partitions_(scenario.workers) {}

void RowAudit::OnInput(WorkerId worker, const LogRecord& record) {
  Partition& partition = partitions_[worker];
  const std::optional<InputKey> key = DecodeInputKey(record.key);
  if (!key && partition.ended) {
    partition.behind_the_end.push_back(record.offset);
    return;
  }
  if (!key) {
    partition.dead.push_back(record.offset);
    return;
  }
  if (key->first > partition.next) return;
  if (key->is_end()) {
    partition.ended = partition.ended || key->first == scenario_.rows[worker];
    return;
  }
  if (key->end() <= partition.next) return;
  // One for all, with its last row, or one for each row.
  const bool is_damaged = IsDamaged(scenario_, worker, *key);
  for (; partition.next < key->end(); ++partition.next) {
    const RowNumber row = partition.next;
    const bool was_counted = scenario_.start && row < scenario_.start->rows_end(worker);
    const bool is_dead = is_damaged ? row + 1 == key->end() : IsUndecodable(scenario_, worker, row);
    if (!was_counted && is_dead) partition.dead.push_back(record.offset);
    partition.times.push_back(record.timestamp_ms);
    const size_t before = partition.buffer_sizes.empty() ? 0 : partition.buffer_sizes.back();
    partition.buffer_sizes.push_back(BufferSize(partition, before));
  }
}

// The rules of the buffer: grow to the target, or shrink to it.
size_t RowAudit::BufferSize(const Partition& partition, size_t before) const {
  const Training::Buffer& options = scenario_.training.buffer();
  const std::vector<int64_t>& times = partition.times;
  const size_t gaps = std::min<size_t>(times.size() - 1, 500);
  double passed = 0;
  for (size_t i = times.size() - gaps; i < times.size(); ++i) {
    passed += static_cast<double>(std::max<int64_t>(0, times[i] - times[i - 1]));
  }
  double target = options.min_rows();
  if (gaps > 0) {
    target =
        passed > 0
            ? std::floor(options.coefficient() * (60000.0 * static_cast<double>(gaps) / passed))
            : options.max_rows();
    target = std::min<double>(std::max<double>(target, options.min_rows()), options.max_rows());
  }
  return std::min(before + 1, static_cast<size_t>(target));
}

std::string RowAudit::Check(const Referee::Accepted& accepted) const {
  if (accepted.poisoned) return "";
  const Training& training = scenario_.training;
  const Gradient::Update& message = accepted.message;
  const WorkerId worker(accepted.worker);
  const Partition& partition = partitions_[worker];
  const RowNumber all = scenario_.rows[worker];
  RowNumber begin = 0;
  RowNumber end = 0;
  RowNumber trained_begin = 0;
  RowNumber new_begin = 0;
  if (scenario_.one_pass()) {
    begin = std::min(all, RowNumber(accepted.rows_end_before));
    end = std::min<RowNumber>(all, begin + training.batch_rows());
    trained_begin = new_begin = begin;
    // A shard that was lost may have been told less than another instance of the worker knows, or
    // more.
    const bool is_other = RowNumber(message.rows_end()) != end || begin == end;
    if (scenario_.weights_from_workers && is_other) return "";
    if (begin == end) return "an update without rows";
  } else {
    end = RowNumber(message.rows_end());
    if (end > partition.buffer_sizes.size()) return "rows that do not exist";
    const size_t size = end == 0 ? 0 : partition.buffer_sizes[end - 1];
    if (message.buffer_rows() != size) {
      return "the buffer holds " + std::to_string(message.buffer_rows()) + " rows where " +
             std::to_string(size) + " are right";
    }
    begin = end - size;
    new_begin = RowNumber(accepted.rows_end_before);
    const RowNumber minibatch(training.buffer().minibatch_rows());
    trained_begin = minibatch == 0 || end < minibatch ? RowNumber(0) : RowNumber(end - minibatch);
  }
  const uint64_t freeze = training.freeze_after_rows();
  const uint64_t tail_from = training.tail_after_rows() > 0 ? training.tail_after_rows() : freeze;
  uint64_t trained = 0;
  uint64_t tested = 0;
  uint64_t tail = 0;
  uint64_t fresh = 0;
  std::vector<double> numbers;
  std::vector<uint64_t> of_class(scenario_.classes);
  for (RowNumber row = begin; row < end; ++row) {
    if (IsUndecodable(scenario_, worker, row)) continue;
    const bool frozen = freeze > 0 && scenario_.StreamRow(worker, row) >= freeze;
    if (row >= trained_begin && !frozen) ++trained;
    if (row < new_begin) continue;
    ++tested;
    if (tail_from > 0 && scenario_.StreamRow(worker, row) >= tail_from) ++tail;
    if (frozen) continue;
    if (row >= trained_begin) ++fresh;
    numbers.push_back(static_cast<double>(scenario_.StreamRow(worker, row)));
    ++of_class[MakeRow(scenario_, worker, row).label];
  }
  if (message.rows_end() != end) return "rows end at " + std::to_string(message.rows_end());
  if (message.row_count() != trained) {
    return std::to_string(message.row_count()) + " rows trained on where " +
           std::to_string(trained) + " are right";
  }
  if (message.new_rows() != fresh) return "new rows " + std::to_string(message.new_rows());
  if (message.progressive().rows() != tested) return "rows tested";
  if (message.tail().rows() != tail) return "rows tested in the tail";
  uint64_t confusions = 0;
  for (uint64_t count : message.progressive().cell_count()) confusions += count;
  if (confusions != tested) return "the confusion matrix does not hold the rows tested";
  uint64_t calibrated = 0;
  for (uint64_t count : message.progressive().calibration_rows()) calibrated += count;
  if (calibrated != tested) return "the calibration does not hold the rows tested";
  if (!scenario_.counts_classes()) of_class.clear();
  if (!SameClassRows(of_class, message.moments().class_rows())) return "other rows of a class";
  if (training.scaling() != Training::RUNNING || scenario_.numeric == 0) return "";
  const double count = static_cast<double>(numbers.size());
  double mean = 0;
  for (double number : numbers) mean += number / count;
  double m2 = 0;
  for (double number : numbers) m2 += (number - mean) * (number - mean);
  const MomentsMessage& moments = message.moments();
  if (moments.count(0) != count || !Near(moments.mean(0), count > 0 ? mean : 0, mean) ||
      !Near(moments.m2(0), m2, m2)) {
    return "other rows than those of its clock";
  }
  return "";
}

std::string RowAudit::CheckEnd(const Referee& referee) const {
  std::vector<std::set<Clock>> honest(scenario_.workers);
  std::vector<bool> poisoned(scenario_.workers);  // rows of poisoned clocks are lost
  for (const Referee::Accepted& accepted : referee.accepted()) {
    if (accepted.poisoned) {
      poisoned[accepted.worker] = true;
    } else if (!honest[accepted.worker].insert(Clock(accepted.clock)).second) {
      return "clock " + std::to_string(accepted.clock) + " of worker " +
             std::to_string(accepted.worker) + " was accepted twice";
    }
  }
  for (WorkerId worker = 0; worker < scenario_.workers; ++worker) {
    const Partition& partition = partitions_[worker];
    if (partition.next != scenario_.rows[worker]) return "the producer has not sent all rows";
    const bool all_used = referee.now().members[worker].rows.end == partition.next;
    const bool is_forged = scenario_.start && scenario_.start->is_forged;
    if (!all_used && !poisoned[worker] && !is_forged) {
      return "worker " + std::to_string(worker) + ": rows from " +
             std::to_string(referee.now().members[worker].rows.end) + " on were never used";
    }
    std::vector<Offset> buried;
    for (const Referee::Letter& letter : referee.dead_letters()) {
      if (letter.topic == "input-data" && letter.partition == static_cast<int32_t>(worker)) {
        buried.push_back(Offset(letter.offset));
      }
    }
    std::erase_if(buried, [&](Offset offset) {
      return std::count(partition.behind_the_end.begin(), partition.behind_the_end.end(), offset);
    });
    std::sort(buried.begin(), buried.end());
    if (buried != partition.dead) {
      std::string text = "worker " + std::to_string(worker) + ": dead letters of input-data at";
      for (Offset offset : buried) text += " " + std::to_string(offset);
      text += " where these are right:";
      for (Offset offset : partition.dead) text += " " + std::to_string(offset);
      return text;
    }
  }
  return "";
}

}  // namespace millrace::simulation
