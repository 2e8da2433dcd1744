#include "tests/simulation/row_audit.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "models/moments.h"
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
    partition.dead_rows.push_back(partition.next);
    return;
  }
  if (key->first > partition.next) return;
  if (!key->has_rows()) {
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
    if (!was_counted && is_dead) partition.dead_rows.push_back(row);
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
  if (scenario_.one_pass()) {
    const RowNumber begin = std::min(all, RowNumber(accepted.before.end));
    const RowNumber end = std::min<RowNumber>(all, scenario_.BatchEnd(worker, begin));
    // A shard that was lost may have been told less than another instance of the worker knows, or
    // more.
    const bool is_other = RowNumber(message.rows_end()) != end || begin == end;
    if (scenario_.weights_from_workers && is_other) return "";
    if (begin == end) return "an update without rows";
    return CheckRows(accepted, {begin, end, begin, begin});
  }
  if (scenario_.online()) return CheckOnlineOnBuffer(accepted);
  const RowNumber end(message.rows_end());
  if (end > partition.buffer_sizes.size()) return "rows that do not exist";
  const size_t size = SizeAt(partition, end);
  if (message.buffer_rows() != size) {
    return "the buffer holds " + std::to_string(message.buffer_rows()) + " rows where " +
           std::to_string(size) + " are right";
  }
  if (message.repeated_end() != 0) return "rows repeated in a job that uses the whole buffer";
  const RowNumber minibatch(training.buffer().minibatch_rows());
  const bool is_whole = minibatch == 0 || end < minibatch;
  return CheckRows(
      accepted, {RowNumber(end - size), end, is_whole ? RowNumber(0) : RowNumber(end - minibatch),
                 RowNumber(accepted.before.end)});
}

// What the buffer held is not said, but for its size: the rows must be right for one of the moments
// at which it had this size.
std::string RowAudit::CheckOnlineOnBuffer(const Referee::Accepted& accepted) const {
  const Training& training = scenario_.training;
  const Gradient::Update& message = accepted.message;
  const Partition& partition = partitions_[accepted.worker];
  const uint64_t before = accepted.before.end;
  std::string wrong = "a buffer of " + std::to_string(message.buffer_rows()) + " rows";
  for (uint64_t next = before; next <= partition.buffer_sizes.size(); ++next) {
    const size_t size = SizeAt(partition, RowNumber(next));
    if (size != message.buffer_rows()) continue;
    const uint64_t oldest = next - size;
    const bool has_new = next > before;
    uint64_t begin = std::max(std::min(accepted.before.repeated, next), oldest);
    if (has_new) begin = training.buffer().skip_rows() ? std::max(before, oldest) : before;
    if (!has_new && begin == next) {  // after the end, part by part
      const uint64_t parts = (size + training.batch_rows() - 1) / training.batch_rows();
      if (parts == 0 || accepted.before.without >= training.rounds_after_end()) continue;
      begin = oldest + accepted.before.without % parts * training.batch_rows();
    }
    const uint64_t end = std::min<uint64_t>(begin + training.batch_rows(), next);
    const uint64_t repeated =
        has_new ? accepted.before.repeated : std::max(accepted.before.repeated, end);
    if (message.repeated_end() != repeated) {
      wrong = "rows repeated up to " + std::to_string(message.repeated_end());
      continue;
    }
    if (has_new && message.rows_end() != end) {
      wrong = "rows end at " + std::to_string(message.rows_end());
      continue;
    }
    wrong = CheckRows(accepted, {RowNumber(begin), RowNumber(end), RowNumber(begin),
                                 has_new ? RowNumber(begin) : RowNumber(end)});
    if (wrong.empty()) break;
  }
  return wrong;
}

std::string RowAudit::CheckRows(const Referee::Accepted& accepted, const Used& used) const {
  const Training& training = scenario_.training;
  const Gradient::Update& message = accepted.message;
  const WorkerId worker(accepted.worker);
  const uint64_t freeze = training.freeze_after_rows();
  const uint64_t tail_from = training.tail_after_rows() > 0 ? training.tail_after_rows() : freeze;
  uint64_t trained = 0;
  uint64_t fresh = 0;
  NewRows rows;
  for (RowNumber row = used.begin; row < used.end; ++row) {
    if (IsUndecodable(scenario_, worker, row)) continue;
    const bool frozen = freeze > 0 && scenario_.StreamRow(worker, row) >= freeze;
    if (row >= used.trained_begin && !frozen) ++trained;
    if (row < used.new_begin) continue;
    rows.tested.push_back(row);
    if (tail_from > 0 && scenario_.StreamRow(worker, row) >= tail_from) ++rows.tail;
    if (frozen) continue;
    if (row >= used.trained_begin) ++fresh;
    rows.learnt.push_back(row);
  }
  if (message.rows_end() != std::max<uint64_t>(used.end, accepted.before.end)) {
    return "rows end at " + std::to_string(message.rows_end());
  }
  if (message.row_count() != trained) {
    return std::to_string(message.row_count()) + " rows trained on where " +
           std::to_string(trained) + " are right";
  }
  if (message.new_rows() != fresh) return "new rows " + std::to_string(message.new_rows());
  if (message.progressive().rows() != rows.tested.size()) return "rows tested";
  if (message.tail().rows() != rows.tail) return "rows tested in the tail";
  std::string wrong =
      scenario_.regression ? CheckTargets(accepted, rows) : CheckClasses(accepted, rows);
  return wrong.empty() ? CheckNumbers(accepted, rows) : wrong;
}

std::string RowAudit::CheckNumbers(const Referee::Accepted& accepted, const NewRows& rows) const {
  if (scenario_.training.scaling() != Training::RUNNING || scenario_.numeric == 0) return "";
  const auto number_of = [&](RowNumber row) {
    return static_cast<double>(scenario_.StreamRow(WorkerId(accepted.worker), row));
  };
  const auto count = static_cast<double>(rows.learnt.size());
  double mean = 0;
  for (const RowNumber row : rows.learnt) mean += number_of(row) / count;
  double m2 = 0;
  for (const RowNumber row : rows.learnt) m2 += std::pow(number_of(row) - mean, 2);
  const MomentsMessage& moments = accepted.message.moments();
  if (moments.count(0) != count || !Near(moments.mean(0), mean, mean) ||
      !Near(moments.m2(0), m2, m2)) {
    return "other rows than those of its clock";
  }
  return "";
}

std::string RowAudit::CheckClasses(const Referee::Accepted& accepted, const NewRows& rows) const {
  const Gradient::Update& message = accepted.message;
  uint64_t confusions = 0;
  for (uint64_t count : message.progressive().cell_count()) confusions += count;
  if (confusions != rows.tested.size()) {
    return "the confusion matrix does not hold the rows tested";
  }
  uint64_t calibrated = 0;
  for (uint64_t count : message.progressive().calibration_rows()) calibrated += count;
  if (calibrated != rows.tested.size()) return "the calibration does not hold the rows tested";
  std::vector<uint64_t> of_class(scenario_.counts_classes() ? scenario_.classes : 0);
  for (const RowNumber row : rows.learnt) {
    if (of_class.empty()) break;
    ++of_class[MakeRow(scenario_, WorkerId(accepted.worker), row).label];
  }
  if (!SameClassRows(of_class, message.moments().class_rows())) return "other rows of a class";
  return "";
}

std::string RowAudit::CheckTargets(const Referee::Accepted& accepted, const NewRows& rows) const {
  const WorkerId worker(accepted.worker);
  const auto target_of = [&](RowNumber row) {
    return static_cast<double>(TargetOf(scenario_, worker, row));
  };
  const Gradient::Update& message = accepted.message;
  const EvaluationSumsMessage& sums = message.progressive();
  // Where no target is known before the rows, the first that is learnt from tells one to the next.
  const uint64_t unpredicted = sums.unpredicted();
  const uint64_t first = rows.learnt.empty() ? rows.tested.size() : 1;
  const bool right = unpredicted == 0 || unpredicted == first;
  // A worker may know less than the shard, but not more; in a sequential job it knows the same.
  const bool knows_more = unpredicted == 0 && !accepted.targets_known && first > 0;
  const bool knows_less = unpredicted > 0 && accepted.targets_known && scenario_.sequential();
  if (!right || (!scenario_.weights_from_workers && (knows_more || knows_less))) {
    return std::to_string(unpredicted) + " rows without a prediction";
  }
  const uint64_t before_tail = rows.tested.size() - rows.tail;
  const uint64_t in_tail = unpredicted - std::min(unpredicted, before_tail);
  if (message.tail().unpredicted() != in_tail) return "rows without a prediction in the tail";
  if (sums.cell_size() + sums.calibration_bin_size() > 0) return "classes of a regression";
  if (sums.absolute_rows() != rows.tested.size() - unpredicted) return "rows with a prediction";
  double sum = 0;
  double squares = 0;
  for (size_t i = unpredicted; i < rows.tested.size(); ++i) {
    sum += target_of(rows.tested[i]);
    squares += std::pow(target_of(rows.tested[i]), 2);
  }
  if (!Near(sums.target(), sum, sum) || !Near(sums.squared_target(), squares, squares)) {
    return "other targets than those of the rows tested";
  }
  const auto count = static_cast<double>(rows.learnt.size());
  double mean = 0;
  double m2 = 0;
  for (const RowNumber row : rows.learnt) mean += target_of(row) / count;
  for (const RowNumber row : rows.learnt) m2 += std::pow(target_of(row) - mean, 2);
  const MomentsMessage& moments = message.moments();
  if (moments.target_count() != count || !Near(moments.target_mean(), mean, mean) ||
      !Near(moments.target_m2(), m2, m2 + count * mean * mean)) {
    return "other targets than those of the rows learnt from";
  }
  const auto [least, most] = std::ranges::minmax_element(rows.learnt, {}, target_of);
  if (count > 0 &&
      (moments.target_least() != target_of(*least) || moments.target_most() != target_of(*most))) {
    return "another range than that of the targets learnt from";
  }
  const double errors = unpredicted > 0 && count > 0 ? count - 1 : count;
  if (moments.error_count() != errors) return "errors of other rows";
  // Each by a number of 32 bits.
  const double off = sums.absolute_error() - errors * moments.error_mean();
  const bool all_are_learnt = rows.learnt.size() == rows.tested.size();
  // (Errors beyond that are told as being as large: the model is lost.)
  constexpr double kMostTold = TargetMoments::kLimit;
  if (all_are_learnt && sums.absolute_error() < kMostTold &&
      std::abs(off) > 1e-5 * sums.absolute_error()) {
    return "another mean error than that of its rows";
  }
  return "";
}

std::string RowAudit::CheckEnd(const Referee& referee, const std::vector<RowNumber>& leased) const {
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
    const RowNumber all = leased.empty() ? partition.next : leased[worker];
    const bool all_used = referee.now().members[worker].rows.end == all;
    const bool is_forged = scenario_.start && scenario_.start->is_forged;
    if (!all_used && !poisoned[worker] && !is_forged) {
      return "worker " + std::to_string(worker) + ": rows from " +
             std::to_string(referee.now().members[worker].rows.end) + " on were never used";
    }
    const bool repeats = scenario_.online() && !scenario_.one_pass();
    const bool may_miss = poisoned[worker] || is_forged || scenario_.weights_from_workers;
    if (repeats && !may_miss && referee.now().members[worker].rows.repeated != partition.next) {
      return "worker " + std::to_string(worker) + ": rows from " +
             std::to_string(referee.now().members[worker].rows.repeated) +
             " on were learnt from once";
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
    std::vector<Offset> dead = partition.dead;
    if (!leased.empty()) {
      dead.clear();
      for (size_t i = 0; i < partition.dead.size(); ++i) {
        if (partition.dead_rows[i] < all) dead.push_back(partition.dead[i]);
      }
    }
    if (buried != dead) {
      std::string text = "worker " + std::to_string(worker) + ": dead letters of input-data at";
      for (Offset offset : buried) text += " " + std::to_string(offset);
      text += " where these are right:";
      for (Offset offset : dead) text += " " + std::to_string(offset);
      return text;
    }
  }
  return "";
}

}  // namespace millrace::simulation
