#include "models/batch_damping.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "models/rate_lanes.h"

namespace millrace {
namespace {

using Race = OnlineRace;
using Step = OnlineLearner::Step;
using Feature = LearntRows::Feature;

// Of a column of a working block.
struct ColumnScale {
  float root = 0;    // 1 / root of the curvature
  float shared = 0;  // of a feature's x, the part that others have as well
};

// A row takes a change back in one direction, once. Where that leaves half of it (in the direction
// of the bias, if there are many columns), the changes of more than 8 workers would add up to more
// than twice the way. So with more than 4 only a part of what rows share is damped as one score,
// and the rest feature by feature: docs/learning.md, g.
float TogetherOf(float workers) { return std::min({1.0f, 0.5f + 2 / workers, 16 / workers}); }

// How much of what a row has done to its score another row sees, as long as there is only one row:
// where all are the same it is all of it, where they have nothing to do with each other nothing.
constexpr float kSame = 0.5f;
// As much as a pair of rows tells, that counts beside the pairs of the batch.
constexpr float kPairs = 0.1f;

// Fills those of a column among `scales`, which are of all columns of all blocks. A word or
// category that the batch has more often than the rows before it (the hour of its flights) is not
// that frequent in the rows of others.
void SetRootsAndShares(std::span<const float> last, size_t block_size, size_t column,
                       size_t numeric, std::span<const float> change,
                       std::vector<ColumnScale>& scales) {
  const size_t curvature = column * kRateLanes + Race::kCurvature;
  const size_t of_bias = last.size() - block_size + curvature;
  const float all_rows = Race::Positive(last[of_bias]);
  const float own_rows = change[of_bias];
  for (size_t at = curvature; at < last.size(); at += block_size) {
    const float all = Race::Positive(last[at]);
    const float usual = all * own_rows;
    const float own = change[at] * all_rows;
    ColumnScale& scale = scales[at / kRateLanes];
    scale.root = 1.0f / std::sqrt(all);
    const bool is_number = at < numeric * block_size;
    // (A sum of 10^7 rows may be too large for a float to grow.)
    const bool is_more = own_rows > 0 && own > usual;
    scale.shared = is_more && !is_number ? std::sqrt(usual / own) : 1.0f;
  }
}

// How much of what a row has done to its score another row sees, by constant and by decaying rates:
// the square of the cosine between the two, of rows that follow each other; by the curvatures of
// the first column, for all columns.
struct Sameness {
  float constant = 0;
  float decaying = 0;
};

// The sums of a row, for its cosine with another one.
struct Squares {
  float plain = 0;
  float rooted = 0;
};

float CosineSquared(float product, float one, float other) {
  return one > 0 && other > 0 ? std::min(1.0f, product / one * (product / other)) : 0.0f;
}

Sameness SamenessOf(const LearntRows& rows, std::span<const ColumnScale> scales) {
  std::vector<float> before(scales.size());  // of the row before
  Squares of_before;
  Sameness sum;
  for (size_t i = 0; i < rows.size(); ++i) {
    Squares of_row;
    Squares of_both;
    for (const Feature& feature : rows[i].features) {
      const float root = scales[feature.block / kRateLanes].root;
      const float x = feature.x * scales[feature.block / kRateLanes].shared;
      const float product = x * before[feature.block / kRateLanes];
      of_row.plain += x * x;
      of_row.rooted += x * x * root;
      of_both.plain += product;
      of_both.rooted += product * root;
    }
    if (i > 0) {
      sum.constant += CosineSquared(of_both.plain, of_row.plain, of_before.plain);
      sum.decaying += CosineSquared(of_both.rooted, of_row.rooted, of_before.rooted);
      for (const Feature& feature : rows[i - 1].features) before[feature.block / kRateLanes] = 0;
    }
    for (const Feature& feature : rows[i].features) {
      before[feature.block / kRateLanes] += feature.x * scales[feature.block / kRateLanes].shared;
    }
    of_before = of_row;
  }
  const float pairs = kPairs + static_cast<float>(std::max<size_t>(rows.size(), 1) - 1);
  return {(kPairs * kSame + sum.constant) / pairs, (kPairs * kSame + sum.decaying) / pairs};
}

// `part`, but between 0 and `whole`.
[[gnu::always_inline]] inline RateLanes Between(const RateLanes& whole, const RateLanes& part) {
  const RateLanes zero = {};
  const RateLanes most = whole > 0.0f ? whole : zero;
  const RateLanes least = whole > 0.0f ? zero : whole;
  const RateLanes high = part > most ? most : part;
  return high < least ? least : high;
}

// Those that see a worker's change. docs/learning.md has the letters.
struct Others {
  float times = 0;     // each row of the batch stands for so many of theirs
  float together = 0;  // g
  // What a row has done is sent as far as no other row sees it, and at least this much of it. With
  // 1 / (W - 1) all changes together are twice one worker's at most: an error changes its sign, and
  // does not grow.
  float in_any_case = 0;
  Sameness same;  // c
};

// Of a column: the change as it is when rows like this one have seen it. Of what they share they
// see `together` as one score, and take back what the change does to it by the learner's own step;
// of the rest each feature alone. What the batch has more often than the rows before, they may have
// as often, as far as the batch has it beside this row. What the row itself has done they see as
// far as rows are the same.
void LetRowsSee(std::span<const Feature> features, const Step& step, const Others& others,
                const ColumnScale* scales, float* change) {
  RateLanes score = {};
  Squares shared;
  Squares own;  // of what the row has and what is shared
  for (const Feature& feature : features) {
    const float* const weights = change + feature.block;
    const ColumnScale& scale = scales[feature.block / kRateLanes];
    const float x = feature.x * scale.shared;
    score += Load<kRateLanes>(weights) * x;
    shared.plain += x * x;
    shared.rooted += x * x * scale.root;
    own.plain += feature.x * x;
    own.rooted += feature.x * x * scale.root;
  }
  const RateLanes rates = Load<kRateLanes>(step.rates.of.data()) * (others.times * step.curvature);
  const RateLanes reach = rates * ByKind(shared.plain, shared.rooted);
  const RateLanes both = ByKind(own.plain, own.rooted);
  // (Not more than is left of it: rows before may have taken it back.)
  const RateLanes by_itself = Between(score, Load<kRateLanes>(step.moves.of.data()) * both * -1.0f);
  const RateLanes unseen = Max<kRateLanes>(
      ExpOfNegative<kRateLanes>(-reach * ByKind(others.same.constant, others.same.decaying)),
      RateLanes{} + others.in_any_case);
  const float together = others.together;
  const RateLanes moves = (score - by_itself) * rates * together / (reach * together + 1.0f) +
                          by_itself * (1.0f - unseen) / both;
  for (const Feature& feature : features) {
    float* const weights = change + feature.block;
    const ColumnScale& scale = scales[feature.block / kRateLanes];
    const float root = scale.root;
    const float x = feature.x * scale.shared;
    const float square = feature.x * feature.x;
    const float of_batch = weights[Race::kCurvature];
    const float of_row = std::min(step.curvature * square, of_batch);
    const float beside = of_batch > 0 ? 1 - of_row / of_batch : 0.0f;
    const float alone = (1 - together) * x * x + beside * (square - x * x);
    const RateLanes moved = Load<kRateLanes>(weights) - moves * ByKind(x, x * root);
    StoreFirst<Race::kRates, kRateLanes>(weights,
                                         moved / (rates * ByKind(alone, alone * root) + 1.0f));
  }
}

}  // namespace

void LearntRows::Add(std::span<const OnlineLearner::Term> terms, std::span<const Step> steps) {
  MILLRACE_CHECK(steps.size() == columns_);
  for (const OnlineLearner::Term& term : terms) {
    features_.push_back({static_cast<size_t>(term.block - blocks_), term.x});
  }
  steps_.insert(steps_.end(), steps.begin(), steps.end());
  ends_.push_back(features_.size());
}

LearntRows::LearntRow LearntRows::operator[](size_t row) const {
  const size_t begin = row == 0 ? 0 : ends_[row - 1];
  return {std::span(features_).subspan(begin, ends_[row] - begin),
          std::span(steps_).subspan(row * columns_, columns_)};
}

// If a batch leaves the part q of an error, n of them, one after the other, leave q^n, and the k-th
// one's change is q^(k - 1) of what it would be by itself. No worker knows which one it is. So each
// sends the mean of them, for which 1 / n + (1 - 1 / n) q^(n / 2) stands: it is the same where q is
// near 0 or 1. q^(n / 2) is found by letting each row of the batch act n / 2 times on the change.
void DampChange(const LearntRows& rows, std::span<const float> last, size_t numeric,
                uint32_t concurrent, std::span<float> change) {
  const size_t block_size = rows.columns() * kRateLanes;
  MILLRACE_CHECK(concurrent > 1 && last.size() == change.size());
  MILLRACE_CHECK(!last.empty() && last.size() % block_size == 0);
  MILLRACE_CHECK(numeric < last.size() / block_size);  // the bias is no number
  const std::vector<float> alone(change.begin(), change.end());
  std::vector<ColumnScale> scales(change.size() / kRateLanes);
  for (size_t c = 0; c < rows.columns(); ++c) {
    SetRootsAndShares(last, block_size, c, numeric, change, scales);
  }
  const auto workers = static_cast<float>(concurrent);
  const Others others = {.times = workers / 2,
                         .together = TogetherOf(workers),
                         .in_any_case = 1 / (workers - 1),
                         .same = SamenessOf(rows, scales)};
  for (size_t i = 0; i < rows.size(); ++i) {
    const LearntRows::LearntRow row = rows[i];
    for (size_t c = 0; c < rows.columns(); ++c) {
      LetRowsSee(row.features, row.steps[c], others, scales.data() + c,
                 change.data() + c * kRateLanes);
    }
  }
  for (size_t at = 0; at < change.size(); at += kRateLanes) {
    for (size_t e = at; e < at + Race::kRates; ++e) {
      change[e] += (alone[e] - change[e]) / workers;
    }
  }
}

}  // namespace millrace
