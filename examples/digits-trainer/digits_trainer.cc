// A trainer of one's own whose parameters are on Millrace's servers (docs/parameter-manager.md): a
// network of two layers learns the digits of datasets/digits.py.
#include <millrace/log.h>
#include <millrace/parameter_manager.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>

namespace {
using millrace::client::Param;
using millrace::client::ParameterManager;
constexpr size_t kPixels = 64, kHidden = 32, kDigits = 10, kBatch = 32;
using Row = std::array<float, 1 + kPixels>;  // the digit, and its pixels of 0 to 16

std::vector<Row> Read(const char* path) {
  std::vector<Row> rows;
  std::ifstream file(path);
  for (file.ignore(1 << 20, '\n'); file.peek() != EOF;) {
    for (float& cell : rows.emplace_back()) file >> cell, file.ignore();  // and a comma, or the end
  }
  return rows;
}

void Must(const millrace::client::Status& status) {
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.message().c_str()), std::exit(1);
}

template <typename T>
T Must(millrace::client::Result<T> result) {
  Must(result.status());
  return std::move(*result);
}

// Adds the gradient of the row's log loss; returns whether the network is right.
bool Learn(const Row& row, Param& in, Param& out) {
  std::array<float, kHidden + 1> hidden;  // and the bias
  std::array<float, kDigits> score{};
  hidden[kHidden] = 1;
  for (size_t h = 0; h < kHidden; ++h) {
    float sum = in.data()[kPixels * kHidden + h];
    for (size_t p = 0; p < kPixels; ++p) sum += row[1 + p] / 16 * in.data()[p * kHidden + h];
    hidden[h] = std::tanh(sum);
  }
  for (size_t i = 0; i < out.data().size(); ++i) {
    score[i % kDigits] += hidden[i / kDigits] * out.data()[i];
  }
  const auto best = static_cast<size_t>(std::ranges::max_element(score) - score.begin());
  float total = 0;
  for (const float of_one : score) total += std::exp(of_one - score[best]);
  std::array<float, kHidden + 1> back{};
  for (size_t i = 0; i < out.data().size(); ++i) {
    const size_t d = i % kDigits, h = i / kDigits;
    const float wrong = std::exp(score[d] - score[best]) / total - (d == row[0] ? 1.f : 0.f);
    out.grad()[i] += wrong * hidden[h];
    back[h] += wrong * out.data()[i];
  }
  for (size_t h = 0; h < kHidden; ++h) {
    const float slope = back[h] * (1 - hidden[h] * hidden[h]);
    for (size_t p = 0; p < kPixels; ++p) in.grad()[p * kHidden + h] += slope * row[1 + p] / 16;
    in.grad()[kPixels * kHidden + h] += slope;
  }
  return best == static_cast<size_t>(row[0]);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 7) return std::fputs("BROKERS JOB TRAINERS TRAINER STEPS FILE [HANDLER]\n", stderr), 2;
  const auto number = [argv](int i) { return uint32_t(std::strtoul(argv[i], nullptr, 10)); };
  const uint32_t trainers = number(3), trainer = number(4), steps = number(5);
  const std::vector<Row> rows = Read(argv[6]);
  millrace::client::SetLog([](auto l) { std::fprintf(stderr, "%s\n", std::string(l).c_str()); });
  const auto manager = Must(ParameterManager::Connect(
      {.brokers = argv[1], .job = argv[2], .trainers = trainers, .trainer = trainer}));
  const char* const handler = argc > 7 ? argv[7] : "";  // that of ServerApp --optimizer
  std::array params{Must(manager->Register({"in", {kPixels + 1, kHidden}, handler})),
                    Must(manager->Register({"out", {kHidden + 1, kDigits}, handler}))};
  uint32_t random = 1;
  for (Param* param : params) {
    for (float& value : param->data()) value = float(random = random * 69069 + 1) / 8e9f - 0.25f;
    Must(manager->Put(*param));
  }
  for (uint64_t step = Must(manager->Steps()); step < steps; step = Must(manager->Step(kBatch))) {
    for (Param* param : params) Must(manager->Get(param)), std::ranges::fill(param->grad(), 0.f);
    size_t right = 0;
    for (size_t i = 0; i < kBatch; ++i) {
      const size_t at = ((step * kBatch + i) * trainers + trainer) % rows.size();
      right += Learn(rows[at], *params[0], *params[1]);
    }
    for (Param* param : params) Must(manager->Update(*param));
    std::printf("step %zu: %zu of %zu\n", static_cast<size_t>(step), right, kBatch);
    std::fflush(stdout);
  }
  Must(manager->Leave());
}
