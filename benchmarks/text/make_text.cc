// Texts of Zipf-distributed words with a class that follows from some of them: the same seed gives
// the same bytes everywhere. As a CSV (label,text) for Millrace, and the same rows, in the same
// order, in the format of Vowpal Wabbit.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

namespace millrace {
namespace {

constexpr uint32_t kClasses = 6;
constexpr uint32_t kVocabulary = 50'000;
// Every so-manieth word speaks for a class; with it, a text of its class has these more often.
constexpr uint32_t kTellingEvery = 16;

// SplitMix64: small, good, and not left to the standard library, whose distributions differ.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
  }
  // In [0, bound).
  uint32_t Below(uint32_t bound) { return static_cast<uint32_t>((Next() >> 32) * bound >> 32); }
  double Uniform() { return static_cast<double>(Next() >> 11) * 0x1p-53; }

 private:
  uint64_t state_;
};

// Made-up words: frequent ones are short, as in a language.
std::vector<std::string> MakeWords() {
  const std::string consonants = "bcdfghklmnprstvz";
  const std::string vowels = "aeiou";
  std::vector<std::string> words;
  for (uint32_t rank = 0; rank < kVocabulary; ++rank) {
    std::string word;
    uint32_t rest = rank;
    do {
      word += consonants[rest % consonants.size()];
      rest /= static_cast<uint32_t>(consonants.size());
      word += vowels[rest % vowels.size()];
      rest /= static_cast<uint32_t>(vowels.size());
    } while (rest > 0);
    words.push_back(word);
  }
  return words;
}

// Ranks with the probabilities of Zipf's law, p(rank) ~ 1 / (rank + 1), by a table of equal steps.
class Zipf {
 public:
  Zipf() : rank_(size_t{1} << 20) {
    std::vector<double> sums;
    double sum = 0;
    for (uint32_t rank = 0; rank < kVocabulary; ++rank) sums.push_back(sum += 1.0 / (rank + 1));
    uint32_t rank = 0;
    for (size_t i = 0; i < rank_.size(); ++i) {
      const double at = (static_cast<double>(i) + 0.5) / static_cast<double>(rank_.size()) * sum;
      while (sums[rank] < at) ++rank;
      rank_[i] = rank;
    }
  }
  uint32_t Draw(Random& random) const {
    return rank_[random.Below(static_cast<uint32_t>(rank_.size()))];
  }

 private:
  std::vector<uint32_t> rank_;
};

int Make(uint64_t rows, uint64_t seed, uint32_t min_words, uint32_t max_words,
         const std::string& csv_path, const std::string& vw_path) {
  std::ofstream csv(csv_path, std::ios::binary);
  std::ofstream vw;
  if (!vw_path.empty()) vw.open(vw_path, std::ios::binary);
  const std::vector<std::string> words = MakeWords();
  const Zipf zipf;
  Random random(seed);
  csv << "label,text\n";
  std::string text;
  for (uint64_t row = 0; row < rows; ++row) {
    const uint32_t label = random.Below(kClasses);
    const uint32_t size = min_words + random.Below(max_words - min_words + 1);
    text.clear();
    for (uint32_t i = 0; i < size; ++i) {
      uint32_t rank = zipf.Draw(random);
      // Half of the telling words of a text are those of its class.
      if (rank % kTellingEvery == kTellingEvery - 1 && random.Below(2) == 0) {
        rank -= rank / kTellingEvery % kClasses * kTellingEvery;
        rank = std::min(rank + label * kTellingEvery, kVocabulary - 1);
      }
      if (i > 0) text += ' ';
      text += words[rank];
    }
    csv << label + 1 << ',' << text << '\n';
    if (vw.is_open()) vw << label + 1 << " |t " << text << '\n';
  }
  csv.close();
  if (vw.is_open()) vw.close();
  if (!csv || !vw) {
    std::fprintf(stderr, "make_text: cannot write %s %s\n", csv_path.c_str(), vw_path.c_str());
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  CLI::App app("Rows of text for benchmarks: words by Zipf's law, six classes.");
  uint64_t rows = 100'000;
  uint64_t seed = 1;
  uint32_t min_words = 20;
  uint32_t max_words = 140;
  std::string csv;
  std::string vw;
  app.add_option("--rows", rows)->capture_default_str();
  app.add_option("--seed", seed)->capture_default_str();
  app.add_option("--min-words", min_words)->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--max-words", max_words)->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--csv", csv, "The rows as CSV")->required();
  app.add_option("--vw", vw, "The same rows for Vowpal Wabbit");
  CLI11_PARSE(app, argc, argv);
  if (max_words < min_words) return 2;
  return millrace::Make(rows, seed, min_words, max_words, csv, vw);
}
