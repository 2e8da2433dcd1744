// Jobs with the model EXTERNAL: their parameters, and what their trainers do.
#pragma once

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

// The trainer's program: its step of a clock is a function of the values of all parameters then,
// and of which of them have some.
TrainerStep StepOf(const Scenario& scenario, WorkerId worker, Clock clock,
                   std::span<const float> values, const std::vector<uint32_t>& has_values);

}  // namespace millrace::simulation
