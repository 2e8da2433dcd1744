// Folds of `control` with errors on purpose.
#pragma once

#include <string>

#include "processors/master_processor.h"
#include "tests/simulation/master_machine.h"

namespace millrace::simulation {

// Whether a process that ends so has failed by itself.
bool IsFailure(const ProcessEnd& end);

// What a fold with the planted error makes of a record of `control`.
std::string AsMisread(MasterError error, const MasterProcessor& processor,
                      const std::string& value);

}  // namespace millrace::simulation
