// Records of `parameters` of any key and value: no entry is lost or invented, and the size of the
// parts changes nothing.
#include <string>
#include <vector>

#include "base/big_endian.h"
#include "base/check.h"
#include "tasks/checkpoint_assembler.h"
#include "tests/fuzz/target.h"
#include "topics/frame.h"

namespace millrace::fuzz {
namespace {

std::vector<Checkpoint::Entry> Records(ByteSource& bytes) {
  std::vector<Checkpoint::Entry> records;
  while (!bytes.empty() && records.size() < 100) {
    switch (bytes.Below(5)) {
      case 0:
        records.push_back({"p" + EncodeBigEndian64(bytes.Byte()), std::string(bytes.Text(40))});
        break;
      case 1:
        records.push_back({"e" + EncodeBigEndian32(0) + EncodeBigEndian64(bytes.Byte()),
                           std::string(bytes.Text(40))});
        break;
      case 2: {
        uint32_t chunk = 0;
        const std::string state(bytes.Text(60));
        for (std::string& frame : MakeFrames(state, bytes.Byte(), 19 + bytes.Below(40))) {
          records.push_back({kStateKeyPrefix + EncodeBigEndian32(chunk++), std::move(frame)});
        }
        break;
      }
      case 3:
        records.push_back(
            {kStateKeyPrefix + EncodeBigEndian32(bytes.Byte()), std::string(bytes.Text(40))});
        break;
      default:
        records.push_back({std::string(bytes.Text(20)), std::string(bytes.Text(20))});
    }
  }
  return records;
}

// What a copy has taken when all records have come: entries of whole parts, and where each
// checkpoint ends.
struct Taken {
  std::vector<std::string> entries;
  std::vector<Offset> ends;
  bool unfinished = false;
  bool operator==(const Taken&) const = default;
};

Taken Take(const std::vector<Checkpoint::Entry>& records, size_t most_bytes) {
  CheckpointAssembler assembler(most_bytes);
  Taken taken;
  size_t in_parts = 0;
  std::vector<std::string> known;  // in order, those that the assembler has accepted
  for (size_t i = 0; i < records.size(); ++i) {
    const auto& [key, value] = records[i];
    const auto part = assembler.Add(static_cast<Offset>(i), key, value);
    MILLRACE_CHECK(CheckpointAssembler::Knows(key) || !part.ok());
    MILLRACE_CHECK(part.ok() || absl::IsDataLoss(part.status()));
    if (CheckpointAssembler::Knows(key)) known.push_back(key + "=" + value);
    if (!part.ok()) continue;
    if (!*part) continue;
    for (const Checkpoint::Entry& entry : (*part)->entries) {
      taken.entries.push_back(entry.key + "=" + entry.value);
    }
    in_parts = taken.entries.size();
    if ((*part)->end) {
      MILLRACE_CHECK(*(*part)->end == static_cast<Offset>(i) + 1);
      MILLRACE_CHECK(!assembler.unfinished());
      taken.ends.push_back(*(*part)->end);
      // All that came is in parts, in the order in which it came.
      MILLRACE_CHECK(taken.entries == known);
    }
  }
  MILLRACE_CHECK(in_parts <= known.size());
  taken.unfinished = assembler.unfinished();
  return taken;
}

}  // namespace

void FuzzOne(ByteSource& bytes) {
  const size_t most_bytes = 1 + bytes.Below(100);
  const std::vector<Checkpoint::Entry> records = Records(bytes);
  const Taken large = Take(records, size_t{1} << 20);
  const Taken small = Take(records, most_bytes);
  MILLRACE_CHECK(large.ends == small.ends);
  MILLRACE_CHECK(large.entries.size() <= small.entries.size());
  for (size_t i = 0; i < large.entries.size(); ++i) {
    MILLRACE_CHECK(large.entries[i] == small.entries[i]);
  }
}

}  // namespace millrace::fuzz
