// Learns the probabilities of classes row by row. Internal to models/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "models/online_learner.h"

namespace millrace {

// The loss is the log loss; the racer without features predicts how frequent each class has been.
class OnlineClassifier final : public OnlineLearner {
 public:
  // `class_weights`: empty, or a factor on the rows of each class.
  OnlineClassifier(size_t classes, std::vector<float> class_weights);

  void SetClassWeight(uint32_t label, float weight) override;
  void SetRace(const RaceView& race) override;
  void Test(std::span<const Term> terms, std::span<float> scores) override;
  BatchLoss LossOfRow(const Row& row) const override;
  bool Learn(std::span<const Term> terms, const Row& row, RaceView race) override;
  float PriorScore(size_t column) const override { return prior_share() * prior_[column]; }

 private:
  float WeightOf(uint32_t label) const {
    return class_weights_.empty() ? 1.0f : class_weights_[label];
  }
  void SetPrior(std::span<const float> counts);
  // Where the probabilities of a class are.
  size_t LineOf(size_t label) const { return columns() == 1 ? 1 - label : label; }
  // By the racer in this lane.
  float ProbabilityOf(size_t label, size_t lane) const {
    return probabilities_[LineOf(label) * kLanes + lane];
  }
  void CountRace(uint32_t label, float weight, RaceView& race) const;
  Rates StepsOf(size_t column, float target, float weight, const Rates& reach) const;

  const size_t classes_;
  std::vector<float> class_weights_;
  std::vector<float> prior_;  // columns: scores of the racer without features
  // As scores_ and together_; of one column a second line has the probabilities of class 0.
  std::vector<float> probabilities_;
  std::vector<float> of_all_;
};

}  // namespace millrace
