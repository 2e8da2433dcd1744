#include "topics/row_codec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tests/topics/random_double.h"
#include "topics/frame.h"

namespace millrace {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
const float kNaN = std::nanf("");

RowShape RandomShape(std::mt19937_64& random) {
  RowShape shape;
  shape.numeric = random() % 5;
  shape.features = shape.numeric + random() % 50;
  shape.classes = 2 + random() % 5;
  shape.ids = random() % 3;
  return shape;
}

Row RandomRow(std::mt19937_64& random, const RowShape& shape) {
  Row row;
  row.label = static_cast<uint32_t>(random() % shape.classes);
  for (size_t i = 0; i < shape.numeric; ++i) row.numeric.push_back(RandomDouble(random));
  for (size_t i = shape.numeric; i < shape.features; ++i) {
    if (random() % 3 != 0) continue;
    row.index.push_back(static_cast<uint32_t>(i));
    row.value.push_back(static_cast<float>(RandomDouble(random)));
  }
  for (size_t i = 0; i < shape.ids; ++i) row.ids.push_back(random());
  row.target = static_cast<float>(random() % 1000) / 8;
  return row;
}

// Whether the row is one that a model may be given.
bool Fits(const Row& row, const RowShape& shape) {
  if (row.label >= shape.classes || row.numeric.size() != shape.numeric) return false;
  if (row.index.size() != row.value.size()) return false;
  for (size_t i = 0; i < row.index.size(); ++i) {
    if (row.index[i] < shape.numeric || row.index[i] >= shape.features) return false;
    if (i > 0 && row.index[i] <= row.index[i - 1]) return false;
    if (!std::isfinite(row.value[i])) return false;
  }
  if (row.ids.size() != shape.ids || !std::isfinite(row.target)) return false;
  return std::none_of(row.numeric.begin(), row.numeric.end(),
                      [](double value) { return std::isinf(value); });
}

const RowShape kShape = {.numeric = 2, .features = 10, .classes = 3};

Row SomeRow() { return {1, {0.5, -3}, {2, 5, 9}, {1, -2, 0.25}}; }

std::string ReasonFor(const Row& row, const RowShape& shape = kShape) {
  InputRecord record;
  const Status status = DecodeInput(EncodeRow(row), shape, record);
  EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}

TEST(CodecRowTest, AnyRowComesBackAsItWas) {
  std::mt19937_64 random(1);
  InputRecord record;
  Row decoded;
  for (int trial = 0; trial < 3000; ++trial) {
    const RowShape shape = RandomShape(random);
    const Row row = RandomRow(random, shape);
    const Status status = DecodeInput(EncodeRow(row), shape, record);
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_TRUE(record.has_row());
    ASSERT_FALSE(record.has_end());
    ToRow(record.row(), decoded);
    ASSERT_EQ(decoded, row);
  }
}

TEST(CodecRowTest, AMissingNumberComesBackAsMissing) {
  Row row = SomeRow();
  row.numeric[1] = std::nan("");
  InputRecord record;
  ASSERT_TRUE(DecodeInput(EncodeRow(row), kShape, record).ok());
  EXPECT_EQ(record.row().numeric(0), 0.5);
  EXPECT_TRUE(std::isnan(record.row().numeric(1)));
}

TEST(CodecRowTest, TheEndComesBackAsTheEnd) {
  InputRecord record;
  for (const RowNumber rows : {RowNumber(0), RowNumber(1), RowNumber(uint64_t{1} << 40)}) {
    ASSERT_TRUE(DecodeInput(EncodeRow(SomeRow()), kShape, record).ok());
    ASSERT_TRUE(DecodeInput(EncodeEnd(rows), kShape, record).ok());
    EXPECT_FALSE(record.has_row());
    ASSERT_TRUE(record.has_end());
    EXPECT_EQ(record.end().row_count(), rows);
  }
}

TEST(CodecRowTest, RefusesARowThatDoesNotFitTheJobsShape) {
  EXPECT_EQ(ReasonFor(SomeRow()), "");
  Row row = SomeRow();
  row.label = 3;
  EXPECT_EQ(ReasonFor(row), "class id 3");
  row = SomeRow();
  row.numeric.push_back(1);
  EXPECT_EQ(ReasonFor(row), "3 numeric values, but the job has 2");
  row.numeric.clear();
  EXPECT_EQ(ReasonFor(row), "0 numeric values, but the job has 2");
  row = SomeRow();
  row.value.pop_back();
  EXPECT_EQ(ReasonFor(row), "not as many feature values as feature indices");
  row = SomeRow();
  row.index[2] = 10;
  EXPECT_EQ(ReasonFor(row), "feature 10, but the job has only 10");
  row.index[2] = 0xffffffff;
  EXPECT_EQ(ReasonFor(row), "feature 4294967295, but the job has only 10");
}

TEST(CodecRowTest, RefusesARowWithoutItsIdsOrWithATargetThatIsNoNumber) {
  RowShape shape = kShape;
  shape.ids = 2;
  EXPECT_EQ(ReasonFor(SomeRow(), shape), "0 ids, but the job has 2");
  Row row = SomeRow();
  row.ids = {7, 7};
  EXPECT_EQ(ReasonFor(row, shape), "");
  EXPECT_EQ(ReasonFor(row), "2 ids, but the job has 0");
  row.target = kNaN;
  EXPECT_EQ(ReasonFor(row, shape), "a target that is not finite");
  shape.classes = 0;
  row.target = 3;
  EXPECT_EQ(ReasonFor(row, shape), "class id 1") << "a regression has no classes";
  row.label = 0;
  EXPECT_EQ(ReasonFor(row, shape), "");
}

TEST(CodecRowTest, RefusesIndicesThatDoNotAscendOrAreThoseOfNumericColumns) {
  Row row = SomeRow();
  row.index = {2, 2, 9};
  EXPECT_EQ(ReasonFor(row), "feature 2 out of order");
  row.index = {2, 9, 5};
  EXPECT_EQ(ReasonFor(row), "feature 5 out of order");
  row.index = {1, 5, 9};
  EXPECT_EQ(ReasonFor(row), "feature 1 out of order");
}

TEST(CodecRowTest, RefusesValuesThatAreNotFinite) {
  for (float value : {kNaN, kInfinity, -kInfinity}) {
    Row row = SomeRow();
    row.value[1] = value;
    EXPECT_EQ(ReasonFor(row), "a value that is not finite");
  }
  for (double value : {HUGE_VAL, -HUGE_VAL}) {
    Row row = SomeRow();
    row.numeric[0] = value;
    EXPECT_EQ(ReasonFor(row), "an infinite number");
  }
}

TEST(CodecRowTest, AReusedRecordKeepsItsMemory) {
  const std::string value = EncodeRow(SomeRow());
  InputRecord record;
  ASSERT_TRUE(DecodeInput(value, kShape, record).ok());
  const TrainingRow* const row = &record.row();
  const uint32_t* const index = row->index().data();
  ASSERT_TRUE(DecodeInput(value, kShape, record).ok());
  EXPECT_EQ(&record.row(), row);
  EXPECT_EQ(record.row().index().data(), index);
}

TEST(CodecRowTest, RefusesWhatIsNeitherARowNorAnEnd) {
  InputRecord record;
  EXPECT_FALSE(DecodeInput("", kShape, record).ok());
  EXPECT_FALSE(DecodeInput(MakeFrames("", 0).front(), kShape, record).ok());
  EXPECT_FALSE(DecodeInput(MakeFrames("no protobuf", 0).front(), kShape, record).ok());
  InputRecord both;
  both.mutable_row();
  both.mutable_end();
  const RowShape empty = {.numeric = 0, .features = 0, .classes = 2};
  EXPECT_FALSE(DecodeInput(MakeFrames(both.SerializeAsString(), 0).front(), empty, record).ok());
  const std::string chunk = MakeFrames(EncodeRow(SomeRow()), 0, 30).front();
  EXPECT_FALSE(DecodeInput(chunk, kShape, record).ok());
}

TEST(CodecRowTest, NoDamageCrashesItOrBringsInARowThatDoesNotFit) {
  std::mt19937_64 random(2);
  InputRecord record;
  Row row;
  int accepted = 0;
  for (int trial = 0; trial < 100'000; ++trial) {
    const RowShape shape = RandomShape(random);
    std::string bytes = EncodeRow(RandomRow(random, shape));
    for (uint64_t change = random() % 4; change > 0; --change) {
      const size_t place = random() % bytes.size();
      switch (random() % 4) {
        case 0:
          bytes[place] = static_cast<char>(random());
          break;
        case 1:
          bytes[place] = static_cast<char>(bytes[place] ^ (1 << random() % 8));
          break;
        case 2:
          bytes.insert(place, 1, static_cast<char>(random()));
          break;
        case 3:
          bytes.erase(place, 1 + random() % 3);
          break;
      }
      if (bytes.empty()) break;
    }
    // Read by a job of another shape, too.
    const RowShape reader = random() % 4 == 0 ? RandomShape(random) : shape;
    const Status status = DecodeInput(bytes, reader, record);
    if (!status.ok()) {
      ASSERT_TRUE(absl::IsInvalidArgument(status)) << status;
      ASSERT_FALSE(status.message().empty());
      continue;
    }
    ASSERT_NE(record.has_row(), record.has_end());
    if (!record.has_row()) continue;
    ++accepted;
    ToRow(record.row(), row);
    ASSERT_TRUE(Fits(row, reader));
  }
  EXPECT_GT(accepted, 10'000);  // else the test would prove nothing
}

}  // namespace
}  // namespace millrace
