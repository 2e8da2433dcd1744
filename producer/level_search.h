// The look at the input's first rows for a label whose level moves, and what to say of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/status.h"
#include "formats/csv_file.h"
#include "messages/features.pb.h"

namespace millrace {

// What MovingLevel() says of the first rows of the file at `path`: 20,000 of those that can be
// used, or all if there are fewer. REQUIRES that `spec` has its classes and edges. Errors: those of
// opening and reading (Cancelled once *options.stop is set), and of CsvRowEncoder::Create().
StatusOr<std::optional<double>> SearchMovingLevel(const std::string& path,
                                                  const CsvFile::Options& options,
                                                  const FeatureSpec& spec);

// Of a label of which MovingLevel() says this: that one worker gets all rows.
std::string OneWorkerText(double share);
// The same where somebody has chosen otherwise: rows are leased, or workers are dealt long turns.
std::string LeasedRowsText(double share);
std::string LongTurnsText(double share, uint32_t workers, uint32_t rows_per_turn);

}  // namespace millrace
