#include "tests/simulation/plain_learner.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <optional>
#include <utility>

#include "tests/simulation/plain_newton.h"

namespace millrace::simulation {
namespace {

constexpr std::array<double, 7> kRates = {0.02, 0.12, 0.7, 0.015, 0.06, 0.25, 1};
constexpr size_t kConstant = 3;
// What a weight is: a number for each rate, and the curvature.
constexpr size_t kCurvature = kRates.size();
constexpr size_t kValues = kCurvature + 1;
static_assert(kValues == kFloatsOfWeight);
constexpr double kForgets = 1 - 1.0 / 2000;
// The racers after the rates: what knows the numeric columns together, and what knows no feature.
constexpr size_t kNewton = kRates.size();
constexpr size_t kPrior = kNewton + 1;
constexpr size_t kRacers = kPrior + 1;
static_assert(kRacers == kRaceLosses);

// A key of the parameters, or an embedding row.
using Key = std::pair<bool, uint64_t>;
using Terms = std::vector<std::pair<Key, double>>;

// A weight as it was before the batch and is now; and what is left of its change when the rows of
// the other workers have seen it.
struct Weight {
  std::array<double, kValues> first{};
  std::array<double, kValues> now{};
  std::array<double, kRates.size()> left{};
  std::array<double, kRates.size()> lost{};  // how far off one in floats may be
  double squares = 0;                        // of the feature, in the batch's rows
};

// A row that was learnt from, and what it has done to each column: its curvature, and what its
// terms were multiplied by, times the rate.
struct Lesson {
  Terms terms;
  double most_constant = 0;  // a constant rate
  std::vector<double> bends;
  double lost = 0;  // how far off a curvature in floats may be
  std::vector<std::array<double, kRates.size()>> steps;
};

double RootOf(double curvature) { return std::sqrt(std::max(curvature, 0.0) + 0.001); }

// A rate of a weight: constant ones are the same for all weights of a row.
double RateOf(size_t e, const Weight& weight, const Lesson& lesson) {
  if (e < kConstant) return std::min(kRates[e], lesson.most_constant);
  return kRates[e] / RootOf(weight.now[kCurvature]);
}

size_t RoundUp(size_t count, size_t to) { return count % to == 0 ? count : (count / to + 1) * to; }

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
    const auto race = batch.parameters.subspan(race_begin(), kRacers + counts());
    first_race_.assign(race.begin(), race.end());
    race_ = first_race_;
    const double ridge = scenario_.regression ? 0.01 : 1;
    if (newton_sums() == 0) return;
    newton_.emplace(scenario_.numeric, columns_, ridge,
                    batch.parameters.subspan(newton_begin(), newton_sums()));
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

  // To be called after the last row: lets the rows of the other workers, which are as these, see
  // what these have changed ("Many workers" of the page).
  void Damp() {
    for (auto& [key, columns] : weights_) {
      for (Weight& weight : columns) {
        for (size_t e = 0; e < kRates.size(); ++e) {
          weight.left[e] = weight.now[e] - weight.first[e];
        }
      }
    }
    if (workers_ == 1) return;
    const double of_constant = Sameness(false);
    const double of_decaying = Sameness(true);
    for (const Lesson& lesson : lessons_) {
      for (size_t c = 0; c < columns_; ++c) {
        for (size_t e = 0; e < kRates.size(); ++e) {
          LetSee(lesson, c, e, e < kConstant ? of_constant : of_decaying);
        }
      }
    }
  }

  std::string Compare(const OnlineChange& change) const {
    const size_t end = newton_begin() + RoundUp(newton_sums(), block());
    if (change.parameters.size() != end) {
      return std::to_string(change.parameters.size()) + " parameters instead of " +
             std::to_string(end);
    }
    std::string of_weights = CompareWeights(change);
    if (!of_weights.empty()) return of_weights;
    std::string of_race = CompareRace(change.parameters.subspan(race_begin()));
    if (!of_race.empty() || !newton_) return of_race;
    std::string of_sums = newton_->Compare(change.parameters.subspan(newton_begin()));
    if (!of_sums.empty()) return of_sums;
    const auto is_set = [](float padding) { return padding != 0; };
    if (!std::ranges::any_of(change.parameters.subspan(newton_begin() + newton_sums()), is_set)) {
      return "";
    }
    return "what fills the sums of the numeric columns up has changed";
  }

 private:
  size_t block() const { return columns_ * kValues; }
  size_t counts() const { return scenario_.regression ? 1 : scenario_.classes; }
  size_t race_begin() const { return blocks_before_race_ * block(); }
  size_t newton_begin() const { return race_begin() + RoundUp(kRacers + counts(), block()); }
  size_t newton_sums() const { return PlainNewton::SumsFor(scenario_.numeric, columns_); }
  bool races(size_t racer) const { return racer != kNewton || newton_.has_value(); }

  std::string CompareWeights(const OnlineChange& change) const {
    for (const auto& [key, columns] : weights_) {
      const std::span<const float> all =
          key.first ? std::span(change.blocks.at(key.second))
                    : change.parameters.subspan(key.second * block(), block());
      for (size_t c = 0; c < columns_; ++c) {
        const std::array<double, kValues> own = ChangeOf(columns[c]);
        for (size_t e = 0; e < kValues; ++e) {
          const auto sent = static_cast<double>(all[c * kValues + e]);
          // (A probability near 1 has lost digits, which a large feature makes large.)
          const double lost = e == kCurvature ? 2e-6 * columns[c].squares : columns[c].lost[e];
          if (IsNear(sent, own[e], columns[c].now[e], lost)) continue;
          return (key.first ? "embedding row " : "feature ") + std::to_string(key.second) +
                 ", column " + std::to_string(c) + ", value " + std::to_string(e) +
                 ": changed by " + std::to_string(sent) + " instead of " + std::to_string(own[e]);
        }
      }
    }
    return "";
  }

  // `race`: what has been added to it, and whatever follows.
  std::string CompareRace(std::span<const float> race) const {
    const double kept = std::pow(kForgets, static_cast<double>(rows_));
    const double forgotten = (1 - std::pow(kept, workers_)) / workers_;
    for (size_t i = 0; i < kRacers + counts(); ++i) {
      const double own = race_[i] - first_race_[i] * kept - first_race_[i] * forgotten;
      if (IsNear(static_cast<double>(race[i]), own, race_[i])) continue;
      return "number " + std::to_string(i) + " of the race: changed by " + std::to_string(race[i]) +
             " instead of " + std::to_string(own);
    }
    for (size_t i = kRacers + counts(); i < newton_begin() - race_begin(); ++i) {
      if (race[i] != 0) return "what fills the race up has changed";
    }
    return "";
  }

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

  // The row of the racer that knows the numeric columns only: what is missing is 0.
  std::vector<double> NumbersOf(const Terms& terms) const {
    std::vector<double> numbers(scenario_.numeric + 1);
    for (const auto& [key, x] : terms) {
      if (IsNumber(key)) numbers[key.second] = x;
    }
    numbers.back() = 1;
    return numbers;
  }

  bool IsNumber(const Key& key) const { return !key.first && key.second < scenario_.numeric; }

  // By a rate, or by the numeric columns; 0 where there is nobody who knows them.
  double RacerScore(size_t racer, size_t c, const Terms& terms) const {
    if (racer != kNewton) return ScoreOf(racer, c, terms);
    return newton_ ? newton_->ScoreOf(c, NumbersOf(terms)) : 0;
  }

  // Of all classes; with two the log odds are class 1's.
  std::vector<double> ScoresOf(size_t racer, const Terms& terms) const {
    if (racer == kPrior) return PriorScores();
    std::vector<double> scores(scenario_.classes);
    // (The slowest rates.)
    if (racer == 0 || racer == kConstant) scores = PriorScores();
    for (size_t c = 0; c < columns_; ++c) {
      scores[scenario_.classes == 2 ? 1 : c] += RacerScore(racer, c, terms);
    }
    return scores;
  }

  std::vector<double> PriorScores() const {
    std::vector<double> scores;
    double total = 0;
    for (size_t k = 0; k < scenario_.classes; ++k) total += std::max(race_[kRacers + k], 0.0) + 0.5;
    for (size_t k = 0; k < scenario_.classes; ++k) {
      scores.push_back(std::log((std::max(race_[kRacers + k], 0.0) + 0.5) / total));
    }
    if (scores.size() == 2) scores = {0, scores[1] - scores[0]};
    return scores;
  }

  // The racers' parts in the prediction, by exponents that are 0 at most.
  std::array<double, kRacers> Shares() const {
    std::array<double, kRacers> shares{};
    double least = race_[0];
    for (size_t e = 0; e < kRacers; ++e) {
      if (races(e)) least = std::min(least, race_[e]);
    }
    double sum = 0;
    for (size_t e = 0; e < kRacers; ++e) {
      if (!races(e)) continue;
      double exponent = least - race_[e];
      if (scenario_.regression) {
        const double rows = std::max(race_[kRacers], 0.0);
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
    const std::array<double, kRacers> shares = Shares();
    std::vector<double> together(scenario_.classes);
    std::array<std::vector<double>, kRacers> scores;
    for (size_t e = 0; e < kRacers; ++e) {
      scores[e] = ScoresOf(e, terms);
      for (size_t k = 0; k < together.size(); ++k) together[k] += shares[e] * scores[e][k];
    }
    const std::vector<double> all = Softmax(together);
    for (size_t e = 0; e < kRacers; ++e) {
      if (!races(e)) continue;
      race_[e] = race_[e] * kForgets + a * std::min(9.2, -std::log(Softmax(scores[e])[row.label]));
    }
    for (size_t k = 0; k < scenario_.classes; ++k) race_[kRacers + k] *= kForgets;
    race_[kRacers + row.label] += a;
    Begin(terms);
    lessons_.back().lost = 1e-7 * a;  // of a probability near 1
    for (size_t c = 0; c < columns_; ++c) {
      const size_t k = scenario_.classes == 2 ? 1 : c;
      const double is_labels = row.label == k ? 1 : 0;
      Bend(c, a * all[k] * (1 - all[k]));
      for (size_t e = 0; e < kRates.size(); ++e) {
        const double p = Softmax(scores[e])[k];
        const double s = a * ReachOf(e, c);
        const double step = a * (p - is_labels) / (1 + p * (1 - p) * s);
        const double most = (std::abs(scores[e][k]) + 5) / (s / a);
        Move(e, c, std::clamp(step, -most, most));
      }
      if (!newton_) continue;
      const std::vector<double> numbers = NumbersOf(terms);
      const double p = Softmax(scores[kNewton])[k];
      const double lost = 1e-6 * a * (1 + newton_->SizeOf(c, numbers));
      newton_->Learn(c, numbers, {a * p * (1 - p), lost}, {a * (is_labels - p), lost});
    }
    if (scenario_.balances()) {
      moments_.class_rows.resize(std::max<size_t>(moments_.class_rows.size(), scenario_.classes));
      ++moments_.class_rows[row.label];
    }
  }

  // Beyond which errors count linearly; 0: they do not.
  double Limit() const {
    const double usual = moments_.target.mean_error;
    const Training& training = scenario_.training;
    if (training.loss() == Training::HUBER) return training.huber_limit() * usual;
    return training.loss() == Training::ABSOLUTE ? usual : 0;
  }

  // In units of the targets' deviation, the row's own included.
  double LossOf(double error, float target) const {
    TargetMoments with = moments_.target;
    with.Add(target);
    const double unit = with.deviation();
    const double size = std::min(std::abs(error) / unit, 1e6);
    const double limit = std::min(Limit() / unit, 1e6);
    if (scenario_.training.loss() == Training::ABSOLUTE) return size;
    return limit > 0 && size > limit ? limit * (2 * size - limit) : size * size;
  }

  void LearnTarget(const Terms& terms, const Row& row) {
    TargetMoments& known = moments_.target;
    const auto target = static_cast<double>(row.target);
    if (known.known()) {
      const double away = target - known.mean;
      const std::array<double, kRacers> shares = Shares();
      std::array<double, kRacers> scores{};  // the last racer says the mean
      double together = known.mean;
      for (size_t e = 0; e < kPrior; ++e) {
        scores[e] = RacerScore(e, 0, terms);
        together += shares[e] * scores[e];
      }
      for (size_t e = 0; e < kRacers; ++e) {
        if (races(e)) race_[e] = race_[e] * kForgets + LossOf(scores[e] - away, row.target);
      }
      race_[kRacers] = race_[kRacers] * kForgets + 1;
      Begin(terms);
      LearnErrors(scores, away);
      known.AddOutcome(known.OutcomeOf(together, row.target));
    }
    known.Add(row.target);
  }

  // Of each racer; the target is so far away from the mean.
  void LearnErrors(const std::array<double, kRacers>& scores, double away) {
    const double limit = Limit();
    const bool absolute = scenario_.training.loss() == Training::ABSOLUTE && limit > 0;
    Bend(0, 1);
    for (size_t e = 0; e < kRates.size(); ++e) {
      const double s = ReachOf(e, 0);
      double slope = (scores[e] - away) / (absolute ? std::max(s, 1e-6) : 1 + s);
      if (limit > 0) slope = std::clamp(slope, -limit, limit);
      Move(e, 0, slope);
    }
    if (!newton_) return;
    const std::vector<double> numbers = NumbersOf(lessons_.back().terms);
    double pull = away - scores[kNewton];
    if (limit > 0) pull = std::clamp(pull, -limit, limit);
    const double lost = 1e-6 * (newton_->SizeOf(0, numbers) + std::abs(away));
    newton_->Learn(0, numbers, {1, 0}, {pull, lost});
  }

  // From here on a row with these terms is learnt from.
  void Begin(const Terms& terms) {
    Lesson& lesson = lessons_.emplace_back();
    lesson.terms = terms;
    lesson.bends.resize(columns_);
    lesson.steps.resize(columns_);
    double squares = 0;
    for (const auto& [key, x] : terms) squares += x * x;
    lesson.most_constant = 6 / squares;
  }

  // Counts the row's curvature.
  void Bend(size_t c, double bend) {
    Lesson& lesson = lessons_.back();
    lesson.bends[c] = bend;
    for (const auto& [key, x] : lesson.terms) {
      Weight& weight = weights_.at(key)[c];
      weight.now[kCurvature] += bend * x * x;
      weight.squares += x * x;
    }
  }

  double ReachOf(size_t e, size_t c) const {
    const Lesson& lesson = lessons_.back();
    double reach = 0;
    for (const auto& [key, x] : lesson.terms) {
      reach += RateOf(e, weights_.at(key)[c], lesson) * x * x;
    }
    return reach;
  }

  void Move(size_t e, size_t c, double step) {
    Lesson& lesson = lessons_.back();
    lesson.steps[c][e] = step;
    for (const auto& [key, x] : lesson.terms) {
      Weight& weight = weights_.at(key)[c];
      weight.now[e] -= RateOf(e, weight, lesson) * x * step;
    }
  }

  // Of a feature's x the part that the rows of others have, too: of what is there or not less, if
  // this batch has it more often than the rows before it.
  double SharedPart(const Key& key, size_t c) const {
    if (IsNumber(key)) return 1;
    const Weight& weight = weights_.at(key)[c];
    const Weight& bias = weights_.at(Key(false, blocks_before_race_ - 1))[c];
    const auto rows = [](const Weight& of) { return std::max(of.now[kCurvature], 0.0) + 0.001; };
    const double usual = rows(weight) / rows(bias);
    const double of_batch = bias.now[kCurvature] - bias.first[kCurvature];
    if (of_batch <= 0) return 1;
    const double own = (weight.now[kCurvature] - weight.first[kCurvature]) / of_batch;
    return own > usual ? std::sqrt(usual / own) : 1;
  }

  // What two rows have in common, by the metric of the rates.
  double ProductOf(const Terms& one, const Terms& other, bool decaying) const {
    std::map<Key, double> numbers;
    for (const auto& [key, x] : other) numbers[key] += x * SharedPart(key, 0);
    double product = 0;
    for (const auto& [key, x] : one) {
      const auto found = numbers.find(key);
      if (found == numbers.end()) continue;
      const double root = decaying ? RootOf(weights_.at(key)[0].now[kCurvature]) : 1;
      product += x * SharedPart(key, 0) * found->second / root;
    }
    return product;
  }

  // (A feature that a row names twice is two.)
  double SquaresOf(const Terms& terms, bool decaying) const {
    double squares = 0;
    for (const auto& term : terms) squares += ProductOf({term}, {term}, decaying);
    return squares;
  }

  // How much of what a row does another one sees: by the pairs of the batch, and a tenth of one
  // that sees half.
  double Sameness(bool decaying) const {
    double sum = 0.05;
    double pairs = 0.1;
    for (size_t i = 1; i < lessons_.size(); ++i, ++pairs) {
      const Terms& one = lessons_[i - 1].terms;
      const Terms& other = lessons_[i].terms;
      if (one.empty() || other.empty()) continue;
      const double both = ProductOf(one, other, decaying);
      const double squares = SquaresOf(one, decaying) * SquaresOf(other, decaying);
      sum += std::min(1.0, both * both / squares);
    }
    return sum / pairs;
  }

  // So many rows as this one as half of the workers have take back what the changes do to their
  // score, and what this row has done itself as far as rows are the same. Of the rest
  // they see each change alone: what is not shared, as far as other rows of the batch have it.
  void LetSee(const Lesson& lesson, size_t c, size_t e, double same) {
    const double times = workers_ / 2.0 * lesson.bends[c];
    const double lost = workers_ / 2.0 * lesson.lost;
    const double together = std::min({1.0, 0.5 + 2.0 / workers_, 16.0 / workers_});
    double score = 0;
    double itself = 0;
    double size = 0;  // of the score, if all its parts had the same sign
    double reach = 0;
    double both = 0;
    for (const auto& [key, x] : lesson.terms) {
      const Weight& weight = weights_.at(key)[c];
      const double rate = RateOf(e, weight, lesson);
      const double shared = x * SharedPart(key, c);
      score += shared * weight.left[e];
      size += std::abs(shared * weight.left[e]);
      itself -= lesson.steps[c][e] * rate * x * shared;
      reach += times * rate * shared * shared;
      both += rate * x * shared;
    }
    itself = std::clamp(itself, std::min(0.0, score), std::max(0.0, score));
    const double unseen = std::max(std::exp(-same * reach), 1 / (workers_ - 1.0));
    const double move = times * together * (score - itself) / (1 + together * reach) +
                        (both > 0 ? itself * (1 - unseen) / both : 0);
    for (const auto& [key, x] : lesson.terms) {
      Weight& weight = weights_.at(key)[c];
      const double rate = RateOf(e, weight, lesson);
      const double shared = x * SharedPart(key, c);
      const double of_batch = weight.now[kCurvature] - weight.first[kCurvature];
      const double of_row = std::min(lesson.bends[c] * x * x, of_batch);
      const double beside = of_batch > 0 ? 1 - of_row / of_batch : 0;
      const double alone = (1 - together) * shared * shared + beside * (x * x - shared * shared);
      weight.left[e] -= rate * shared * move;
      weight.left[e] /= 1 + times * rate * alone;
      weight.lost[e] += lost * rate * (std::abs(shared * score) + alone * std::abs(weight.left[e]));
      weight.lost[e] += 1e-6 * rate * std::abs(shared) * size * (times + 1 / both);
    }
  }

  // What is sent: the mean of the changes of workers that would learn one after the other.
  std::array<double, kValues> ChangeOf(const Weight& weight) const {
    std::array<double, kValues> change{};
    for (size_t e = 0; e < kRates.size(); ++e) {
      const double alone = weight.now[e] - weight.first[e];
      change[e] = weight.left[e] + (alone - weight.left[e]) / workers_;
    }
    change[kCurvature] = weight.now[kCurvature] - weight.first[kCurvature];
    return change;
  }

  const Scenario& scenario_;
  const uint32_t workers_;
  const size_t columns_;
  const size_t blocks_before_race_;  // the bias is the last of them
  Moments moments_;
  std::map<Key, std::vector<Weight>> weights_;
  std::vector<Lesson> lessons_;
  std::optional<PlainNewton> newton_;
  std::vector<double> first_race_;
  std::vector<double> race_;  // the loss of each racer, then counts
  size_t rows_ = 0;
};

}  // namespace

std::string DifferenceFromPlainLearner(const OnlineBatch& batch, const OnlineChange& change) {
  PlainLearner learner(batch);
  for (const Row& row : batch.rows) learner.Learn(row);
  learner.Damp();
  return learner.Compare(change);
}

}  // namespace millrace::simulation
