// The jobs that the examples of this folder run.
#pragma once

#include <utility>
#include <vector>

#include "tests/simulation/scenario.h"

namespace millrace::simulation {

// One pass in batches of 3 rows, sequential, plain SGD.
inline Scenario Job(std::vector<RowNumber> rows) {
  Scenario scenario;
  scenario.workers = static_cast<uint32_t>(rows.size());
  scenario.rows = std::move(rows);
  scenario.classes = 3;
  scenario.training.set_batch_rows(3);
  scenario.training.mutable_optimizer()->set_kind(Training::Optimizer::SGD);
  return scenario;
}

// The same, of online learners. wide: the weights of hashed features are embedding rows.
inline Scenario OnlineJob(std::vector<RowNumber> rows, bool wide = false) {
  Scenario scenario = Job(std::move(rows));
  scenario.training.clear_optimizer();
  scenario.training.mutable_update()->set_kind(Training::Update::ONLINE);
  scenario.wide = wide;
  if (wide) scenario.training.set_wide_above(0);
  return scenario;
}

inline Scenario BufferJob(std::vector<RowNumber> rows) {
  Scenario scenario = Job(std::move(rows));
  scenario.training.set_schedule(Training::BUFFER);
  scenario.training.mutable_buffer()->set_min_rows(4);
  scenario.training.mutable_buffer()->set_max_rows(8);
  return scenario;
}

inline Scenario With(Scenario scenario, Training::Consistency::Model model, uint64_t delay = 0) {
  scenario.training.mutable_consistency()->set_model(model);
  scenario.training.mutable_consistency()->set_max_delay(delay);
  return scenario;
}

}  // namespace millrace::simulation
