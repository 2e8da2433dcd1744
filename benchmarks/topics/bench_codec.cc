// Messages to and from bytes, against copying as many bytes: the least that a message can cost.
//
//   weights   an answer of 6,150 weights: encoded as a shard does (a fresh record's value each
//             time), decoded as a worker does, into the vector that it computes with
//   rows      texts of 60 hashed features: encoded as the producers do, many to a record,
//             decoded and checked as a worker does, into a warm Row
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/check.h"
#include "benchmarks/turns.h"
#include "models/row.h"
#include "topics/frame.h"
#include "topics/message_codec.h"
#include "topics/row_codec.h"
#include "topics/slice_codec.h"

namespace millrace {
namespace {

constexpr size_t kWeights = 6150;
constexpr KeyRange kRange = {0, kWeights};
constexpr RowShape kShape = {.numeric = 0, .features = 1024, .classes = 6};
constexpr size_t kRowFeatures = 60;
constexpr size_t kRows = 1024;

std::string EncodeWeights(const std::vector<float>& weights) {
  Weights message;
  message.set_epoch(1);
  message.set_clock(1000);
  message.set_released(true);
  EncodeDenseSlice(weights, kRange, *message.mutable_slice());
  return std::move(MakeFrames(message.SerializeAsString(), 0).front());
}

void DecodeWeights(std::string_view value, std::vector<float>& weights) {
  const StatusOr<Frame> frame = ParseFrame(value);
  Weights message;
  MILLRACE_CHECK(frame.ok() && ParseMessage(frame->body, message).ok());
  MILLRACE_CHECK(CheckSlice(message.slice(), kRange).ok());
  weights.assign(message.slice().dense().begin(), message.slice().dense().end());
}

std::vector<Comparison> CompareWeights() {
  struct State {
    std::vector<float> weights = std::vector<float>(kWeights, 0.5f);
    std::vector<float> decoded = std::vector<float>(kWeights);
    std::string value;
  };
  auto state = std::make_shared<State>();
  state->value = EncodeWeights(state->weights);
  const auto bytes = reinterpret_cast<const char*>(state->weights.data());
  return {
      {.name = "encode 6,150 weights, against copying them into a string",
       .unit = "messages/s",
       .items = 1,
       .ours = [state] { return static_cast<double>(EncodeWeights(state->weights).back()); },
       .floor =
           [state, bytes] {
             return static_cast<double>(std::string(bytes, kWeights * sizeof(float)).back());
           }},
      {.name = "decode 6,150 weights, against copying them",
       .unit = "messages/s",
       .items = 1,
       .ours =
           [state] {
             DecodeWeights(state->value, state->decoded);
             return static_cast<double>(state->decoded.back());
           },
       .floor =
           [state] {
             std::memcpy(state->decoded.data(), state->value.data(), kWeights * sizeof(float));
             asm volatile("" : : "r"(state->decoded.data()) : "memory");
             return 0.0;
           }},
  };
}

Row MakeRow(std::mt19937& random) {
  Row row;
  row.label = static_cast<uint32_t>(random() % kShape.classes);
  for (uint32_t i = 0; i < kRowFeatures; ++i) {
    const uint32_t gap = static_cast<uint32_t>(kShape.features / kRowFeatures);
    row.index.push_back(i * gap + static_cast<uint32_t>(random() % gap));
    row.value.push_back(0.125f);
  }
  return row;
}

// Rows as the producers put them into records: as many as make one full.
struct Record {
  InputKey key;
  std::string value;
};

std::vector<Record> EncodeAll(const std::vector<Row>& rows, RowBatchEncoder& encoder) {
  std::vector<Record> records;
  RowNumber next = 0;
  const auto finish = [&] {
    const uint32_t count = encoder.rows();
    records.push_back({{.first = next, .count = count}, EncodeRows(encoder)});
    next += count;
  };
  for (const Row& row : rows) {
    if (encoder.full() || !encoder.Takes(row)) finish();
    encoder.Add(row);
  }
  finish();
  return records;
}

std::vector<Comparison> CompareRows() {
  struct State {
    std::vector<Row> rows;
    std::vector<std::string> copies;  // of the rows
    std::vector<Record> records;
    RowBatchEncoder encoder;
    InputRecord record;
    RowBatchReader reader;
    Row row;
  };
  // The bytes of a row are the indices and the values.
  const auto copy_out = [](const Row& row) {
    std::string value(row.index.size() * (sizeof(uint32_t) + sizeof(float)), '\0');
    const size_t half = row.index.size() * sizeof(uint32_t);
    std::memcpy(value.data(), row.index.data(), half);
    std::memcpy(value.data() + half, row.value.data(), half);
    return value;
  };
  auto state = std::make_shared<State>();
  std::mt19937 random(1);
  for (size_t i = 0; i < kRows; ++i) {
    state->rows.push_back(MakeRow(random));
    state->copies.push_back(copy_out(state->rows.back()));
  }
  state->records = EncodeAll(state->rows, state->encoder);
  return {
      {.name = "encode rows of 60 features, against copying each into a string",
       .unit = "rows/s",
       .items = kRows,
       .ours =
           [state] {
             return static_cast<double>(EncodeAll(state->rows, state->encoder).back().value.back());
           },
       .floor =
           [state, copy_out] {
             double last = 0;
             for (const Row& row : state->rows) last += copy_out(row).back();
             return last;
           }},
      {.name = "decode and check rows of 60 features, against copying each",
       .unit = "rows/s",
       .items = kRows,
       .ours =
           [state] {
             double sum = 0;
             for (const Record& record : state->records) {
               MILLRACE_CHECK(DecodeInput(record.key, record.value, kShape, state->record).ok());
               state->reader.Begin(state->record.rows(), kShape);
               for (uint32_t i = 0; i < record.key.count; ++i) {
                 MILLRACE_CHECK(state->reader.Next(state->row).ok());
                 sum += state->row.index.back();
               }
             }
             return sum;
           },
       .floor =
           [state] {
             double sum = 0;
             for (const std::string& value : state->copies) {
               constexpr size_t kBytes = kRowFeatures * sizeof(uint32_t);
               state->row.index.resize(kRowFeatures);
               state->row.value.resize(kRowFeatures);
               std::memcpy(state->row.index.data(), value.data(), kBytes);
               std::memcpy(state->row.value.data(), value.data() + kBytes, kBytes);
               sum += state->row.index.back();
             }
             return sum;
           }},
  };
}

std::vector<Comparison> AllComparisons() {
  std::vector<Comparison> all = CompareWeights();
  for (Comparison& comparison : CompareRows()) all.push_back(std::move(comparison));
  return all;
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  return millrace::RunComparisons("The codec against bare copies.", argc, argv,
                                  millrace::AllComparisons());
}
