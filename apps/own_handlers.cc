// Handlers of one's own (millrace/server.h) as those of shards.
#include <spdlog/spdlog.h>

#include <atomic>
#include <bit>
#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "base/status.h"
#include "millrace/server.h"
#include "models/parameter_handler.h"

namespace millrace::server {
namespace {

// What has failed so far of a handler by name: the first errors are logged, and then fewer and
// fewer.
struct Failures {
  explicit Failures(std::string handler) : name(std::move(handler)) {}
  const std::string name;
  std::atomic<uint64_t> count = 0;
};

class Foreign final : public ParameterHandler {
 public:
  // Without a handler, each call fails for this reason.
  Foreign(std::unique_ptr<ParamHandler> handler, std::string reason,
          std::shared_ptr<Failures> failures)
      : handler_(std::move(handler)),
        reason_(std::move(reason)),
        slots_(handler_ != nullptr ? handler_->slots() : 0),
        failures_(std::move(failures)) {
    if (slots_ <= kMostSlots) return;
    reason_ =
        "it has " + std::to_string(slots_) + " slots, of at most " + std::to_string(kMostSlots);
    handler_ = nullptr;
    slots_ = 0;
  }

  size_t slot_count() const override { return slots_; }
  Combination combination() const override {
    const bool is_last =
        handler_ != nullptr && handler_->combination() == ParamHandler::Combination::kLast;
    return is_last ? Combination::kLast : Combination::kSum;
  }
  bool is_foreign() const override { return true; }

  absl::Status HandlePut(const ParameterSlice& slice,
                         std::span<const float> values) const override {
    return Guarded("HandlePut", [&] { return handler_->HandlePut(ToPublic(slice), values); });
  }
  absl::Status HandleUpdate(const ParameterSlice& slice, std::span<const float> sum,
                            double weight) const override {
    return Guarded("HandleUpdate",
                   [&] { return handler_->HandleUpdate(ToPublic(slice), sum, weight); });
  }
  absl::Status HandleGet(std::span<float> values) const override {
    return Guarded("HandleGet", [&] { return handler_->HandleGet(values); });
  }
  bool SyncNow(uint64_t updates_since) const override {
    bool is_wanted = false;
    const absl::Status asked = Guarded("SyncNow", [&] {
      is_wanted = handler_->SyncNow(updates_since);
      return Status();
    });
    return asked.ok() && is_wanted;
  }

 private:
  static ParamSlice ToPublic(const ParameterSlice& slice) {
    return {.values = slice.values, .slots = slice.slots, .updates = slice.updates};
  }

  template <typename Call>
  absl::Status Guarded(const char* what, const Call& call) const {
    std::string reason = reason_;
    if (handler_ != nullptr) {
      try {
        const Status done = call();
        if (done.ok()) return absl::OkStatus();
        reason = done.message();
      } catch (const std::exception& error) {
        reason = error.what();
      } catch (...) {
        reason = "an exception";
      }
    }
    const uint64_t failed = ++failures_->count;
    if (std::has_single_bit(failed)) {
      spdlog::warn("the handler {}: {} failed, failure {} of this handler; nothing has changed: {}",
                   failures_->name, what, failed, reason);
    }
    return absl::AbortedError(reason);
  }

  std::unique_ptr<ParamHandler> handler_;
  std::string reason_;
  size_t slots_;
  std::shared_ptr<Failures> failures_;
};

HandlerSettings ToPublic(const millrace::HandlerSettings& settings) {
  const OptimizerOptions& optimizer = settings.optimizer;
  return {.learning_rate = optimizer.learning_rate * settings.learning_rate_multiplier,
          .decay = optimizer.decay,
          .momentum = optimizer.momentum,
          .beta1 = optimizer.beta1,
          .beta2 = optimizer.beta2,
          .epsilon = optimizer.epsilon,
          .l1 = optimizer.l1,
          .l2 = settings.l2 * settings.decay_multiplier};
}

std::unique_ptr<ParameterHandler> Make(const HandlerFactory& factory,
                                       const millrace::HandlerSettings& settings,
                                       const std::shared_ptr<Failures>& failures) {
  std::unique_ptr<ParamHandler> made;
  std::string reason = "its factory has made no handler";
  try {
    made = factory(ToPublic(settings));
  } catch (const std::exception& error) {
    reason = std::string("its factory: ") + error.what();
  } catch (...) {
    reason = "its factory: an exception";
  }
  return std::make_unique<Foreign>(std::move(made), reason, failures);
}

}  // namespace

Status ParamHandler::HandlePut(const ParamSlice& slice, std::span<const float> values) const {
  for (size_t i = 0; i < values.size(); ++i) slice.values[i] = values[i];
  return {};
}

Status ParamHandler::HandleGet(std::span<float> /*values*/) const { return {}; }

bool ParamHandler::SyncNow(uint64_t /*updates_since*/) const { return false; }

Status RegisterHandler(const std::string& name, HandlerFactory factory) {
  if (!factory) return {Code::kInvalidArgument, "the handler " + name + ": there is no factory"};
  const auto failures = std::make_shared<Failures>(name);
  const absl::Status added = AddParameterHandler(
      name, [factory = std::move(factory), failures](const millrace::HandlerSettings& settings) {
        return Make(factory, settings, failures);
      });
  if (added.ok()) return {};
  return {Code::kInvalidArgument, std::string(added.message())};
}

}  // namespace millrace::server
