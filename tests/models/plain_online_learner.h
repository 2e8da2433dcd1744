// The learner of docs/learning.md once more, in doubles: one map of weights for each rate and
// column, and nothing that is fast.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "models/row.h"

namespace millrace {

class PlainOnlineLearner {
 public:
  using Features = std::map<uint32_t, double>;

  static constexpr std::array<double, 7> kRates = {0.02, 0.12, 0.7, 0.015, 0.06, 0.25, 1};
  static constexpr size_t kConstant = 3;
  // The racers after the rates.
  static constexpr size_t kNewton = kRates.size();
  static constexpr size_t kPrior = kNewton + 1;
  static constexpr size_t kRacers = kPrior + 1;

  PlainOnlineLearner(size_t numeric, uint32_t bias, size_t classes, std::vector<double> weights)
      : bias_(bias), weights_(std::move(weights)), counts_(classes), columns_(numeric) {
    weights_.resize(classes, 1.0);
  }

  // Of rows of this class, from here on.
  void SetWeight(uint32_t label, double weight) { weights_[label] = weight; }

  // By the rows so far; values that are missing, or equal so far, are no features.
  Features FeaturesOf(const Row& row) const {
    Features features = {{bias_, 1.0}};
    for (uint32_t i = 0; i < columns_.size(); ++i) {
      const std::vector<double>& seen = columns_[i];
      if (std::isnan(row.numeric[i]) || seen.empty()) continue;
      double mean = 0;
      for (const double value : seen) mean += value / static_cast<double>(seen.size());
      double variance = 0;
      for (const double value : seen) {
        variance += (value - mean) * (value - mean) / static_cast<double>(seen.size());
      }
      if (variance < 1e-20) continue;
      features[i] = std::clamp((row.numeric[i] - mean) / std::sqrt(variance), -5.0, 5.0);
    }
    for (size_t i = 0; i < row.index.size(); ++i) {
      features[row.index[i]] = static_cast<double>(row.value[i]);
    }
    return features;
  }

  // The probabilities of the racers together.
  std::vector<double> Test(const Features& features) const {
    const std::array<double, kRacers> shares = Shares();
    std::vector<double> scores = PriorScores();
    for (double& score : scores) score *= shares[kPrior];
    for (size_t e = 0; e < kPrior; ++e) {
      if (e == kNewton && !HasNewton()) continue;
      const std::vector<double> own = e == kNewton ? NewtonScores(features) : ScoresOf(e, features);
      for (size_t k = 0; k < scores.size(); ++k) scores[k] += shares[e] * own[k];
    }
    return Softmax(scores);
  }

  void Learn(const Features& features, uint32_t label) {
    const double a = weights_[label];
    const std::vector<double> together = Test(features);
    std::array<std::vector<double>, kRates.size()> scores;
    for (size_t e = 0; e < kRates.size(); ++e) scores[e] = ScoresOf(e, features);
    const double forgets = 1 - 1.0 / 2000;
    for (size_t e = 0; e < kRates.size(); ++e) {
      losses_[e] = losses_[e] * forgets + a * LossOf(Softmax(scores[e])[label]);
    }
    losses_[kPrior] = losses_[kPrior] * forgets + a * LossOf(Softmax(PriorScores())[label]);
    if (HasNewton()) {
      const std::vector<double> newton = NewtonScores(features);
      const std::vector<double> own = Softmax(newton);
      losses_[kNewton] = losses_[kNewton] * forgets + a * LossOf(own[label]);
      for (size_t k = FirstColumn(); k < counts_.size(); ++k) {
        LearnTogether(k, features, a * own[k] * (1 - own[k]), a * ((label == k) - own[k]),
                      newton[k]);
      }
    }
    for (double& count : counts_) count *= forgets;
    counts_[label] += a;

    Learnt& learnt = learnt_.emplace_back(Learnt{.features = features});
    double squares = 0;
    for (const auto& [feature, x] : features) squares += x * x;
    learnt.most_constant = 6 / squares;
    for (size_t k = FirstColumn(); k < counts_.size(); ++k) {
      const double bend = a * together[k] * (1 - together[k]);
      learnt.bend[k] = bend;
      for (const auto& [feature, x] : features) curvature_[{k, feature}] += bend * x * x;
      for (size_t e = 0; e < kRates.size(); ++e) {
        const auto rate = [&](uint32_t feature) { return RateOf(e, k, feature, learnt); };
        double s = 0;
        for (const auto& [feature, x] : features) s += a * rate(feature) * x * x;
        const double p = Softmax(scores[e])[k];
        const double slope = p - (label == k ? 1 : 0);
        double step = a * slope / (1 + p * (1 - p) * s);
        if (a > 0) {  // the score moves by step * s / a
          const double most = (std::abs(scores[e][k]) + 5) / (s / a);
          step = std::clamp(step, -most, most);
        }
        for (const auto& [feature, x] : features)
          of_rate_[{e, k, feature}] -= rate(feature) * x * step;
        learnt.step[{e, k}] = step;
      }
    }
  }

  // Counts the row's numbers for the scaling of later ones.
  void Count(const Row& row) {
    for (size_t i = 0; i < columns_.size(); ++i) {
      if (!std::isnan(row.numeric[i])) columns_[i].push_back(row.numeric[i]);
    }
  }

  double Weight(size_t rate, size_t k, uint32_t feature) const {
    return Find(of_rate_, {rate, k, feature});
  }
  double Curvature(size_t k, uint32_t feature) const { return Find(curvature_, {k, feature}); }
  // What one of so many workers sends of what has changed since `first`; no other has changed.
  std::map<std::array<size_t, 3>, double> DampedSince(const PlainOnlineLearner& first,
                                                      double workers) const {
    std::map<Key, double> full;
    for (const auto& [key, weight] : of_rate_) full[key] = weight - Find(first.of_rate_, key);
    std::map<Key, double> left = full;
    const std::array<double, 2> same = SamenessSince(first);
    for (size_t i = first.learnt_.size(); i < learnt_.size(); ++i) {
      for (const auto& [at, step] : learnt_[i].step) {
        LetSee(learnt_[i], at[0], at[1], step, first, workers, same[at[0] < kConstant ? 0 : 1],
               left);
      }
    }
    std::map<Key, double> sent;
    for (const auto& [key, change] : full) {
      sent[key] = change / workers + left[key] * (workers - 1) / workers;
    }
    return sent;
  }
  // Two classes: of class 1 only.
  size_t FirstColumn() const { return counts_.size() == 2 ? 1 : 0; }

  // Numeric columns that are few enough for a racer that knows them together.
  bool HasNewton() const {
    const size_t n = columns_.size() + 1;
    const size_t of_classes = counts_.size() == 2 ? 1 : counts_.size();
    return n > 1 && of_classes * (n * (n + 1) / 2 + n) <= 4096;
  }
  // Its weights: (A + ridge)^-1 b, by Gauss's elimination; the bias is the last.
  std::vector<double> NewtonWeights(size_t k) const {
    const size_t n = columns_.size() + 1;
    const auto found = together_.find(k);
    if (found == together_.end()) return std::vector<double>(n);
    auto [a, b] = found->second;
    for (size_t i = 0; i < n; ++i) a[i][i] += 1;
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = i + 1; j < n; ++j) {
        const double by = a[j][i] / a[i][i];
        for (size_t l = i; l < n; ++l) a[j][l] -= by * a[i][l];
        b[j] -= by * b[i];
      }
    }
    for (size_t i = n; i-- > 0;) {
      for (size_t l = i + 1; l < n; ++l) b[i] -= a[i][l] * b[l];
      b[i] /= a[i][i];
    }
    return b;
  }

  std::array<double, kRacers> Shares() const {
    double least = losses_[0];
    for (size_t e = 0; e < kRacers; ++e) {
      if (e != kNewton || HasNewton()) least = std::min(least, losses_[e]);
    }
    std::array<double, kRacers> shares{};
    double sum = 0;
    for (size_t e = 0; e < kRacers; ++e) {
      if (e == kNewton && !HasNewton()) continue;
      sum += shares[e] = std::exp(least - losses_[e]);
    }
    for (double& share : shares) share /= sum;
    return shares;
  }
  static double LossOf(double probability) { return std::min(9.2, -std::log(probability)); }

 private:
  using Key = std::array<size_t, 3>;  // rate, class, feature

  struct Learnt {
    Features features;
    double most_constant = 0;  // a constant rate
    std::map<size_t, double> bend{};
    std::map<std::array<size_t, 2>, double> step{};
  };

  template <typename Map>
  static double Find(const Map& map, const typename Map::key_type& key) {
    const auto found = map.find(key);
    return found == map.end() ? 0 : found->second;
  }
  static std::vector<double> Softmax(std::vector<double> scores) {
    const double largest = *std::ranges::max_element(scores);
    double sum = 0;
    for (double& score : scores) sum += score = std::exp(score - largest);
    for (double& score : scores) score /= sum;
    return scores;
  }
  std::vector<double> PriorScores() const {
    double total = 0;
    for (const double count : counts_) total += count + 0.5;
    std::vector<double> scores;
    for (const double count : counts_) scores.push_back(std::log((count + 0.5) / total));
    if (scores.size() == 2) scores = {0, scores[1] - scores[0]};
    return scores;
  }
  // The slowest of each kind begin at the class frequencies.
  std::vector<double> ScoresOf(size_t rate, const Features& features) const {
    std::vector<double> scores(counts_.size());
    if (rate == 0 || rate == kConstant) scores = PriorScores();
    for (size_t k = 0; k < scores.size(); ++k) {
      for (const auto& [feature, x] : features) scores[k] += Weight(rate, k, feature) * x;
    }
    return scores;
  }
  std::vector<double> NumbersOf(const Features& features) const {
    std::vector<double> x(columns_.size() + 1);
    for (const auto& [feature, value] : features) {
      if (feature < columns_.size()) x[feature] = value;
    }
    x.back() = 1;
    return x;
  }
  std::vector<double> NewtonScores(const Features& features) const {
    const std::vector<double> x = NumbersOf(features);
    std::vector<double> scores(counts_.size());
    for (size_t k = FirstColumn(); k < scores.size(); ++k) {
      const std::vector<double> weights = NewtonWeights(k);
      for (size_t i = 0; i < x.size(); ++i) scores[k] += weights[i] * x[i];
    }
    return scores;
  }
  void LearnTogether(size_t k, const Features& features, double bend, double pull, double score) {
    const std::vector<double> x = NumbersOf(features);
    auto& [a, b] = together_[k];
    a.resize(x.size(), std::vector<double>(x.size()));
    b.resize(x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      for (size_t j = 0; j < x.size(); ++j) a[i][j] += bend * x[i] * x[j];
      b[i] += x[i] * (bend * score + pull);
    }
  }

  double RateOf(size_t e, size_t k, uint32_t feature, const Learnt& row) const {
    if (e < kConstant) return std::min(kRates[e], row.most_constant);
    return kRates[e] / std::sqrt(Curvature(k, feature) + 0.001);
  }

  // The part of a feature's x that the rows of others have, too.
  double Shared(size_t k, uint32_t feature, const PlainOnlineLearner& first) const {
    if (feature < columns_.size()) return 1;
    const auto added = [&](uint32_t of) { return Curvature(k, of) - first.Curvature(k, of); };
    const double usual = (Curvature(k, feature) + 0.001) / (Curvature(k, bias_) + 0.001);
    const double own = added(bias_) > 0 ? added(feature) / added(bias_) : 0;
    return own > usual ? std::sqrt(usual / own) : 1;
  }
  // Of rows one after the other, by constant and by decaying rates, and by the first column.
  std::array<double, 2> SamenessSince(const PlainOnlineLearner& first) const {
    const size_t k = FirstColumn();
    std::array<double, 2> sum = {0.05, 0.05};
    double pairs = 0.1;
    for (size_t i = first.learnt_.size() + 1; i < learnt_.size(); ++i, ++pairs) {
      for (const size_t decaying : {0, 1}) {
        const auto product = [&](const Features& a, const Features& b) {
          double of_both = 0;
          for (const auto& [feature, x] : a) {
            const auto found = b.find(feature);
            if (found == b.end()) continue;
            const double shared = Shared(k, feature, first);
            const double root = std::sqrt(Curvature(k, feature) + 0.001);
            of_both += x * found->second * shared * shared / (decaying == 1 ? root : 1);
          }
          return of_both;
        };
        const Features& one = learnt_[i - 1].features;
        const Features& other = learnt_[i].features;
        const double both = product(one, other);
        sum[decaying] += both * both / product(one, one) / product(other, other);
      }
    }
    return {sum[0] / pairs, sum[1] / pairs};
  }
  void LetSee(const Learnt& row, size_t e, size_t k, double step, const PlainOnlineLearner& first,
              double workers, double same, std::map<Key, double>& left) const {
    const double times = workers / 2 * row.bend.at(k);
    const double together = std::min({1.0, 0.5 + 2 / workers, 16 / workers});
    double score = 0;
    double itself = 0;  // what the row has done to it
    double reach = 0;
    double both = 0;
    for (const auto& [feature, x] : row.features) {
      const double shared = x * Shared(k, feature, first);
      const double rate = RateOf(e, k, feature, row);
      score += shared * left[{e, k, feature}];
      itself -= shared * rate * x * step;
      both += shared * x * (e < kConstant ? 1 : 1 / std::sqrt(Curvature(k, feature) + 0.001));
      reach += times * rate * shared * shared;
    }
    itself = std::clamp(itself, std::min(0.0, score), std::max(0.0, score));
    const double unseen = std::max(std::exp(-same * reach), 1 / (workers - 1));
    for (const auto& [feature, x] : row.features) {
      const double shared = x * Shared(k, feature, first);
      const double rate = RateOf(e, k, feature, row);
      double& change = left[{e, k, feature}];
      change -= rate * shared * times * together * (score - itself) / (1 + together * reach);
      const double root = e < kConstant ? 1 : std::sqrt(Curvature(k, feature) + 0.001);
      change -= shared / root * itself / both * (1 - unseen);
      const double of_batch = Curvature(k, feature) - first.Curvature(k, feature);
      const double beside = of_batch > 0 ? 1 - std::min(1.0, row.bend.at(k) * x * x / of_batch) : 0;
      change /= 1 + times * rate *
                        ((1 - together) * shared * shared + beside * (x * x - shared * shared));
    }
  }

  uint32_t bias_;
  std::vector<double> weights_;
  std::vector<double> counts_;
  std::array<double, kRacers> losses_{};
  // Of each class: A and b.
  std::map<size_t, std::pair<std::vector<std::vector<double>>, std::vector<double>>> together_;
  std::map<Key, double> of_rate_;
  std::vector<Learnt> learnt_;
  std::map<std::pair<size_t, uint32_t>, double> curvature_;
  std::vector<std::vector<double>> columns_;  // the values so far
};

}  // namespace millrace
