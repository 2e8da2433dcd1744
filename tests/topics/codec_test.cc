#include "topics/codec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "topics/frame.h"
#include "topics/partitioning.h"

namespace millrace {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
const float kNaN = std::nanf("");

double RandomDouble(std::mt19937_64& random) {
  return std::ldexp(static_cast<double>(random()) - 9e18, -static_cast<int>(random() % 120));
}

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
  for (RowNumber rows : {RowNumber{0}, RowNumber{1}, RowNumber{1} << 40}) {
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
  EXPECT_EQ(ReasonFor(row), "3 numeric values where the job has 2");
  row.numeric.clear();
  EXPECT_EQ(ReasonFor(row), "0 numeric values where the job has 2");
  row = SomeRow();
  row.value.pop_back();
  EXPECT_EQ(ReasonFor(row), "as many indices as values expected");
  row = SomeRow();
  row.index[2] = 10;
  EXPECT_EQ(ReasonFor(row), "feature 10 where the job has 10");
  row.index[2] = 0xffffffff;
  EXPECT_EQ(ReasonFor(row), "feature 4294967295 where the job has 10");
}

TEST(CodecRowTest, RefusesARowWithoutItsIdsOrWithATargetThatIsNoNumber) {
  RowShape shape = kShape;
  shape.ids = 2;
  EXPECT_EQ(ReasonFor(SomeRow(), shape), "0 ids where the job has 2");
  Row row = SomeRow();
  row.ids = {7, 7};
  EXPECT_EQ(ReasonFor(row, shape), "");
  EXPECT_EQ(ReasonFor(row), "2 ids where the job has 0");
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

TEST(CodecMomentsTest, AnyMomentsComeBackAsTheyWere) {
  std::mt19937_64 random(3);
  for (int trial = 0; trial < 500; ++trial) {
    Moments moments(random() % 6);
    for (size_t i = 0; i < moments.columns(); ++i) {
      moments.count[i] = static_cast<double>(random() % 1000);
      moments.mean[i] = RandomDouble(random);
      moments.m2[i] = RandomDouble(random);
    }
    MomentsMessage message;
    message.add_count(99);  // of an older use
    ToProto(moments, message);
    ASSERT_TRUE(CheckMoments(message, moments.columns()).ok());
    ASSERT_EQ(FromProto(message), moments);
  }
}

TEST(CodecMomentsTest, ChecksTheNumberOfColumnsOfEachPart) {
  MomentsMessage message;
  EXPECT_TRUE(CheckMoments(message, 2).ok()) << "no moments at all are fine";
  ToProto(Moments(2), message);
  EXPECT_TRUE(CheckMoments(message, 2).ok());
  EXPECT_FALSE(CheckMoments(message, 1).ok());
  EXPECT_FALSE(CheckMoments(message, 3).ok());
  EXPECT_FALSE(CheckMoments(message, 0).ok());
  MomentsMessage damaged = message;
  damaged.add_mean(1);
  EXPECT_FALSE(CheckMoments(damaged, 2).ok());
  damaged = message;
  damaged.mutable_m2()->RemoveLast();
  EXPECT_FALSE(CheckMoments(damaged, 2).ok());
  damaged.Clear();
  damaged.add_mean(1);
  EXPECT_FALSE(CheckMoments(damaged, 1).ok());
}

EvaluationSums RandomSums(std::mt19937_64& random, uint32_t classes) {
  EvaluationSums sums;
  for (uint64_t row = random() % 40; row > 0; --row) {
    std::vector<float> probabilities(classes);
    for (float& p : probabilities) p = static_cast<float>(random() % 1000) / 1000.0f;
    sums.Add(static_cast<uint32_t>(random() % classes), probabilities);
  }
  return sums;
}

TEST(CodecSumsTest, AnyEvaluationSumsComeBackAsTheyWere) {
  std::mt19937_64 random(4);
  EvaluationSumsMessage message;
  for (int trial = 0; trial < 1000; ++trial) {
    const auto classes = static_cast<uint32_t>(2 + random() % 9);
    const EvaluationSums sums = RandomSums(random, classes);
    ToProto(sums, message);
    ASSERT_TRUE(CheckSums(message, classes).ok());
    ASSERT_EQ(FromProto(message), sums);
  }
}

TEST(CodecSumsTest, TheSameSumsAreTheSameBytesHoweverTheyWereReached) {
  std::mt19937_64 random(5);
  for (int trial = 0; trial < 100; ++trial) {
    const EvaluationSums a = RandomSums(random, 2);
    const EvaluationSums b = RandomSums(random, 2);
    EvaluationSums ab = a;
    ab.Merge(b);
    EvaluationSums ba = b;
    ba.Merge(a);
    ba.log_loss = ab.log_loss;  // the one figure that is rounded
    EvaluationSumsMessage first;
    EvaluationSumsMessage second;
    ToProto(ab, first);
    ToProto(ba, second);
    ASSERT_EQ(first.SerializeAsString(), second.SerializeAsString());
  }
}

TEST(CodecSumsTest, RefusesCellsAndBinsThatNoModelOfTheJobGives) {
  EvaluationSumsMessage message;
  message.add_cell(8);
  message.add_cell_count(1);
  message.add_score_bin(2 * EvaluationSums::kScoreBins - 1);
  message.add_score_count(1);
  EXPECT_TRUE(CheckSums(message, 3).ok());
  EXPECT_FALSE(CheckSums(message, 2).ok());
  EvaluationSumsMessage damaged = message;
  damaged.set_cell(0, 9);
  EXPECT_FALSE(CheckSums(damaged, 3).ok());
  damaged = message;
  damaged.set_score_bin(0, 2 * EvaluationSums::kScoreBins);
  EXPECT_FALSE(CheckSums(damaged, 3).ok());
  damaged = message;
  damaged.add_cell_count(1);
  EXPECT_FALSE(CheckSums(damaged, 3).ok());
  damaged = message;
  damaged.add_score_bin(1);
  EXPECT_FALSE(CheckSums(damaged, 3).ok());
}

GradientSum RandomGradient(std::mt19937_64& random, size_t blocks, size_t block_size,
                           size_t touched) {
  GradientSum gradient(blocks * block_size, block_size);
  for (size_t i = 0; i < touched; ++i) {
    float* block = gradient.Block(random() % blocks);
    for (size_t k = 0; k < block_size; ++k) block[k] += static_cast<float>(RandomDouble(random));
  }
  return gradient;
}

// The slice's values written out.
std::vector<float> Values(const Slice& slice) {
  std::vector<float> values(slice.end() - slice.begin());
  AddSlice(slice, 1.0f, values);
  return values;
}

TEST(CodecSumsTest, SumsOfARegressionComeBackAsTheyWere) {
  EvaluationSums sums;
  sums.AddTarget(3, 2.5f);
  sums.AddTarget(-1, 4);
  EvaluationSumsMessage message;
  ToProto(sums, message);
  EXPECT_TRUE(CheckSums(message, 0).ok());
  EXPECT_EQ(FromProto(message), sums);
}

TEST(CodecEmbeddingsTest, RefusesIdsOutOfOrderOfAnotherShardOrWithoutTheirValues) {
  std::vector<uint64_t> ours;
  uint64_t other = 0;
  for (uint64_t id = 0; ours.size() < 3 || other == 0; ++id) {
    ShardOfEmbedding(id, 2) == 1 ? ours.push_back(id) : static_cast<void>(other = id);
  }
  EmbeddingBlock block;
  for (const uint64_t id : {ours[0], ours[1], ours[2]}) block.add_id(id);
  block.mutable_value()->Resize(6, 1.0f);
  EXPECT_TRUE(CheckEmbeddings(block, 2, 1, 2).ok());
  EXPECT_FALSE(CheckEmbeddings(block, 3, 1, 2).ok()) << "two values each";
  EXPECT_FALSE(CheckEmbeddings(block, 2, 0, 2).ok()) << "of the other shard";
  block.set_id(2, ours[1]);
  EXPECT_FALSE(CheckEmbeddings(block, 2, 1, 2).ok()) << "twice";
  block.set_id(1, other);
  EXPECT_FALSE(CheckEmbeddings(block, 2, 1, 2).ok()) << "one of the other shard";
}

TEST(CodecSliceTest, AnyGradientsSlicesPutTogetherAreTheGradient) {
  std::mt19937_64 random(6);
  int sparse = 0;
  int dense = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    const size_t block_size = 2 + random() % 5;
    const size_t blocks = 1 + random() % 60;
    GradientSum gradient = RandomGradient(random, blocks, block_size, random() % (blocks + 1));
    const uint64_t keys = blocks * block_size;
    const auto shards = 1 + random() % 5;
    std::vector<float> joined;
    for (uint64_t shard = 0; shard < shards; ++shard) {
      const KeyRange range = {keys * shard / shards, keys * (shard + 1) / shards};
      Slice slice;
      EncodeSlice(gradient, range, sizeof(float), slice);
      ASSERT_TRUE(CheckSlice(slice, range).ok()) << CheckSlice(slice, range);
      ++(slice.dense_size() > 0 ? dense : sparse);
      const std::vector<float> values = Values(slice);
      joined.insert(joined.end(), values.begin(), values.end());
    }
    ASSERT_TRUE(std::equal(joined.begin(), joined.end(), gradient.values().begin(),
                           gradient.values().end()));
  }
  EXPECT_GT(sparse, 100);
  EXPECT_GT(dense, 100);
}

TEST(CodecSliceTest, SendsAGradientInWhicheverFormIsSmaller) {
  std::mt19937_64 random(7);
  const size_t block_size = 4;
  const size_t blocks = 100;
  const KeyRange all = {0, blocks * block_size};
  for (size_t touched = 0; touched <= blocks; ++touched) {
    GradientSum gradient(all.size(), block_size);
    for (size_t block = 0; block < touched; ++block) gradient.Block(block)[0] = 1;
    Slice slice;
    EncodeSlice(gradient, all, sizeof(float), slice);
    Slice whole;
    EncodeDenseSlice(gradient.values(), all, whole);
    EXPECT_LE(slice.ByteSizeLong(), whole.ByteSizeLong() + 8) << touched << " blocks touched";
    if (touched < blocks / 2) {
      EXPECT_EQ(slice.sparse_index_size(), static_cast<int>(touched * block_size));
    }
  }
}

TEST(CodecSliceTest, AShardsFormFollowsFromItsOwnKeysAlone) {
  // All that was touched belongs to the first half of the keys; the second half has nothing to say.
  GradientSum gradient(400, 4);
  for (size_t block = 0; block < 50; ++block) gradient.Block(block)[0] = 1;
  Slice slice;
  EncodeSlice(gradient, {200, 400}, sizeof(float), slice);
  EXPECT_EQ(slice.dense_size(), 0);
  EXPECT_EQ(slice.sparse_index_size(), 0);
  EncodeSlice(gradient, {0, 200}, sizeof(float), slice);
  EXPECT_EQ(slice.dense_size(), 200);
}

TEST(CodecSliceTest, ASliceThatGoesPastItsMessageIsReadAsPartOfIt) {
  for (const size_t size : {0, 1, 31, 32, 5000}) {
    std::vector<float> values(size);
    for (size_t i = 0; i < size; ++i) values[i] = static_cast<float>(i) / 3 - 100;
    const KeyRange range = {700, 700 + size};
    Gradient message;
    message.set_worker(3);
    message.set_cut(9);
    const std::string bytes =
        SerializeWithDenseSlice(message, Gradient::kSliceFieldNumber, values, range);
    EncodeDenseSlice(values, range, *message.mutable_slice());
    Gradient read;
    ASSERT_TRUE(ParseMessage(bytes, read).ok());
    EXPECT_EQ(read.SerializeAsString(), message.SerializeAsString());
  }
}

TEST(CodecSliceTest, AddsAMultipleOfASliceToWhatIsThere) {
  Slice dense;
  EncodeDenseSlice(std::vector<float>{1, 2, 3}, {5, 8}, dense);
  std::vector<float> target = {10, 20, 30};
  AddSlice(dense, 0.5f, target);
  EXPECT_EQ(target, (std::vector<float>{10.5f, 21, 31.5f}));
  Slice sparse;
  sparse.add_sparse_index(1);
  sparse.add_sparse_value(4);
  AddSlice(sparse, -1, target);
  EXPECT_EQ(target, (std::vector<float>{10.5f, 17, 31.5f}));
  AddSlice(Slice(), 1, target);
  EXPECT_EQ(target, (std::vector<float>{10.5f, 17, 31.5f}));
}

TEST(CodecSliceTest, RefusesKeysOfAnotherShardAndFormsThatAreNone) {
  const KeyRange range = {10, 13};
  Slice good;
  EncodeDenseSlice(std::vector<float>{1, 2, 3}, range, good);
  EXPECT_TRUE(CheckSlice(good, range).ok());
  EXPECT_FALSE(CheckSlice(good, {10, 14}).ok());
  EXPECT_FALSE(CheckSlice(good, {9, 13}).ok());
  EXPECT_FALSE(CheckSlice(Slice(), range).ok());

  Slice damaged = good;
  damaged.add_dense(4);
  EXPECT_FALSE(CheckSlice(damaged, range).ok());
  damaged = good;
  damaged.mutable_dense()->RemoveLast();
  EXPECT_FALSE(CheckSlice(damaged, range).ok());
  damaged = good;
  damaged.add_sparse_index(0);
  damaged.add_sparse_value(1);
  EXPECT_FALSE(CheckSlice(damaged, range).ok()) << "dense and sparse at once";

  Slice nothing = good;
  nothing.clear_dense();
  EXPECT_TRUE(CheckSlice(nothing, range).ok()) << "no value at all is the empty sparse slice";
}

TEST(CodecSliceTest, RefusesSparseKeysThatDoNotAscendOrLieOutside) {
  const KeyRange range = {10, 13};
  const auto check = [&](std::vector<uint32_t> index, size_t values) {
    Slice slice;
    slice.set_begin(range.begin);
    slice.set_end(range.end);
    slice.mutable_sparse_index()->Add(index.begin(), index.end());
    for (size_t i = 0; i < values; ++i) slice.add_sparse_value(1);
    return CheckSlice(slice, range).ok();
  };
  EXPECT_TRUE(check({0, 2}, 2));
  EXPECT_TRUE(check({0, 1, 2}, 3));
  EXPECT_FALSE(check({0, 2}, 1));
  EXPECT_FALSE(check({0, 2}, 3));
  EXPECT_FALSE(check({2, 0}, 2));
  EXPECT_FALSE(check({1, 1}, 2));
  EXPECT_FALSE(check({0, 3}, 2));
  EXPECT_FALSE(check({0xffffffff}, 1));
}

TEST(CodecSliceTest, FindsANaNAnInfinityOrTooLargeAValueWhereverItStands) {
  constexpr float kLargest = 1e38f;
  for (float poison : {kNaN, kInfinity, -kInfinity, 1.1e38f, -1.1e38f}) {
    for (int place = 0; place < 40; ++place) {
      Slice dense;
      Slice sparse;
      for (int i = 0; i < 40; ++i) {
        dense.add_dense(i == place ? poison : -1e38f);
        sparse.add_sparse_value(i == place ? poison : 1e38f);
      }
      EXPECT_FALSE(AllWithin(dense, kLargest));
      EXPECT_FALSE(AllWithin(sparse, kLargest));
      dense.set_dense(place, 0);
      sparse.set_sparse_value(place, 0);
      EXPECT_TRUE(AllWithin(dense, kLargest));
      EXPECT_TRUE(AllWithin(sparse, kLargest));
    }
  }
  EXPECT_TRUE(AllWithin(Slice(), 0));
}

TEST(CodecFiguresTest, FiguresKeepWhetherThereIsAnAuc) {
  EvaluationFigures figures;
  figures.rows = 7;
  figures.accuracy = 0.5;
  figures.log_loss = 0.25;
  Figures message;
  ToProto(figures, message);
  EXPECT_EQ(message.rows(), 7u);
  EXPECT_EQ(message.accuracy(), 0.5);
  EXPECT_EQ(message.log_loss(), 0.25);
  EXPECT_FALSE(message.has_auc());
  figures.auc = 0.75;
  ToProto(figures, message);
  EXPECT_TRUE(message.has_auc());
  EXPECT_EQ(message.auc(), 0.75);
}

TEST(CodecTest, ParsingAWholeMessageNamesWhatItIsNot) {
  Gradient message;
  const Status status = ParseMessage("\xff\xff\xff", message);
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_EQ(status.message(), "not a millrace.Gradient");
}

}  // namespace
}  // namespace millrace
