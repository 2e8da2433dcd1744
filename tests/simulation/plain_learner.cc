#include "tests/simulation/plain_learner.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <utility>

namespace millrace::simulation {
namespace {

constexpr std::array<double, 5> kRates = {0.02, 0.1, 0.06, 0.25, 1};
constexpr size_t kValues = 6;  // of a weight: one for each rate, and the curvature
constexpr double kForgets = 1 - 1.0 / 2000;

// A key of the parameters, or an embedding row.
using Key = std::pair<bool, uint64_t>;
using Terms = std::vector<std::pair<Key, double>>;

// A weight as it was before the batch and is now; and A of the page, for each rate.
struct Weight {
  std::array<double, kValues> first{};
  std::array<double, kValues> now{};
  std::array<double, kRates.size()> way{};
  double squares = 0;  // of the feature, in the batch's rows
};

double RootOf(double curvature) { return std::sqrt(std::max(curvature, 0.0) + 0.001); }

// A rate of a weight: constant ones are the same for all.
double RateOf(size_t e, const Weight& weight) {
  return e < 2 ? kRates[e] : kRates[e] / RootOf(weight.now[5]);
}

class PlainLearner {
 public:
  explicit PlainLearner(const OnlineBatch& batch)
      : scenario_(batch.scenario),
        workers_(batch.workers),
        columns_(scenario_.regression || scenario_.classes == 2 ? 1 : scenario_.classes),
        blocks_before_race_(scenario_.numeric + (scenario_.wide ? 0 : scenario_.hashed) + 1),
        moments_(batch.moments) {
    for (size_t i = 0; i < blocks_before_race_; ++i) {
      Take(Key(false, i), batch.parameters.subspan(i * block(), block()));
    }
    for (const auto& [id, values] : batch.blocks) Take(Key(true, id), values);
    const auto race = batch.parameters.subspan(blocks_before_race_ * block());
    first_race_.assign(race.begin(), race.end());
    race_ = first_race_;
  }

  void Learn(const Row& row) {
    const Terms terms = TermsOf(row);
    ++rows_;
    if (scenario_.regression) {
      LearnTarget(terms, row);
    } else {
      LearnClass(terms, row);
    }
    if (scenario_.training.scaling() == Training::RUNNING) moments_.Add(row);
  }

  std::string Compare(const OnlineChange& change) const {
    for (const auto& [key, columns] : weights_) {
      const std::span<const float> all =
          key.first ? std::span(change.blocks.at(key.second))
                    : change.parameters.subspan(key.second * block(), block());
      for (size_t c = 0; c < columns_; ++c) {
        const std::array<double, kValues> own = ChangeOf(columns[c]);
        for (size_t e = 0; e < kValues; ++e) {
          const auto sent = static_cast<double>(all[c * kValues + e]);
          // (A probability near 1 has lost digits, which a large feature makes large.)
          const double lost = e == 5 ? 2e-6 * columns[c].squares : 0;
          if (IsNear(sent, own[e], columns[c].now[e], lost)) continue;
          return (key.first ? "embedding row " : "feature ") + std::to_string(key.second) +
                 ", column " + std::to_string(c) + ", value " + std::to_string(e) +
                 ": changed by " + std::to_string(sent) + " instead of " + std::to_string(own[e]);
        }
      }
    }
    const auto race = change.parameters.subspan(blocks_before_race_ * block());
    const double kept = std::pow(kForgets, static_cast<double>(rows_));
    const double forgotten = (1 - std::pow(kept, workers_)) / workers_;
    for (size_t i = 0; i < racers() + counts(); ++i) {
      const double own = race_[i] - first_race_[i] * kept - first_race_[i] * forgotten;
      if (IsNear(static_cast<double>(race[i]), own, race_[i])) continue;
      return "number " + std::to_string(i) + " of the race: changed by " + std::to_string(race[i]) +
             " instead of " + std::to_string(own);
    }
    return "";
  }

 private:
  size_t block() const { return columns_ * kValues; }
  static size_t racers() { return kRates.size() + 1; }
  size_t counts() const { return scenario_.regression ? 1 : scenario_.classes; }

  // Floats of seven digits, of which a batch of rows loses some.
  static bool IsNear(double sent, double own, double value, double lost = 0) {
    return std::abs(sent - own) <= 2e-3 * std::abs(own) + 2e-5 * (1 + std::abs(value)) + lost;
  }

  void Take(const Key& key, std::span<const float> values) {
    std::vector<Weight>& columns = weights_[key];
    columns.resize(columns_);
    for (size_t c = 0; c < columns_; ++c) {
      for (size_t e = 0; e < kValues; ++e) {
        columns[c].first[e] = static_cast<double>(values[c * kValues + e]);
      }
      columns[c].now = columns[c].first;
    }
  }

  // Scaled by the rows before it; what is 0 is no feature. The bias is the last.
  Terms TermsOf(const Row& row) const {
    Terms terms;
    const auto add = [&](bool is_row, uint64_t number, double x) {
      if (x != 0) terms.emplace_back(Key(is_row, number), std::clamp(x, -1e6, 1e6));
    };
    for (size_t i = 0; i < row.numeric.size(); ++i) {
      const double value = row.numeric[i];
      if (std::isnan(value)) continue;
      if (scenario_.training.scaling() == Training::NONE) {
        add(false, i, value);
        continue;
      }
      if (moments_.count[i] == 0) continue;
      const double deviation = std::sqrt(moments_.m2[i] / moments_.count[i]);
      if (deviation <= 1e-10 * std::abs(moments_.mean[i])) continue;
      add(false, i, std::clamp((value - moments_.mean[i]) / deviation, -5.0, 5.0));
    }
    for (size_t i = 0; i < row.index.size(); ++i) {
      add(scenario_.wide, row.index[i], static_cast<double>(row.value[i]));
    }
    for (const EmbeddingId id : row.ids) add(true, id, 1);
    add(false, blocks_before_race_ - 1, 1);
    return terms;
  }

  double ScoreOf(size_t e, size_t c, const Terms& terms) const {
    double sum = 0;
    for (const auto& [key, x] : terms) sum += weights_.at(key)[c].now[e] * x;
    return sum;
  }

  static std::vector<double> Softmax(std::vector<double> scores) {
    const double largest = *std::ranges::max_element(scores);
    double sum = 0;
    for (double& score : scores) sum += score = std::exp(score - largest);
    for (double& score : scores) score /= sum;
    return scores;
  }

  // Of all classes; with two the log odds are class 1's.
  std::vector<double> ScoresOf(size_t e, const Terms& terms) const {
    if (scenario_.classes == 2) return {0, ScoreOf(e, 0, terms)};
    std::vector<double> scores;
    for (size_t c = 0; c < columns_; ++c) scores.push_back(ScoreOf(e, c, terms));
    return scores;
  }

  std::vector<double> PriorScores() const {
    std::vector<double> scores;
    double total = 0;
    for (size_t k = 0; k < scenario_.classes; ++k)
      total += std::max(race_[racers() + k], 0.0) + 0.5;
    for (size_t k = 0; k < scenario_.classes; ++k) {
      scores.push_back(std::log((std::max(race_[racers() + k], 0.0) + 0.5) / total));
    }
    if (scores.size() == 2) scores = {0, scores[1] - scores[0]};
    return scores;
  }

  // The racers' parts in the prediction, by exponents that are 0 at most.
  std::array<double, 6> Shares() const {
    std::array<double, 6> shares{};
    const double least = *std::ranges::min_element(std::span(race_).first(racers()));
    double sum = 0;
    for (size_t e = 0; e < shares.size(); ++e) {
      double exponent = least - race_[e];
      if (scenario_.regression) {
        const double rows = std::max(race_[racers()], 0.0);
        const double power = scenario_.training.loss() == Training::ABSOLUTE ? rows : rows / 2;
        const double smallest = std::max({least, 0.0, 1e-30});
        exponent = -power * std::log(std::max(race_[e], smallest) / smallest);
      }
      sum += shares[e] = std::exp(std::max(exponent, -100.0));
    }
    for (double& share : shares) share /= sum;
    return shares;
  }

  double WeightOf(uint32_t label) const {
    const auto& given = scenario_.training.class_weight();
    if (given.empty()) return 1;
    if (!scenario_.balances()) return label == 0 ? 0.5 : label == 1 ? 1.5 : 1;
    double all = 0;
    double own = 0;
    for (size_t k = 0; k < scenario_.classes; ++k) {
      const bool known = k < moments_.class_rows.size();
      const double count = (known ? static_cast<double>(moments_.class_rows[k]) : 0) + 1;
      all += count;
      if (k == label) own = count;
    }
    return std::min(100.0, all / (static_cast<double>(scenario_.classes) * own));
  }

  void LearnClass(const Terms& terms, const Row& row) {
    const double a = WeightOf(row.label);
    const std::array<double, 6> shares = Shares();
    const std::vector<double> prior = PriorScores();
    std::vector<double> together(scenario_.classes);
    std::array<std::vector<double>, 5> scores;
    for (size_t e = 0; e < kRates.size(); ++e) scores[e] = ScoresOf(e, terms);
    for (size_t k = 0; k < together.size(); ++k) {
      together[k] = shares[5] * prior[k];
      for (size_t e = 0; e < kRates.size(); ++e) together[k] += shares[e] * scores[e][k];
    }
    const std::vector<double> all = Softmax(together);
    for (size_t e = 0; e < racers(); ++e) {
      const std::vector<double> own = Softmax(e < kRates.size() ? scores[e] : prior);
      race_[e] = race_[e] * kForgets + a * std::min(9.2, -std::log(own[row.label]));
    }
    for (size_t k = 0; k < scenario_.classes; ++k) race_[racers() + k] *= kForgets;
    race_[racers() + row.label] += a;
    for (size_t c = 0; c < columns_; ++c) {
      const size_t k = scenario_.classes == 2 ? 1 : c;
      Bend(terms, c, a * all[k] * (1 - all[k]));
      for (size_t e = 0; e < kRates.size(); ++e) {
        const double p = Softmax(scores[e])[k];
        const double slope = p - (row.label == k ? 1 : 0);
        const double s = a * ReachOf(e, c, terms);
        const double step = a * slope / (1 + p * (1 - p) * s);
        const double most = (std::abs(scores[e][k]) + 5) / (s / a);
        Move(e, c, terms, std::clamp(step, -most, most));
      }
    }
    if (scenario_.balances()) {
      moments_.class_rows.resize(std::max<size_t>(moments_.class_rows.size(), scenario_.classes));
      ++moments_.class_rows[row.label];
    }
  }

  void LearnTarget(const Terms& terms, const Row& row) {
    TargetMoments& known = moments_.target;
    const auto target = static_cast<double>(row.target);
    if (known.known()) {
      const double z = target - known.mean;
      const double usual = known.mean_error;
      const bool huber = scenario_.training.loss() == Training::HUBER;
      const bool absolute = scenario_.training.loss() == Training::ABSOLUTE;
      const double limit = huber ? scenario_.training.huber_limit() * usual : absolute ? usual : 0;
      const auto loss = [&](double error) {
        const double size = std::abs(error);
        if (absolute) return size;
        return limit > 0 && size > limit ? limit * (2 * size - limit) : size * size;
      };
      const std::array<double, 6> shares = Shares();
      std::array<double, 6> scores{};  // the last racer says the mean
      double together = known.mean;
      for (size_t e = 0; e < kRates.size(); ++e) {
        scores[e] = ScoreOf(e, 0, terms);
        together += shares[e] * scores[e];
      }
      for (size_t e = 0; e < racers(); ++e) {
        race_[e] = race_[e] * kForgets + loss(scores[e] - z);
      }
      race_[racers()] = race_[racers()] * kForgets + 1;
      Bend(terms, 0, 1);
      for (size_t e = 0; e < kRates.size(); ++e) {
        const double s = ReachOf(e, 0, terms);
        double slope = (scores[e] - z) / (absolute && limit > 0 ? std::max(s, 1e-6) : 1 + s);
        if (limit > 0) slope = std::clamp(slope, -limit, limit);
        Move(e, 0, terms, slope);
      }
      known.AddError(static_cast<float>(together - target));
    }
    known.Add(row.target);
  }

  // Counts the row's curvature, and how far it leads other rows with each of its features.
  void Bend(const Terms& terms, size_t c, double bend) {
    for (const auto& [key, x] : terms) {
      Weight& weight = weights_.at(key)[c];
      weight.now[5] += bend * x * x;
      weight.squares += x * x;
    }
    const double of_bias = weights_.at(terms.back().first)[c].now[5] + 0.001;
    for (const auto& [key, x] : terms) {
      for (size_t e = 0; e < kRates.size(); ++e) {
        double moved = 0;
        for (const auto& [other, y] : terms) {
          const Weight& weight = weights_.at(other)[c];
          const double average = (weight.now[5] + 0.001) / of_bias;
          const bool is_number = !other.first && other.second < scenario_.numeric;
          const double common = std::min(y * y, average) * (is_number ? 0.5 : 1);
          moved += RateOf(e, weight) * (other == key ? y * y : common);
        }
        weights_.at(key)[c].way[e] += bend * moved;
      }
    }
  }

  double ReachOf(size_t e, size_t c, const Terms& terms) const {
    double reach = 0;
    for (const auto& [key, x] : terms) reach += RateOf(e, weights_.at(key)[c]) * x * x;
    return reach;
  }

  void Move(size_t e, size_t c, const Terms& terms, double step) {
    for (const auto& [key, x] : terms) {
      Weight& weight = weights_.at(key)[c];
      weight.now[e] -= RateOf(e, weight) * x * step;
    }
  }

  // Beside those of the other workers ("Many workers" of the page).
  std::array<double, kValues> ChangeOf(const Weight& weight) const {
    std::array<double, kValues> change{};
    for (size_t e = 0; e < kRates.size(); ++e) {
      double powers = 0;
      for (uint32_t n = 0; n < workers_; ++n) powers += std::exp(-weight.way[e] * n);
      change[e] = (weight.now[e] - weight.first[e]) * powers / workers_;
    }
    change[5] = weight.now[5] - weight.first[5];
    return change;
  }

  const Scenario& scenario_;
  const uint32_t workers_;
  const size_t columns_;
  const size_t blocks_before_race_;  // the bias is the last of them
  Moments moments_;
  std::map<Key, std::vector<Weight>> weights_;
  std::vector<double> first_race_;
  std::vector<double> race_;  // the loss of each racer, then counts
  size_t rows_ = 0;
};

}  // namespace

std::string DifferenceFromPlainLearner(const OnlineBatch& batch, const OnlineChange& change) {
  PlainLearner learner(batch);
  for (const Row& row : batch.rows) learner.Learn(row);
  return learner.Compare(change);
}

}  // namespace millrace::simulation
