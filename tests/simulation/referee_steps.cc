// What updates make of a shard's weights, sums and moments.
#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "tests/simulation/referee.h"
#include "tests/simulation/referee_messages.h"

namespace millrace::simulation {
namespace {

std::shared_ptr<const Referee::Sums> Plus(const std::shared_ptr<const Referee::Sums>& sums,
                                          const EvaluationSumsMessage& more) {
  if (more.rows() == 0) return sums;
  auto total = std::make_shared<Referee::Sums>(*sums);
  total->rows += more.rows();
  total->log_loss += more.log_loss();
  for (int i = 0; i < more.cell_size(); ++i) total->cells[more.cell(i)] += more.cell_count(i);
  for (int i = 0; i < more.score_bin_size(); ++i) {
    total->bins[more.score_bin(i)] += more.score_count(i);
  }
  for (int i = 0; i < more.calibration_bin_size(); ++i) {
    auto& [rows, right, confidence] = total->calibration[more.calibration_bin(i)];
    rows += more.calibration_rows(i);
    right += more.calibration_correct(i);
    confidence += more.calibration_confidence(i);
  }
  total->numbers.resize(4);
  total->numbers[0] += more.squared_error();
  total->numbers[1] += more.target();
  total->numbers[2] += more.squared_target();
  total->numbers[3] += more.absolute_error();
  total->absolute_rows += more.absolute_rows();
  total->unpredicted += more.unpredicted();
  return total;
}

}  // namespace

// One step by all messages. share_of > 0: a change counts as one of so many workers'.
void Referee::StepBy(State& state, const std::vector<const Gradient::Update*>& messages,
                     double share_of) {
  if (!job_.parameters.empty()) return StepNamed(state, messages);
  double total = 0;
  for (const Gradient::Update* message : messages) {
    if (message->row_count() != 0) total += message->weight_sum();
  }
  if (!(total > 0)) return;
  const bool averages = job_.training.update().kind() == Training::Update::WEIGHT_CHANGE;
  std::vector<float> sum(job_.keys, 0.0f);
  for (const Gradient::Update* message : messages) {
    if (message->row_count() == 0) continue;
    float factor = 1.0f;
    if (averages) {
      factor = static_cast<float>(share_of > 0 ? 1.0 / share_of : message->weight_sum() / total);
    }
    for (const auto& [key, value] : Values(message->slice())) {
      sum[key] = sum[key] + factor * value;
    }
  }
  auto weights = std::make_shared<std::vector<float>>(*state.weights);
  if (averages || AddsUp()) {
    for (size_t key = 0; key < sum.size(); ++key) (*weights)[key] = (*weights)[key] + sum[key];
    if (AddsUp()) StepRows(state, messages, 1.0f);
  } else {
    const auto mean = static_cast<float>(1.0 / total);
    const bool ftrl = job_.training.optimizer().kind() == Training::Optimizer::FTRL;
    const auto l2 = static_cast<float>(ftrl ? 0 : job_.training.l2());
    for (size_t key = 0; key < sum.size(); ++key) {
      sum[key] = sum[key] * mean;
      if (l2 > 0 && key < job_.penalised_keys) sum[key] = sum[key] + l2 * (*weights)[key];
    }
    auto slots = std::make_shared<std::vector<float>>(*state.slots);
    Optimise(state.steps, sum, *weights, *slots, job_.penalised_keys, job_.linear_keys);
    state.slots = std::move(slots);
    StepRows(state, messages, mean);
  }
  state.weights = std::move(weights);
  ++state.steps;
}

void Referee::Optimise(uint64_t steps, const std::vector<float>& gradient,
                       std::vector<float>& weights, std::vector<float>& slots, size_t penalised,
                       size_t linear) const {
  const Training::Optimizer& how = job_.training.optimizer();
  const auto t = static_cast<double>(steps);
  const auto rate = static_cast<float>(how.learning_rate() / (1.0 + how.decay() * t));
  const size_t keys = gradient.size();
  const auto epsilon = static_cast<float>(how.epsilon());
  for (size_t key = 0; key < keys; ++key) {
    const float g = gradient[key];
    switch (how.kind()) {
      case Training::Optimizer::SGD:
        weights[key] -= rate * g;
        break;
      case Training::Optimizer::MOMENTUM: {
        float& speed = slots[key];
        speed = static_cast<float>(how.momentum()) * speed + g;
        weights[key] -= rate * speed;
        break;
      }
      case Training::Optimizer::ADAGRAD: {
        float& squares = slots[key];
        squares += g * g;
        weights[key] -= rate * g / (std::sqrt(squares) + epsilon);
        break;
      }
      case Training::Optimizer::ADAM: {
        float& mean = slots[key];
        float& squares = slots[keys + key];
        mean = static_cast<float>(how.beta1()) * mean + static_cast<float>(1 - how.beta1()) * g;
        squares = static_cast<float>(how.beta2()) * squares +
                  static_cast<float>(1 - how.beta2()) * (g * g);
        const auto grow1 = static_cast<float>(1 / (1 - std::pow(how.beta1(), t + 1)));
        const auto grow2 = static_cast<float>(1 / (1 - std::pow(how.beta2(), t + 1)));
        weights[key] -= rate * (mean * grow1) / (std::sqrt(squares * grow2) + epsilon);
        break;
      }
      case Training::Optimizer::FTRL: {
        float& squares = slots[key];
        if (key >= linear) {  // AdaGrad
          squares += g * g;
          weights[key] -= rate * g / (std::sqrt(squares) + epsilon);
          break;
        }
        float& z = slots[keys + key];
        const bool free = key >= penalised;
        const auto l1 = static_cast<float>(free ? 0 : how.l1());
        const auto l2 = static_cast<float>(free ? 0 : job_.training.l2());
        const float root = std::sqrt(squares);
        squares += g * g;
        const float sigma = (std::sqrt(squares) - root) / rate;
        z += g - sigma * weights[key];
        if (std::abs(z) <= l1) {
          weights[key] = 0;
        } else {
          const float slope = (static_cast<float>(how.ftrl_beta()) + std::sqrt(squares)) / rate;
          weights[key] = -(z > 0 ? z - l1 : z + l1) / (slope + l2);
        }
        break;
      }
    }
  }
}

void Referee::Tally(State& state, uint32_t worker, const Gradient::Update& message) {
  Member& member = state.members[worker];
  Count(member, message);
  member.buffer_rows = message.buffer_rows();
  KeepWanted(member, {message.wanted().begin(), message.wanted().end()});
  state.rows_trained += message.new_rows();
  if (message.row_count() > 0) state.train_loss = message.train_loss();
  state.progressive = Plus(state.progressive, message.progressive());
  state.tail = Plus(state.tail, message.tail());
  state.window_open = Plus(state.window_open, message.progressive());
  const uint64_t all = state.progressive->rows;
  SeeLoss(state, member.clock, message.progressive());
  const bool is_news = message.progressive().rows() > 0;
  if (is_news && state.window_open->rows >= job_.least_window &&
      (state.window_open->rows >= all / 20 || state.window_open->rows >= 100'000)) {
    state.window = state.window_open;
    state.window_end = all;
    state.window_open = std::make_shared<Sums>();
  }
  const MomentsMessage& more = message.moments();
  // Chan, Golub and LeVeque (1979), as the textbook has it.
  const auto merge = [](Column& column, double count, double mean, double m2) {
    if (count == 0) return;
    const double n = column.count + count;
    const double delta = mean - column.mean;
    column.m2 = column.m2 + m2 + delta * delta * column.count * count / n;
    column.mean = (column.count * column.mean + count * mean) / n;
    column.count = n;
  };
  for (int i = 0; i < more.count_size(); ++i) {
    merge(state.columns[static_cast<size_t>(i)], more.count(i), more.mean(i), more.m2(i));
  }
  if (more.target_count() > 0) {
    const bool is_first = state.columns[job_.numeric].count == 0;
    const Range before = is_first ? Range{more.target_least(), more.target_most()} : state.range;
    state.range.least = std::min(before.least, more.target_least());
    state.range.most = std::max(before.most, more.target_most());
  }
  state.range.votes *= std::pow(1 - 1.0 / 2000, more.error_count());
  state.range.votes += more.range_votes();
  merge(state.columns[job_.numeric], more.target_count(), more.target_mean(), more.target_m2());
  merge(state.columns.back(), more.error_count(), more.error_mean(), 0);
  for (int k = 0; k < more.class_rows_size(); ++k) {
    state.class_rows[static_cast<size_t>(k)] += more.class_rows(k);
  }
  Bury(state, message.dead_letters());
}

void Referee::Bury(State& state, const google::protobuf::RepeatedPtrField<DeadLetter>& letters) {
  for (const DeadLetter& letter : letters) {
    dead_letters_.push_back({letter.topic(), letter.partition(), letter.offset()});
    ++state.dead_letters;
    state.undecodable_rows += std::max(1U, letter.rows());
  }
}

}  // namespace millrace::simulation
