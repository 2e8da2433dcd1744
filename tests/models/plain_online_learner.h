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
    const std::array<double, 6> shares = Shares();
    std::vector<double> scores = PriorScores();
    for (double& score : scores) score *= shares[5];
    for (size_t e = 0; e < 5; ++e) {
      const std::vector<double> own = ScoresOf(e, features);
      for (size_t k = 0; k < scores.size(); ++k) scores[k] += shares[e] * own[k];
    }
    return Softmax(scores);
  }

  void Learn(const Features& features, uint32_t label) {
    const double a = weights_[label];
    const std::vector<double> together = Test(features);
    std::array<std::vector<double>, 5> scores;
    for (size_t e = 0; e < 5; ++e) scores[e] = ScoresOf(e, features);
    const double forgets = 1 - 1.0 / 2000;
    for (size_t e = 0; e < 5; ++e) {
      losses_[e] = losses_[e] * forgets + a * LossOf(Softmax(scores[e])[label]);
    }
    losses_[5] = losses_[5] * forgets + a * LossOf(Softmax(PriorScores())[label]);
    for (double& count : counts_) count *= forgets;
    counts_[label] += a;

    for (size_t k = FirstColumn(); k < counts_.size(); ++k) {
      const double bend = a * together[k] * (1 - together[k]);
      for (const auto& [feature, x] : features) curvature_[{k, feature}] += bend * x * x;
      for (const auto& [feature, x] : features) {
        for (size_t e = 0; e < 5; ++e) {
          // What another row with the feature moves the score by.
          double moved = RateOf(e, k, feature) * x * x;
          for (const auto& [other, y] : features) {
            if (other != feature) moved += RateOf(e, k, other) * InCommon(k, other, y);
          }
          way_[{e, k, feature}] += bend * moved;
        }
      }
      for (size_t e = 0; e < 5; ++e) {
        double s = 0;
        for (const auto& [feature, x] : features) s += a * RateOf(e, k, feature) * x * x;
        const double p = Softmax(scores[e])[k];
        const double slope = p - (label == k ? 1 : 0);
        double step = a * slope / (1 + p * (1 - p) * s);
        if (a > 0) {  // the score moves by step * s / a
          const double most = (std::abs(scores[e][k]) + 5) / (s / a);
          step = std::clamp(step, -most, most);
        }
        for (const auto& [feature, x] : features) {
          of_rate_[{e, k, feature}] -= RateOf(e, k, feature) * x * step;
        }
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
  // "A" of the page, since the beginning.
  double Way(size_t rate, size_t k, uint32_t feature) const {
    return Find(way_, {rate, k, feature});
  }
  // Two classes: of class 1 only.
  size_t FirstColumn() const { return counts_.size() == 2 ? 1 : 0; }

  std::array<double, 6> Shares() const {
    const double least = *std::ranges::min_element(losses_);
    std::array<double, 6> shares{};
    double sum = 0;
    for (size_t e = 0; e < 6; ++e) sum += shares[e] = std::exp(least - losses_[e]);
    for (double& share : shares) share /= sum;
    return shares;
  }
  static double LossOf(double probability) { return std::min(9.2, -std::log(probability)); }

 private:
  using Key = std::array<size_t, 3>;  // rate, class, feature

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
  std::vector<double> ScoresOf(size_t rate, const Features& features) const {
    std::vector<double> scores(counts_.size());
    for (size_t k = 0; k < scores.size(); ++k) {
      for (const auto& [feature, x] : features) scores[k] += Weight(rate, k, feature) * x;
    }
    return scores;
  }
  double RateOf(size_t e, size_t k, uint32_t feature) const {
    if (e == 0) return 0.02;
    if (e == 1) return 0.1;
    const double root = std::sqrt(Curvature(k, feature) + 0.001);
    return (e == 2 ? 0.06 : e == 3 ? 0.25 : 1.0) / root;
  }

  // Of the square of a row's feature, what an average row has; of a numeric column half of it.
  double InCommon(size_t k, uint32_t feature, double x) const {
    const double average = (Curvature(k, feature) + 0.001) / (Curvature(k, bias_) + 0.001);
    return std::min(x * x, average) / (feature < columns_.size() ? 2 : 1);
  }

  uint32_t bias_;
  std::vector<double> weights_;
  std::vector<double> counts_;
  std::array<double, 6> losses_{};
  std::map<Key, double> of_rate_;
  std::map<Key, double> way_;
  std::map<std::pair<size_t, uint32_t>, double> curvature_;
  std::vector<std::vector<double>> columns_;  // the values so far
};

}  // namespace millrace
