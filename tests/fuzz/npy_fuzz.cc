// .npy files: what was written is read the same; of any other bytes no more is read than is there.
#include <cstring>
#include <optional>
#include <vector>

#include "base/check.h"
#include "formats/npy_file.h"
#include "tests/fuzz/mutate_message.h"
#include "tests/fuzz/scratch_folder.h"
#include "tests/fuzz/target.h"

namespace millrace::fuzz {
namespace {

std::optional<size_t> Columns(ByteSource& bytes) {
  const size_t columns = bytes.Below(5);
  return columns == 4 ? std::nullopt : std::optional<size_t>(columns);
}

}  // namespace

void FuzzOne(ByteSource& bytes) {
  static const ScratchFolder folder;
  const std::string path = folder.Path("x.npy");
  const std::optional<size_t> columns = Columns(bytes);
  const size_t rows = bytes.Below(20);
  std::vector<float> values(rows * columns.value_or(1));
  for (float& value : values) {
    const auto number = static_cast<uint32_t>(bytes.Number());
    std::memcpy(&value, &number, sizeof(value));
  }
  MILLRACE_CHECK(WriteNpy(path, values, rows, columns).ok());
  auto reader = NpyReader::Open(path, kNpyFloat, columns);
  MILLRACE_CHECK(reader.ok() && reader->rows() == rows);
  std::vector<float> read(values.size());
  MILLRACE_CHECK(reader->Read(std::span<float>(read)).ok());
  MILLRACE_CHECK(read.empty() ||
                 std::memcmp(read.data(), values.data(), sizeof(float) * read.size()) == 0);

  std::string content = folder.Read("x.npy");
  while (!bytes.empty()) {
    Mutate(content, bytes);
    folder.Write("x.npy", content);
    const auto other = Columns(bytes);
    auto hostile = NpyReader::Open(path, bytes.Chance(64) ? kNpyInt64 : kNpyFloat, other);
    if (!hostile.ok()) continue;
    // A header may promise anything; the caller reads row by row.
    std::vector<float> row(other.value_or(1));
    for (size_t i = 0; i < std::min<size_t>(hostile->rows(), 64); ++i) {
      if (!hostile->Read(std::span<float>(row)).ok()) break;
      // Rows without columns have no bytes.
      MILLRACE_CHECK(row.empty() || (i + 1) * row.size() * sizeof(float) <= content.size());
    }
  }
}

}  // namespace millrace::fuzz
