// A trainer that adds whole numbers to parameters, so that their sums are exact whoever adds first.
//
//     adding_trainer BROKERS JOB TRAINERS TRAINER STEPS [PAUSE [HANDLER]]
//
// Step s of trainer t adds s + 1 to number t of the parameter "own", and s % 7 + t to every number
// of "all"; both begin with 10. One that is started again goes on where it was. PAUSE: milliseconds
// after each step, so that a job lasts on a fast machine, too. With a HANDLER, its gradient is
// small, and a hundredth of each value that it has read is in it, so that a wrong answer shows at
// the end.
#include <millrace/parameter_manager.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace {

using millrace::client::Param;
using millrace::client::ParameterManager;

void Must(const millrace::client::Status& status) {
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.message().c_str()), std::exit(1);
}

template <typename T>
T Must(millrace::client::Result<T> result) {
  Must(result.status());
  return std::move(*result);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 6 || argc > 8) return 2;
  const auto number = [argv](int i) { return uint32_t(std::strtoul(argv[i], nullptr, 10)); };
  const uint32_t trainers = number(3), trainer = number(4), steps = number(5);
  const std::chrono::milliseconds pause{argc > 6 ? number(6) : 0};
  const char* const handler = argc > 7 ? argv[7] : "add";
  const auto manager = Must(ParameterManager::Connect(
      {.brokers = argv[1], .job = argv[2], .trainers = trainers, .trainer = trainer}));
  Param& own = *Must(manager->Register({"own", {trainers}, handler}));
  Param& all = *Must(manager->Register({"all", {5000}, handler}));
  for (Param* param : {&own, &all}) {
    std::ranges::fill(param->data(), 10.f);
    Must(manager->Put(*param));
  }
  for (uint64_t step = Must(manager->Steps()); step < steps; step = Must(manager->Step(1))) {
    const auto sevenths = float(step % 7 + trainer);
    if (argc > 7) {
      for (Param* param : {&own, &all}) {
        Must(manager->Get(param));
        std::ranges::transform(param->data(), param->grad().begin(), [sevenths](float value) {
          return value / 100 + (sevenths - 4) / 10;
        });
      }
    } else {
      Must(manager->Get(&own));
      std::ranges::fill(own.grad(), 0.f);
      own.grad()[trainer] = float(step + 1);
      std::ranges::fill(all.grad(), sevenths);
    }
    Must(manager->Update(own));
    Must(manager->Update(all));
    if (step % 50 == 0) std::printf("step %zu\n", static_cast<size_t>(step)), std::fflush(stdout);
    std::this_thread::sleep_for(pause);
  }
  Must(manager->Leave());
}
