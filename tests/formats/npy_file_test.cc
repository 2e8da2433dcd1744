#include "formats/npy_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/stores/temporary_folder.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

// (That NumPy reads it is a test of its own: tests/end_to_end.)
TEST(NpyFile, ReadsWhatItHasWrittenRowByRow) {
  const TemporaryFolder folder;
  StatusOr<NpyWriter> writer = NpyWriter::Create(folder / "a.npy", kNpyFloat, 3);
  ASSERT_TRUE(writer.ok()) << writer.status();
  const std::vector<float> values = {1, 2, 3, -4, 0.5f, 6e30f};
  ASSERT_TRUE(writer->Append(std::span(values).first(3)).ok());
  ASSERT_TRUE(writer->Append(std::span(values).subspan(3)).ok());
  ASSERT_TRUE(writer->Finish(2).ok());

  StatusOr<NpyReader> reader = NpyReader::Open(folder / "a.npy", kNpyFloat, 3);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ(reader->rows(), 2u);
  std::vector<float> read(3);
  ASSERT_TRUE(reader->Skip(3 * sizeof(float)).ok());
  ASSERT_TRUE(reader->Read(std::span(read)).ok());
  EXPECT_EQ(read, std::vector<float>(values.begin() + 3, values.end()));
  EXPECT_TRUE(absl::IsDataLoss(reader->Read(std::span(read))));
}

TEST(NpyFile, OfOneDimensionHasRowsOnly) {
  const TemporaryFolder folder;
  const std::vector<float> values = {1, 2, 3};
  ASSERT_TRUE(WriteNpy(folder / "a.npy", values, 3, std::nullopt).ok());
  const StatusOr<NpyReader> reader = NpyReader::Open(folder / "a.npy", kNpyFloat, std::nullopt);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ(reader->rows(), 3u);
}

TEST(NpyFile, OfEmptyRowsSaysSoAndIsReadAlsoWhereItDoesNot) {
  const TemporaryFolder folder;
  const std::string path = folder / "a.npy";
  ASSERT_TRUE(WriteNpy(path, std::vector<float>(), 3, 0).ok());
  std::string shape(4, '\0');
  std::ifstream file(path);
  file.ignore(128, ':').ignore(128, ':').ignore(128, '(').read(shape.data(), 4);
  EXPECT_EQ(shape, "3, 0");  // "3," would be of 3 floats, of which NumPy finds none
  for (const bool as_once : {false, true}) {
    if (as_once) {
      StatusOr<NpyWriter> writer = NpyWriter::Create(path, kNpyFloat, std::nullopt);
      ASSERT_TRUE(writer.ok() && writer->Finish(3).ok());
    }
    const StatusOr<NpyReader> reader = NpyReader::Open(path, kNpyFloat, 0);
    ASSERT_TRUE(reader.ok()) << reader.status();
    EXPECT_EQ(reader->rows(), 3u);
  }
}

TEST(NpyFile, OfAnotherTypeOrShapeIsAnErrorThatNamesIt) {
  const TemporaryFolder folder;
  const std::string path = folder / "a.npy";
  ASSERT_TRUE(WriteNpy(path, std::vector<float>(6), 2, 3).ok());
  for (const auto& [type, columns] : {std::pair(kNpyDouble, 3), std::pair(kNpyUint32, 3),
                                      std::pair(kNpyFloat, 2), std::pair(kNpyFloat, 0)}) {
    const Status status = NpyReader::Open(path, type, columns).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path));
  }
}

TEST(NpyFile, ThatIsMissingOrCutShortIsAnErrorThatNamesIt) {
  const TemporaryFolder folder;
  const std::string path = folder / "a.npy";
  ASSERT_TRUE(WriteNpy(path, std::vector<float>(6), 2, 3).ok());
  const uint64_t bytes = std::filesystem::file_size(path);
  for (uint64_t kept = 0; kept < bytes - 6 * sizeof(float); kept += 9) {
    std::filesystem::resize_file(path, kept);
    const Status status = NpyReader::Open(path, kNpyFloat, 3).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << kept << " " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path));
  }
  std::filesystem::remove(path);
  EXPECT_TRUE(absl::IsDataLoss(NpyReader::Open(path, kNpyFloat, 3).status()));
}

}  // namespace
}  // namespace millrace
