// Named parameters as one would write them down: number by number, for the whole job.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace millrace {

// What an update says of parameters, by their numbers.
struct PlainUpdate {
  std::map<uint32_t, std::vector<float>> put{};
  std::map<uint32_t, std::vector<float>> part{};
  double weight = 1;
  // Of tables: rows by their ids.
  std::map<uint32_t, std::map<uint64_t, std::vector<float>>> rows{};
};

// Shares no code with the shards. Floats, in the order of the definitions, since bytes are
// compared.
class PlainParameters {
 public:
  struct Parameter {
    size_t size = 1;  // of a table: of each of its rows
    std::string handler;
    float rate = 0.5f;  // with its multiplier
    float l2 = 0;       // with its multiplier
    bool is_table = false;
  };

  explicit PlainParameters(std::vector<Parameter> parameters) : parameters_(std::move(parameters)) {
    for (const Parameter& parameter : parameters_) {
      numbers_.emplace_back(parameter.is_table ? 0 : parameter.size);
      rows_.emplace_back();
      steps_.push_back(0);
      put_.push_back(false);
    }
  }

  // One step by the updates of a round, in worker order.
  void Step(const std::vector<PlainUpdate>& round) {
    for (const PlainUpdate& update : round) {
      for (const auto& [number, values] : update.put) {
        if (put_[number]) continue;
        put_[number] = true;
        for (size_t i = 0; i < values.size(); ++i) numbers_[number][i].value = values[i];
      }
    }
    for (uint32_t number = 0; number < parameters_.size(); ++number) {
      if (put_[number]) StepOne(number, round);
      if (parameters_[number].is_table) StepTable(number, round);
    }
  }

  // The row, which begins with zeros.
  std::vector<float> row(uint32_t number, uint64_t id) const {
    std::vector<float> values(parameters_[number].size);
    const auto found = rows_[number].find(id);
    for (size_t i = 0; found != rows_[number].end() && i < values.size(); ++i) {
      values[i] = found->second[i].value;
    }
    return values;
  }

  std::vector<float> values() const {
    std::vector<float> all;
    for (const auto& parameter : numbers_) {
      for (const Number& number : parameter) all.push_back(number.value);
    }
    return all;
  }
  bool is_put(uint32_t number) const { return put_[number]; }

 private:
  struct Number {
    float value = 0;
    float first = 0;
    float second = 0;
  };

  void StepOne(uint32_t number, const std::vector<PlainUpdate>& round) {
    const Parameter& parameter = parameters_[number];
    for (size_t i = 0; i < parameter.size; ++i) {
      std::optional<float> sum;
      double weight = 0;
      float last = 0;
      for (const PlainUpdate& update : round) {
        const auto found = update.part.find(number);
        if (found == update.part.end()) continue;
        last = found->second[i];
        sum = sum ? *sum + last : last;
        weight += update.weight;
      }
      if (!sum) return;
      Change(parameter, steps_[number], *sum, last, weight, numbers_[number][i]);
    }
    ++steps_[number];
  }

  // What a row is divided by is the weight of those who name the table, whichever rows they name.
  void StepTable(uint32_t number, const std::vector<PlainUpdate>& round) {
    const Parameter& parameter = parameters_[number];
    double weight = 0;
    std::map<uint64_t, std::vector<const std::vector<float>*>> named;
    for (const PlainUpdate& update : round) {
      const auto found = update.rows.find(number);
      if (found == update.rows.end() || found->second.empty()) continue;
      weight += update.weight;
      for (const auto& [id, values] : found->second) named[id].push_back(&values);
    }
    if (named.empty()) return;
    for (const auto& [id, changes] : named) {
      std::vector<Number>& row = rows_[number][id];
      row.resize(parameter.size);
      for (size_t i = 0; i < parameter.size; ++i) {
        float sum = (*changes[0])[i];
        for (size_t k = 1; k < changes.size(); ++k) sum = sum + (*changes[k])[i];
        Change(parameter, steps_[number], sum, (*changes.back())[i], weight, row[i]);
      }
    }
    ++steps_[number];
  }

  static void Change(const Parameter& parameter, uint64_t step, float sum, float last,
                     double weight, Number& number) {
    const auto one_by_weight = static_cast<float>(1.0 / weight);
    float gradient = sum * one_by_weight;
    if (parameter.l2 > 0) gradient = gradient + parameter.l2 * number.value;
    if (parameter.handler == "assign") number.value = last;
    if (parameter.handler == "add") number.value = number.value + sum;
    if (parameter.handler == "sgd") number.value = number.value - parameter.rate * gradient;
    if (parameter.handler == "momentum") {
      number.first = 0.9f * number.first + gradient;
      number.value = number.value - parameter.rate * number.first;
    }
    if (parameter.handler == "adagrad") {
      number.second = number.second + gradient * gradient;
      const float root = std::sqrt(number.second) + 1e-8f;
      number.value = number.value - parameter.rate * gradient / root;
    }
    if (parameter.handler == "adam") {
      const double t = static_cast<double>(step) + 1;
      number.first = 0.9f * number.first + static_cast<float>(1 - 0.9) * gradient;
      number.second =
          0.999f * number.second + static_cast<float>(1 - 0.999) * (gradient * gradient);
      const auto first = static_cast<float>(1 / (1 - std::pow(0.9, t)));
      const auto second = static_cast<float>(1 / (1 - std::pow(0.999, t)));
      number.value = number.value - parameter.rate * (number.first * first) /
                                        (std::sqrt(number.second * second) + 1e-8f);
    }
  }

  std::vector<Parameter> parameters_;
  std::vector<std::vector<Number>> numbers_;
  std::vector<std::map<uint64_t, std::vector<Number>>> rows_;
  std::vector<uint64_t> steps_;
  std::vector<bool> put_;
};

}  // namespace millrace
