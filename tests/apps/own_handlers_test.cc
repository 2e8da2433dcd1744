// Handlers that a server program of one's own registers, as its shards call them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "millrace/server.h"
#include "models/parameter_handler.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Adds the learning rate times the sum, and fails as the weight says.
class Public final : public server::ParamHandler {
 public:
  explicit Public(double rate, size_t slots = 1) : rate_(rate), slots_(slots) {}
  size_t slots() const override { return slots_; }
  Combination combination() const override { return Combination::kLast; }
  server::Status HandleUpdate(const server::ParamSlice& slice, std::span<const float> sum,
                              double weight) const override {
    if (weight == 2) return {server::Code::kInternal, "two"};
    if (weight == 3) throw std::runtime_error("three");
    if (weight == 4) throw 4;  // NOLINT(bugprone-std-exception-baseclass): whatever users throw
    for (size_t i = 0; i < sum.size(); ++i) {
      slice.values[i] += static_cast<float>(rate_) * sum[i];
      slice.slots[0][i] += static_cast<float>(slice.updates);
    }
    return {};
  }
  bool SyncNow(uint64_t updates_since) const override {
    if (updates_since == 13) throw std::runtime_error("thirteen");
    return updates_since > 2;
  }

 private:
  double rate_;
  size_t slots_;
};

std::unique_ptr<ParameterHandler> Registered(const std::string& name,
                                             server::HandlerFactory factory) {
  const server::Status added = server::RegisterHandler(name, std::move(factory));
  EXPECT_TRUE(added.ok()) << added.message();
  HandlerSettings settings;
  settings.optimizer.learning_rate = 0.5;
  settings.learning_rate_multiplier = 4;
  return MakeParameterHandler(name, settings);
}

struct Slice {
  std::vector<float> values{1, 2};
  std::vector<float> slot{0, 0};
  std::vector<std::span<float>> slots{slot};
  ParameterSlice Of(uint64_t updates) {
    return {.values = values, .slots = slots, .updates = updates};
  }
};

TEST(OwnHandlersTest, WorkOnTheShardsSlicesByTheSettingsOfTheParameter) {
  const auto handler = Registered("test.works", [](const server::HandlerSettings& settings) {
    return std::make_unique<Public>(settings.learning_rate);
  });
  EXPECT_EQ(handler->slot_count(), 1u);
  EXPECT_EQ(handler->combination(), ParameterHandler::Combination::kLast);
  EXPECT_TRUE(handler->is_foreign());
  Slice slice;
  const std::vector<float> numbers{10, 20};
  EXPECT_TRUE(handler->HandleUpdate(slice.Of(7), numbers, 1).ok());
  EXPECT_THAT(slice.values, ElementsAre(21, 42));
  EXPECT_THAT(slice.slot, ElementsAre(7, 7));
  EXPECT_TRUE(handler->HandlePut(slice.Of(0), numbers).ok());
  EXPECT_THAT(slice.values, ElementsAre(10, 20)) << "if it says nothing of puts";
  EXPECT_TRUE(handler->HandleGet(slice.values).ok());
  EXPECT_THAT(slice.values, ElementsAre(10, 20)) << "nor of gets";
}

TEST(OwnHandlersTest, ErrorsAndExceptionsAreErrors) {
  const auto handler = Registered("test.fails", [](const server::HandlerSettings& settings) {
    return std::make_unique<Public>(settings.learning_rate);
  });
  Slice slice;
  const std::vector<float> sum{1, 1};
  const auto complaint = [&](double weight) {
    return std::string(handler->HandleUpdate(slice.Of(0), sum, weight).message());
  };
  EXPECT_EQ(complaint(1), "");
  EXPECT_EQ(complaint(2), "two");
  EXPECT_EQ(complaint(3), "three");
  EXPECT_EQ(complaint(4), "an exception");
}

TEST(OwnHandlersTest, AreAskedWhetherGroupsShouldExchangeAndSayNoByAnException) {
  const auto handler = Registered("test.syncs", [](const server::HandlerSettings& settings) {
    return std::make_unique<Public>(settings.learning_rate);
  });
  EXPECT_FALSE(handler->SyncNow(2));
  EXPECT_TRUE(handler->SyncNow(3));
  EXPECT_FALSE(handler->SyncNow(13));
  const auto none = Registered("test.syncs-none", [](const auto&) { return nullptr; });
  EXPECT_FALSE(none->SyncNow(3));
}

TEST(OwnHandlersTest, AFactoryThatMakesNoneEndsNoServer) {
  Slice slice;
  const auto complaint = [&](const std::string& name, server::HandlerFactory factory) {
    const auto handler = Registered(name, std::move(factory));
    EXPECT_EQ(handler->slot_count(), 0u);
    EXPECT_FALSE(handler->HandlePut(slice.Of(0), std::vector<float>{1, 1}).ok());
    return std::string(handler->HandleGet(slice.values).message());
  };
  EXPECT_THAT(complaint("test.null", [](const auto&) { return nullptr; }), HasSubstr("no handler"));
  EXPECT_THAT(complaint("test.throws",
                        [](const auto&) -> std::unique_ptr<server::ParamHandler> {
                          throw std::runtime_error("no rate");
                        }),
              HasSubstr("no rate"));
  EXPECT_THAT(complaint("test.slots", [](const auto&) { return std::make_unique<Public>(1, 17); }),
              HasSubstr("17 slots"));
}

TEST(OwnHandlersTest, WhatCannotBeRegisteredIsInvalid) {
  const auto factory = [](const auto&) { return std::make_unique<Public>(1); };
  EXPECT_EQ(server::RegisterHandler("adam", factory).code(), server::Code::kInvalidArgument);
  EXPECT_THAT(server::RegisterHandler("clipped", factory).message(), HasSubstr("mine.clipped"));
  EXPECT_THAT(server::RegisterHandler("test.none", nullptr).message(), HasSubstr("no factory"));
  EXPECT_EQ(MakeParameterHandler("test.none", {}), nullptr);
}

}  // namespace
}  // namespace millrace
