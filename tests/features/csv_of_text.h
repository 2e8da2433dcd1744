// A CSV file for tests, which is gone from its folder once it is open.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <memory>
#include <string>

#include "formats/csv_file.h"

namespace millrace {

inline std::unique_ptr<CsvFile> CsvOfText(const std::string& text) {
  const std::string path =
      testing::TempDir() + "millrace_scan_" + std::to_string(getpid()) + ".csv";
  std::ofstream(path) << text;
  std::unique_ptr<CsvFile> file = CsvFile::Open(path).value();
  std::remove(path.c_str());
  return file;
}

}  // namespace millrace
