// How a job's CSV files are opened.
#pragma once

#include "base/status.h"
#include "formats/csv_file.h"
#include "messages/job.pb.h"

namespace millrace {

// Sets what `format` says in the options. InvalidArgument: it names no delimiter.
Status ApplyCsvFormat(const CsvFormat& format, CsvFile::Options* options);

}  // namespace millrace
