// Errors made on purpose, at the seams: does the simulator notice?
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/simulation/simulation.h"

namespace millrace::simulation {

struct PlantedError {
  std::string name;
  // Noticed within so many seeds from 0 on.
  uint64_t seeds = 100;
  Factory factory;
  // Changes what was drawn, so that the error can show at all.
  std::function<void(Scenario&, Faults&)> adjust;
};

// All of them.
std::vector<PlantedError> PlantedErrors();

std::vector<PlantedError> PlantedInMessages();
std::vector<PlantedError> PlantedInCheckpoints();
std::vector<PlantedError> PlantedInTransactions();
std::vector<PlantedError> PlantedInLosses();
std::vector<PlantedError> PlantedInSnapshots();
std::vector<PlantedError> PlantedInWorkers();
std::vector<PlantedError> PlantedInFollowers();
std::vector<PlantedError> PlantedInOnlineLearning();
std::vector<PlantedError> PlantedInRegressions();
std::vector<PlantedError> PlantedInResizes();
std::vector<PlantedError> PlantedInReshards();
std::vector<PlantedError> PlantedInTrainers();

}  // namespace millrace::simulation
