#include "tests/simulation/planted.h"

#include <iterator>
#include <utility>

namespace millrace::simulation {

std::vector<PlantedError> PlantedErrors() {
  std::vector<PlantedError> all;
  for (auto* const part :
       {PlantedInMessages, PlantedInCheckpoints, PlantedInTransactions, PlantedInLosses,
        PlantedInSnapshots, PlantedInWorkers, PlantedInFollowers, PlantedInOnlineLearning,
        PlantedInRegressions, PlantedInResizes, PlantedInReshards, PlantedInTrainers}) {
    std::ranges::move(part(), std::back_inserter(all));
  }
  return all;
}

}  // namespace millrace::simulation
