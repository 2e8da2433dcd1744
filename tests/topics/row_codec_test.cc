#include "topics/row_codec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <utility>
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
  Row decoded;
  const Status status = DecodeRow(EncodeRow(row), shape, record, decoded);
  EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}

// As DecodeInput sees a record of these rows.
std::string ReasonFor(const RowBatch& rows, uint32_t count, const RowShape& shape = kShape) {
  InputRecord message;
  *message.mutable_rows() = rows;
  InputRecord record;
  const std::string value = MakeFrames(message.SerializeAsString(), 0).front();
  return std::string(DecodeInput({.first = 0, .count = count}, value, shape, record).message());
}

TEST(InputKeyTest, ComesBackAsItWas) {
  for (const InputKey& key :
       {InputKey{0, 0}, InputKey{7, 0}, InputKey{0, 1}, InputKey{UINT64_MAX - 5, 5},
        InputKey{RowNumber(uint64_t{1} << 40), kMostBatchRows}}) {
    EXPECT_EQ(DecodeInputKey(EncodeInputKey(key)), key);
  }
  EXPECT_EQ(EncodeInputKey({1, 2}), std::string("\0\0\0\0\0\0\0\1\0\0\0\2", 12));
}

TEST(InputKeyTest, OtherBytesAndMoreRowsThanThereCanBeAreNoKey) {
  EXPECT_EQ(DecodeInputKey(""), std::nullopt);
  EXPECT_EQ(DecodeInputKey("12345678"), std::nullopt);
  EXPECT_EQ(DecodeInputKey("1234567890123"), std::nullopt);
  EXPECT_EQ(DecodeInputKey(EncodeInputKey({0, kMostBatchRows + 1})), std::nullopt);
  EXPECT_EQ(DecodeInputKey(EncodeInputKey({UINT64_MAX, 1})), std::nullopt);
}

TEST(CodecRowTest, AnyRowsComeBackAsTheyWere) {
  std::mt19937_64 random(1);
  InputRecord record;
  RowBatchEncoder batch;
  RowBatchReader reader;
  Row decoded;
  for (int trial = 0; trial < 2000; ++trial) {
    const RowShape shape = RandomShape(random);
    std::vector<Row> rows(1 + random() % 5);
    for (Row& row : rows) {
      row = RandomRow(random, shape);
      row.replayed = trial % 2 == 0;
      // What all rows have in common may be left out.
      if (trial % 3 == 0) row.label = 0;
      if (trial % 5 == 0) row.target = 0;
      if (trial % 7 == 0) row.value.assign(row.index.size(), 1);
      for (double& value : row.numeric) {
        if (trial % 4 == 0) value = std::round(value);
      }
      ASSERT_TRUE(batch.Takes(row));
      batch.Add(row);
    }
    const InputKey key = {5, static_cast<uint32_t>(rows.size())};
    const Status status = DecodeInput(key, EncodeRows(batch), shape, record);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(batch.rows(), 0u);
    ASSERT_FALSE(record.has_end());
    reader.Begin(record.rows(), shape);
    const auto skipped = static_cast<uint32_t>(random() % rows.size());
    reader.Skip(skipped);
    for (size_t i = skipped; i < rows.size(); ++i) {
      ASSERT_EQ(reader.TimeOfNext(77), 77);
      ASSERT_TRUE(reader.Next(decoded).ok());
      ASSERT_EQ(decoded, rows[i]);
    }
  }
}

TEST(CodecRowTest, AMissingNumberComesBackAsMissing) {
  Row row = SomeRow();
  row.numeric[1] = std::nan("");
  InputRecord record;
  Row decoded;
  ASSERT_TRUE(DecodeRow(EncodeRow(row), kShape, record, decoded).ok());
  EXPECT_EQ(decoded.numeric[0], 0.5);
  EXPECT_TRUE(std::isnan(decoded.numeric[1]));
}

TEST(CodecRowTest, ANumberThatIsNoFloatKeepsAllItsDigits) {
  for (const double number : {0.1, 1e300, -1e-300, 16777217.0, 3e38, 5e38}) {
    Row row = SomeRow();
    row.numeric = {number, 1};
    InputRecord record;
    Row decoded;
    ASSERT_TRUE(DecodeRow(EncodeRow(row), kShape, record, decoded).ok());
    EXPECT_EQ(decoded.numeric[0], number);
    EXPECT_EQ(record.rows().numeric(1).wide_size(), 0) << "it needs no more than a float";
  }
}

TEST(CodecRowTest, ABatchTakesSoManyRowsOrBytesAndOneEpoch) {
  RowBatchEncoder batch;
  Row row = SomeRow();
  while (batch.Takes(row)) batch.Add(row);
  EXPECT_EQ(batch.rows(), kMostBatchRows);
  EXPECT_TRUE(batch.full());
  EncodeRows(batch);
  row.numeric.assign(100, 0.1);
  while (batch.Takes(row)) batch.Add(row);
  EXPECT_LT(batch.rows(), kMostBatchRows);
  EXPECT_LE(EncodeRows(batch).size(), kFullBatchBytes + EncodedBytesOf(row));
  batch.Add(row);
  row.replayed = true;
  EXPECT_FALSE(batch.Takes(row)) << "of another epoch";
  EncodeRows(batch);
  EXPECT_TRUE(batch.Takes(row));
  row.index.resize(kFullBatchBytes);
  row.value.resize(kFullBatchBytes);
  EXPECT_TRUE(batch.Takes(row)) << "by itself";
  batch.Add(row);
  EXPECT_TRUE(batch.full());
  EncodeRows(batch);
}

TEST(CodecRowTest, ARowTakesNoMoreBytesThanAreReckonedWith) {
  std::mt19937_64 random(3);
  for (int trial = 0; trial < 500; ++trial) {
    const Row row = RandomRow(random, RandomShape(random));
    EXPECT_LE(EncodeRow(row).size(), EncodedBytesOf(row));
  }
}

TEST(CodecRowTest, TheEndComesBackAsTheEnd) {
  InputRecord record;
  for (const RowNumber rows : {RowNumber(0), RowNumber(1), RowNumber(uint64_t{1} << 40)}) {
    ASSERT_TRUE(DecodeInput({0, 1}, EncodeRow(SomeRow()), kShape, record).ok());
    ASSERT_TRUE(DecodeInput({rows, 0}, EncodeEnd(rows), kShape, record).ok());
    EXPECT_FALSE(record.has_rows());
    ASSERT_TRUE(record.has_end());
    EXPECT_EQ(record.end().row_count(), rows);
  }
}

TEST(CodecRowTest, AFlushComesBackAsAFlush) {
  InputRecord record;
  ASSERT_TRUE(DecodeInput({5, 0}, EncodeEnd(5), kShape, record).ok());
  ASSERT_TRUE(DecodeInput({6, 0}, EncodeFlush(6), kShape, record).ok());
  EXPECT_FALSE(record.has_rows() || record.has_end());
  ASSERT_TRUE(record.has_flush());
  EXPECT_EQ(record.flush().row_count(), 6u);
}

TEST(CodecRowTest, RefusesAValueThatIsNotWhatItsKeySays) {
  InputRecord record;
  EXPECT_FALSE(DecodeInput({0, 2}, EncodeRow(SomeRow()), kShape, record).ok());
  EXPECT_FALSE(DecodeInput({0, 0}, EncodeRow(SomeRow()), kShape, record).ok());
  EXPECT_FALSE(DecodeInput({4, 0}, EncodeEnd(5), kShape, record).ok());
  EXPECT_FALSE(DecodeInput({5, 1}, EncodeEnd(5), kShape, record).ok());
  EXPECT_FALSE(DecodeInput({4, 0}, EncodeFlush(5), kShape, record).ok());
  EXPECT_FALSE(DecodeInput({5, 1}, EncodeFlush(5), kShape, record).ok());
  const std::string both = EncodeFlush(5) + EncodeEnd(5).substr(WholeFrameHeader().size());
  EXPECT_FALSE(DecodeInput({5, 0}, both, kShape, record).ok());
}

TEST(CodecRowTest, RefusesColumnsThatHaveNotOneValueForEachRow) {
  RowBatch rows;
  rows.set_format(kRowBatchFormat);
  rows.set_row_count(2);
  for (int column = 0; column < 2; ++column) {
    rows.add_numeric()->mutable_wide()->Resize(2, 0.5);
  }
  EXPECT_EQ(ReasonFor(rows, 2), "") << "what all rows lack is left out";
  const std::vector<std::pair<std::function<void(RowBatch&)>, std::string>> damages = {
      {[](RowBatch& r) { r.set_format(2); }, "rows in format 2, but this program reads 1"},
      {[](RowBatch& r) { r.add_label(1); }, "a column that has not one value for each row"},
      {[](RowBatch& r) { r.add_target(1); }, "a column that has not one value for each row"},
      {[](RowBatch& r) { r.add_event_time_ms(1); }, "a column that has not one value for each row"},
      {[](RowBatch& r) { r.add_source_offset(1); }, "a column that has not one value for each row"},
      {[](RowBatch& r) { r.mutable_numeric()->RemoveLast(); },
       "1 numeric columns, but the job has 2"},
      {[](RowBatch& r) { r.mutable_numeric(1)->add_wide(1); },
       "a numeric column that has not one value for each row"},
      {[](RowBatch& r) { r.mutable_numeric(1)->add_narrow(1); },
       "a numeric column that has not one value for each row"},
      {[](RowBatch& r) { r.add_index(3); }, "not as many features as the rows are said to have"},
      {[](RowBatch& r) { r.add_feature_count(0); },
       "not as many features as the rows are said to have"},
      {[](RowBatch& r) { r.add_value(3); }, "not as many feature values as feature indices"},
      {[](RowBatch& r) { r.add_id(3); }, "1 ids of 2 rows, but the job has 0 id columns"},
  };
  for (const auto& [damage, reason] : damages) {
    RowBatch damaged = rows;
    damage(damaged);
    EXPECT_EQ(ReasonFor(damaged, 2), reason);
  }
  rows.set_row_count(0);
  EXPECT_NE(ReasonFor(rows, 0), "");
}

TEST(CodecRowTest, RefusesARowThatDoesNotFitTheJobsShape) {
  EXPECT_EQ(ReasonFor(SomeRow()), "");
  Row row = SomeRow();
  row.label = 3;
  EXPECT_EQ(ReasonFor(row), "class id 3");
  row = SomeRow();
  row.numeric.push_back(1);
  EXPECT_EQ(ReasonFor(row), "3 numeric columns, but the job has 2");
  row.numeric.clear();
  EXPECT_EQ(ReasonFor(row), "0 numeric columns, but the job has 2");
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
  EXPECT_EQ(ReasonFor(SomeRow(), shape), "0 ids of 1 rows, but the job has 2 id columns");
  Row row = SomeRow();
  row.ids = {7, 7};
  EXPECT_EQ(ReasonFor(row, shape), "");
  EXPECT_EQ(ReasonFor(row), "2 ids of 1 rows, but the job has 0 id columns");
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
  Row row;
  ASSERT_TRUE(DecodeRow(value, kShape, record, row).ok());
  const RowBatch* const rows = &record.rows();
  const uint32_t* const index = rows->index().data();
  ASSERT_TRUE(DecodeRow(value, kShape, record, row).ok());
  EXPECT_EQ(&record.rows(), rows);
  EXPECT_EQ(record.rows().index().data(), index);
}

TEST(CodecRowTest, RefusesWhatIsNeitherRowsNorAnEnd) {
  const InputKey key = {0, 1};
  InputRecord record;
  EXPECT_FALSE(DecodeInput(key, "", kShape, record).ok());
  EXPECT_FALSE(DecodeInput(key, MakeFrames("", 0).front(), kShape, record).ok());
  EXPECT_FALSE(DecodeInput(key, MakeFrames("no protobuf", 0).front(), kShape, record).ok());
  InputRecord both;
  ASSERT_TRUE(DecodeInput(key, EncodeRow(SomeRow()), kShape, both).ok());
  both.mutable_end();
  EXPECT_FALSE(
      DecodeInput(key, MakeFrames(both.SerializeAsString(), 0).front(), kShape, record).ok());
  const std::string chunk = MakeFrames(EncodeRow(SomeRow()), 0, 30).front();
  EXPECT_FALSE(DecodeInput(key, chunk, kShape, record).ok());
}

TEST(CodecRowTest, NoDamageCrashesItOrBringsInARowThatDoesNotFit) {
  std::mt19937_64 random(2);
  InputRecord record;
  RowBatchEncoder batch;
  RowBatchReader rows;
  Row row;
  int accepted = 0;
  for (int trial = 0; trial < 100'000; ++trial) {
    const RowShape shape = RandomShape(random);
    batch.Add(RandomRow(random, shape));
    batch.Add(RandomRow(random, shape));
    std::string bytes = EncodeRows(batch);
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
        default:
          bytes.erase(place, 1 + random() % 3);
          break;
      }
      if (bytes.empty()) break;
    }
    // Read by a job of another shape, too.
    const RowShape reader = random() % 4 == 0 ? RandomShape(random) : shape;
    const Status status = DecodeInput({0, 2}, bytes, reader, record);
    if (!status.ok()) {
      ASSERT_TRUE(absl::IsInvalidArgument(status)) << status;
      ASSERT_FALSE(status.message().empty());
      continue;
    }
    ASSERT_TRUE(record.has_rows());
    rows.Begin(record.rows(), reader);
    for (int i = 0; i < 2; ++i) {
      if (!rows.Next(row).ok()) continue;
      ++accepted;
      ASSERT_TRUE(Fits(row, reader));
    }
  }
  EXPECT_GT(accepted, 10'000);  // else the test would prove nothing
}

}  // namespace
}  // namespace millrace
