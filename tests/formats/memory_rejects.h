// Rejected rows kept in memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "formats/reject_file.h"

namespace millrace {

class MemoryRejects final : public RejectSink {
 public:
  struct Kept {
    uint64_t line;
    std::string reason;
    std::string raw;
  };

  Status Add(const RejectedRow& row) override {
    rows.push_back({row.line, std::string(row.reason), std::string(row.raw)});
    return absl::OkStatus();
  }
  Status Finish() override {
    ++finished;
    return absl::OkStatus();
  }
  const std::string& name() const override { return name_; }
  bool is_kept() const override { return kept; }

  std::vector<Kept> rows;
  int finished = 0;
  bool kept = true;

 private:
  std::string name_ = "memory.rejects.csv";
};

}  // namespace millrace
