// Jobs with the model EXTERNAL: their parameters, and what their trainers do.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "processors/trainer_steps.h"
#include "tests/simulation/scenario.h"

namespace millrace::simulation {

// The job has trainers of its own, who make as many steps as workers would have rows.
void DrawTrainers(Scenario& scenario);

// Where each parameter stands in the key space.
std::vector<KeyRange> KeysOf(const Scenario& scenario);

// Whether the trainer's step of this clock puts a parameter, or changes it.
bool Puts(const Scenario& scenario, WorkerId worker, Clock clock, uint32_t number);
bool Changes(const Scenario& scenario, WorkerId worker, Clock clock, uint32_t number);

// ---- tables ----

inline constexpr uint64_t kMostSimulatedWidth = 4;
// All rows that are ever named, ascending.
std::vector<EmbeddingId> RowsOfTables(const Scenario& scenario);
// The parameter that is the table of this row.
uint32_t TableParameterOf(const Scenario& scenario, EmbeddingId row);
size_t WidthOf(const Scenario& scenario, EmbeddingId row);
size_t WidestRow(const Scenario& scenario);
// The rows that the step of this clock reads, ascending.
std::vector<EmbeddingId> RowsRead(const Scenario& scenario, WorkerId worker, Clock clock);
// The values of a row that the step has read.
using RowReader = std::function<std::vector<float>(EmbeddingId row)>;

// The trainer's program: its step of a clock is a function of the values of all parameters and of
// the rows that it reads then, and of which parameters have some.
TrainerStep StepOf(const Scenario& scenario, WorkerId worker, Clock clock,
                   std::span<const float> values, const std::vector<uint32_t>& has_values,
                   const RowReader& row_of);

}  // namespace millrace::simulation
