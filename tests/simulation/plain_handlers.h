// What handlers of named parameters do to one number, as one would write it down. Shares no code
// with what it judges. Floats, in the order of the definitions, since bytes are compared.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

#include "messages/parameters.pb.h"
#include "messages/training.pb.h"

namespace millrace::simulation {

// A parameter's handler, with its multipliers.
struct PlainHandler {
  std::string name;         // never empty
  Training::Optimizer how;  // with the parameter's own rate
  double l2 = 0;            // with the parameter's own multiplier

  size_t slots() const {
    if (name == "adam" || name == "ftrl") return 2;
    return name == "momentum" || name == "adagrad" ? 1 : 0;
  }
};

struct PlainNumber {
  float value = 0;
  float first = 0;
  float second = 0;
};

inline PlainHandler PlainHandlerOf(const NamedParameter& parameter, const Training& training) {
  PlainHandler handler = {.name = parameter.handler(), .how = training.optimizer()};
  if (handler.name.empty()) {
    switch (training.optimizer().kind()) {
      case Training::Optimizer::SGD:
        handler.name = "sgd";
        break;
      case Training::Optimizer::MOMENTUM:
        handler.name = "momentum";
        break;
      case Training::Optimizer::ADAGRAD:
        handler.name = "adagrad";
        break;
      case Training::Optimizer::ADAM:
        handler.name = "adam";
        break;
      case Training::Optimizer::FTRL:
        handler.name = "ftrl";
        break;
    }
  }
  handler.how.set_learning_rate(training.optimizer().learning_rate() *
                                parameter.learning_rate_multiplier());
  handler.l2 = training.l2() * parameter.decay_multiplier();
  return handler;
}

inline void PutNumber(const PlainHandler& handler, float value, PlainNumber& number) {
  number.value = value;
  if (handler.name != "ftrl" || value == 0) return;
  const auto shrink =
      static_cast<float>(handler.how.ftrl_beta() / handler.how.learning_rate() + handler.l2);
  const auto l1 = static_cast<float>(handler.how.l1());
  number.second = -value * shrink - (value > 0 ? l1 : -l1);
}

// FTRL-proximal, per coordinate (McMahan et al., KDD 2013, algorithm 1).
inline void StepByFtrl(const PlainHandler& handler, float rate, float g, PlainNumber& number) {
  const float root = std::sqrt(number.first);
  number.first += g * g;
  const float sigma = (std::sqrt(number.first) - root) / rate;
  number.second += g - sigma * number.value;
  const float z = number.second;
  const auto l1 = static_cast<float>(handler.how.l1());
  if (std::abs(z) <= l1) {
    number.value = 0;
    return;
  }
  const float slope =
      (static_cast<float>(handler.how.ftrl_beta()) + std::sqrt(number.first)) / rate;
  number.value = -(z > 0 ? z - l1 : z + l1) / (slope + static_cast<float>(handler.l2));
}

// `sum` and `last`: of what a round's updates say of the number, in worker order; `weight`: of
// these updates together. `step`: how many the parameter has had before.
inline void ChangeNumber(const PlainHandler& handler, uint64_t step, float sum, float last,
                         double weight, PlainNumber& number) {
  if (handler.name == "assign") number.value = last;
  if (handler.name == "add") number.value = number.value + sum;
  if (handler.name == "assign" || handler.name == "add") return;
  const Training::Optimizer& how = handler.how;
  const auto t = static_cast<double>(step);
  const auto rate = static_cast<float>(how.learning_rate() / (1.0 + how.decay() * t));
  const auto epsilon = static_cast<float>(how.epsilon());
  float g = sum * static_cast<float>(1.0 / weight);
  if (handler.name == "ftrl") return StepByFtrl(handler, rate, g, number);
  const auto l2 = static_cast<float>(handler.l2);
  if (l2 > 0) g = g + l2 * number.value;
  if (handler.name == "sgd") number.value -= rate * g;
  if (handler.name == "momentum") {
    number.first = static_cast<float>(how.momentum()) * number.first + g;
    number.value -= rate * number.first;
  }
  if (handler.name == "adagrad") {
    number.first += g * g;
    number.value -= rate * g / (std::sqrt(number.first) + epsilon);
  }
  if (handler.name == "adam") {
    number.first =
        static_cast<float>(how.beta1()) * number.first + static_cast<float>(1 - how.beta1()) * g;
    number.second = static_cast<float>(how.beta2()) * number.second +
                    static_cast<float>(1 - how.beta2()) * (g * g);
    const auto grow1 = static_cast<float>(1 / (1 - std::pow(how.beta1(), t + 1)));
    const auto grow2 = static_cast<float>(1 / (1 - std::pow(how.beta2(), t + 1)));
    number.value -= rate * (number.first * grow1) / (std::sqrt(number.second * grow2) + epsilon);
  }
}

}  // namespace millrace::simulation
