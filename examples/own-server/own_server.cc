// A server program with a handler of its own (docs/parameter-manager.md): momentum, whose gradient
// is clipped number by number, and trainers get values of which what is small is zero.
#include <millrace/server.h>

#include <algorithm>
#include <cmath>

namespace {

using millrace::server::HandlerSettings;
using millrace::server::ParamHandler;
using millrace::server::ParamSlice;
using millrace::server::Status;

class Clipped final : public ParamHandler {
 public:
  explicit Clipped(const HandlerSettings& settings) : settings_(settings) {}
  size_t slots() const override { return 1; }

  Status HandleUpdate(const ParamSlice& slice, std::span<const float> sum,
                      double weight) const override {
    const auto rate =
        float(settings_.learning_rate / (1 + settings_.decay * double(slice.updates)));
    for (size_t i = 0; i < sum.size(); ++i) {
      float& speed = slice.slots[0][i];
      speed = float(settings_.momentum) * speed + std::clamp(sum[i] / float(weight), -1.f, 1.f);
      slice.values[i] -= rate * speed;
    }
    return {};
  }

  Status HandleGet(std::span<float> values) const override {
    for (float& value : values) value = std::abs(value) < 1e-3f ? 0 : value;
    return {};
  }

 private:
  const HandlerSettings settings_;
};

}  // namespace

int main(int argc, char** argv) {
  const Status added = millrace::server::RegisterHandler(
      "mine.clipped",
      [](const HandlerSettings& settings) { return std::make_unique<Clipped>(settings); });
  return added.ok() ? millrace::server::RunServerApp(argc, argv) : 1;
}
