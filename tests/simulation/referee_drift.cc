// When a shard must have found that the stream has changed: Page's test (1954), computed from all
// losses since the last time, each time anew.
#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "tests/simulation/plain_learner.h"
#include "tests/simulation/referee.h"

namespace millrace::simulation {
namespace {

constexpr double kHighestLoss = 10;

double Within(double low, double value, double high) {
  return std::max(low, std::min(value, high));
}

}  // namespace

Referee::Page Referee::PageOf(const Watch& watch) const {
  Page page;
  for (size_t i = 0; i < watch.blocks.size(); ++i) {
    double loss = watch.blocks[i].loss;
    if (i >= job_.first_blocks) {
      const double sigma = std::sqrt(page.variance) + 1e-12;
      const double z = Within(-6, (loss - page.mean) / sigma, 6);
      if (page.sum == 0) {
        page.begin = i;
        page.from = page.mean;
      }
      page.sum = std::max(0.0, page.sum + z - 1);
      if (page.sum > 6) return page;
      loss = Within(0, page.mean + z * sigma, kHighestLoss);
    }
    const double part = i < 100 ? 1 / static_cast<double>(i + 1) : 0.01;
    const double step = loss - page.mean;
    page.mean = Within(0, page.mean + part * step, kHighestLoss);
    page.variance = (1 - part) * (page.variance + part * step * step);
  }
  return page;
}

// Of a regression the errors, by how far the targets so far are from their mean.
double Referee::LossOf(const State& state, const EvaluationSumsMessage& sums) const {
  if (job_.classes > 0) return sums.log_loss();
  const Sums& all = *state.progressive;
  const auto predicted = static_cast<double>(all.rows - all.unpredicted);
  if (predicted == 0) return 0;
  const double mean = all.numbers[1] / predicted;
  const double variance = all.numbers[2] / predicted - mean * mean;
  return variance > 0 ? sums.absolute_error() / std::sqrt(variance) : 0;
}

void Referee::SeeLoss(State& state, uint64_t clock, const EvaluationSumsMessage& sums) const {
  if (sums.rows() == 0) return;
  Watch watch = *state.watch;
  const auto rows = static_cast<double>(sums.rows());
  watch.open.rows += sums.rows();
  watch.open.loss += Within(0, LossOf(state, sums), kHighestLoss * rows);
  if (watch.open.rows >= job_.block_rows) {
    watch.open.loss =
        Within(0, watch.open.loss / static_cast<double>(watch.open.rows), kHighestLoss);
    watch.blocks.push_back(std::exchange(watch.open, {}));
    const Page page = PageOf(watch);
    if (page.sum > 6) {
      Watch::Block since;  // its loss is a sum
      for (size_t i = page.begin; i < watch.blocks.size(); ++i) {
        since.rows += watch.blocks[i].rows;
        since.loss += watch.blocks[i].loss * static_cast<double>(watch.blocks[i].rows);
      }
      Watch found;
      found.drifts = watch.drifts + 1;
      found.found_at = state.progressive->rows;
      found.row = found.found_at - since.rows;
      found.clock = clock;
      found.before = page.from;
      found.after = since.loss / static_cast<double>(since.rows);
      watch = std::move(found);
      if (job_.training.on_drift() == Training::FORGET) ++state.drifts;
    }
  }
  state.watch = std::make_shared<const Watch>(std::move(watch));
}

// Who is the first to tell of a drift has known it; whoever's updates are among those of its step
// has learnt as before. Of the floats of a weight the last is what its rates are divided by;
// behind the weights there are losses, and behind the race there are sums of the same kind.
void Referee::ForgetBy(State& state, const std::vector<const Gradient::Update*>& messages) const {
  bool is_news = false;
  for (const Gradient::Update* message : messages) {
    if (message->drifts() <= state.forgotten) continue;
    state.forgotten = message->drifts();
    is_news = true;
  }
  if (!is_news || job_.training.on_drift() != Training::FORGET) return;
  const auto forget = [](std::vector<float>& floats, uint64_t begin, uint64_t end) {
    for (uint64_t i = 0; i < floats.size() && begin + i < end; ++i) {
      if ((begin + i) % kFloatsOfWeight == kFloatsOfWeight - 1) floats[i] /= 64;
    }
  };
  auto weights = std::make_shared<std::vector<float>>(*state.weights);
  forget(*weights, job_.begin, job_.race_begin);
  for (uint64_t i = 0; i < weights->size(); ++i) {
    const uint64_t key = job_.begin + i;
    const bool is_loss = key >= job_.race_begin && key < job_.race_begin + kRaceLosses;
    if (is_loss && Bound() == 0) (*weights)[i] /= 16;
    if (key >= job_.newton_begin) (*weights)[i] /= 64;
  }
  state.weights = std::move(weights);
  auto rows = std::make_shared<Rows>(*state.rows);
  for (auto& [id, row] : *rows) forget(row.values, 0, job_.row_width);
  state.rows = std::move(rows);
}

}  // namespace millrace::simulation
