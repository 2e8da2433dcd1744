#include "topics/gradient_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "base/big_endian.h"
#include "topics/frame.h"
#include "topics/message_codec.h"
#include "topics/slice_codec.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

constexpr GradientShape kGradients = {
    .job = 77, .epoch = 3, .shard = 1, .shards = 2, .range = {10, 14}, .workers = 4};

Gradient Header(WorkerId worker, Clock clock) {
  Gradient message;
  message.set_job(77);
  message.set_epoch(3);
  message.set_worker(worker);
  message.set_clock(clock);
  return message;
}

Gradient GoodUpdate() {
  Gradient message = Header(2, 5);
  Gradient::Update& update = *message.mutable_update();
  update.set_row_count(1);
  update.set_weight_sum(1);
  update.set_rows_end(30);
  EncodeDenseSlice(std::vector<float>{1, 2, 3, 4}, kGradients.range, *update.mutable_slice());
  return message;
}

std::string KeyOf(const Gradient& message) { return EncodeBigEndian32(message.worker()); }

std::string ValueOf(const Gradient& message) {
  return MakeFrames(message.SerializeAsString(), 0).front();
}

// Why the message is refused; empty: it is not.
std::string Reason(const Gradient& message) {
  GradientDecoder decoder(kGradients);
  const StatusOr<std::optional<Gradient>> decoded =
      decoder.Decode(KeyOf(message), ValueOf(message));
  if (!decoded.ok()) return std::string(decoded.status().message());
  EXPECT_EQ((*decoded)->SerializeAsString(), message.SerializeAsString());
  return "";
}

TEST(GradientCodec, EachKindComesBackAsItWasSent) {
  EXPECT_EQ(Reason(GoodUpdate()), "");
  Gradient ask = Header(0, 4);
  ask.mutable_ask();
  EXPECT_EQ(Reason(ask), "");
  ask.clear_clock();
  EXPECT_EQ(Reason(ask), "");
  Gradient leave = Header(3, 9);
  leave.mutable_leave()->add_dead_letters()->set_reason("no row");
  EXPECT_EQ(Reason(leave), "");
  Gradient restore = Header(1, 9);
  restore.mutable_restore()->set_committed_row(12);
  EXPECT_EQ(Reason(restore), "");
  Gradient request;
  request.set_epoch(3);
  request.set_worker(kNoWorker);
  request.mutable_request_snapshot()->set_number(1'700'000'000'000);
  EXPECT_EQ(Reason(request), "");
  request.mutable_cancel_snapshot()->set_snapshot(5);
  EXPECT_EQ(Reason(request), "");
}

TEST(GradientCodec, RefusesNumbersThatNobodyComesTo) {
  struct Case {
    std::string reason;
    std::function<void(Gradient&)> change;
  };
  const std::vector<Case> cases = {
      {"clock", [](Gradient& m) { m.set_clock(kMostClock + 1); }},
      {"rows up to", [](Gradient& m) { m.mutable_update()->set_rows_end(UINT64_MAX); }},
      {"rows repeated up to",
       [](Gradient& m) { m.mutable_update()->set_repeated_end(UINT64_MAX); }},
      {"rows repeated up to",
       [](Gradient& m) { m.mutable_restore()->mutable_rows()->set_repeated_end(UINT64_MAX); }},
      {"rows repeated up to 8, of which those up to 7 have been counted",
       [](Gradient& m) {
         m.mutable_update()->set_rows_end(7);
         m.mutable_update()->set_repeated_end(8);
       }},
      {"rows repeated up to 1, of which those up to 0 have been counted",
       [](Gradient& m) { m.mutable_restore()->add_rows_before()->set_repeated_end(1); }},
      {"new rows", [](Gradient& m) { m.mutable_update()->set_new_rows(UINT64_MAX); }},
      {"training rows", [](Gradient& m) { m.mutable_update()->set_row_count(UINT64_MAX); }},
      {"snapshot",
       [](Gradient& m) { m.mutable_update()->mutable_mark()->set_snapshot(UINT64_MAX); }},
      {"a cut at clock 9 of a worker at clock 5",
       [](Gradient& m) {
         m.mutable_update()->mutable_mark()->set_snapshot(1);
         m.mutable_update()->mutable_mark()->set_cut(9);
       }},
      {"clock", [](Gradient& m) { m.mutable_restore()->set_least_clock(UINT64_MAX); }},
      {"clock",
       [](Gradient& m) {
         m.mutable_restore();
         m.set_clock(kMostClock);
       }},
      {"committed row", [](Gradient& m) { m.mutable_restore()->set_committed_row(UINT64_MAX); }},
      {"rows up to", [](Gradient& m) { m.mutable_restore()->mutable_rows()->set_end(UINT64_MAX); }},
      {"fewer rows", [](Gradient& m) { m.mutable_restore()->add_rows_before()->set_end(1); }},
  };
  for (const Case& bad : cases) {
    Gradient message = GoodUpdate();
    bad.change(message);
    EXPECT_THAT(Reason(message), HasSubstr(bad.reason)) << bad.reason;
  }
  Gradient request;
  request.set_epoch(3);
  request.set_worker(kNoWorker);
  request.mutable_request_snapshot()->set_number(kMostRequest + 1);
  EXPECT_THAT(Reason(request), HasSubstr("snapshot"));
  request.mutable_cancel_snapshot()->set_snapshot(kMostSnapshot + 1);
  EXPECT_THAT(Reason(request), HasSubstr("snapshot"));
}

TEST(GradientCodec, RefusesRecordsWhoseKeyAndMessageDisagree) {
  GradientDecoder decoder(kGradients);
  const auto reason = [&](const std::string& key, const Gradient& message) {
    return std::string(decoder.Decode(key, ValueOf(message)).status().message());
  };
  EXPECT_THAT(reason(EncodeBigEndian32(1), GoodUpdate()), HasSubstr("different workers"));
  EXPECT_THAT(reason(EncodeBigEndian32(4), GoodUpdate()), HasSubstr("not a worker of this job"));
  EXPECT_THAT(reason(EncodeBigEndian32(kNoWorker), GoodUpdate()), HasSubstr("different workers"));
  Gradient request = Header(2, 0);
  request.mutable_request_snapshot()->set_number(1);
  EXPECT_THAT(reason(EncodeBigEndian32(2), request), HasSubstr("by worker 2"));
  Gradient nothing = Header(2, 0);
  EXPECT_THAT(reason(EncodeBigEndian32(2), nothing), HasSubstr("unknown kind"));
}

TEST(GradientCodec, UnfinishedChunksGoOnFromASavedState) {
  const std::vector<std::string> frames = MakeFrames(GoodUpdate().SerializeAsString(), 8, 30);
  ASSERT_GT(frames.size(), 2u);
  GradientDecoder live(kGradients);
  for (size_t i = 0; i + 1 < frames.size(); ++i) {
    ASSERT_FALSE(live.Decode(KeyOf(GoodUpdate()), frames[i])->has_value());
  }
  ShardState state;
  live.Save(state);
  GradientDecoder restored(kGradients);
  ASSERT_TRUE(restored.Load(state).ok());
  EXPECT_TRUE(restored.Decode(KeyOf(GoodUpdate()), frames.back())->has_value());

  ShardState of_nobody = state;
  of_nobody.mutable_partial(0)->set_worker(4);
  EXPECT_TRUE(absl::IsDataLoss(restored.Load(of_nobody)));
  ShardState whole = state;
  whole.mutable_partial(0)->set_count(static_cast<uint32_t>(whole.partial(0).chunk_size()));
  EXPECT_TRUE(absl::IsDataLoss(restored.Load(whole))) << "it would grow beyond its count";
}

TEST(GradientCodec, AnUpdateWhoseSliceGoesPastTheMessageIsReadAsOneWithIt) {
  for (const size_t size : {0, 1, 31, 32, 5000}) {
    std::vector<float> values(size);
    for (size_t i = 0; i < size; ++i) values[i] = static_cast<float>(i) / 3 - 100;
    const KeyRange range = {700, 700 + size};
    Gradient message = Header(3, 9);
    message.set_number(12345);
    message.mutable_update()->set_row_count(4);
    const StatusOr<std::string> bytes = SerializeUpdate(message, values, range, kMostMessageBytes);
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    EncodeDenseSlice(values, range, *message.mutable_update()->mutable_slice());
    Gradient read;
    ASSERT_TRUE(ParseMessage(*bytes, read).ok());
    EXPECT_EQ(read.SerializeAsString(), message.SerializeAsString());
    message.mutable_update()->clear_slice();
    EXPECT_TRUE(
        absl::IsResourceExhausted(SerializeUpdate(message, values, range, 4 * size).status()));
  }
}

TEST(GradientCodec, AStepWhosePartsGoPastTheMessageIsReadAsOneWithThem) {
  const std::vector<float> put = {1, 2, 3};
  const std::vector<float> first(1, -1.5f);
  const std::vector<float> second(5000, 0.25f);
  Gradient message = Header(3, 9);
  message.set_number(12345);
  Gradient::Update& update = *message.mutable_update();
  update.set_weight_sum(2);
  update.add_table(7);
  update.add_wanted(70);
  const std::vector<PartView> puts = {{0, put}};
  const std::vector<PartView> parts = {{0, first}, {300, second}};
  const std::vector<EmbeddingId> ids = {7, 8, uint64_t{1} << 63};
  const std::vector<float> values(60, 0.75f);
  const TableRowsView rows = {ids, values};
  const StatusOr<MessageBytes> bytes = SerializeStep(message, puts, parts, rows, kMostMessageBytes);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  Gradient read;
  ASSERT_TRUE(ParseMessage(bytes->Joined(), read).ok());
  for (const auto& [views, to] :
       {std::pair(puts, update.mutable_put()), std::pair(parts, update.mutable_part())}) {
    for (const PartView& view : views) {
      ParameterPart& part = *to->Add();
      part.set_parameter(view.parameter);
      part.mutable_value()->Add(view.values.begin(), view.values.end());
    }
  }
  update.mutable_embeddings()->mutable_id()->Add(ids.begin(), ids.end());
  update.mutable_embeddings()->mutable_value()->Add(values.begin(), values.end());
  EXPECT_EQ(read.SerializeAsString(), message.SerializeAsString());
  EXPECT_EQ(bytes->size(), message.ByteSizeLong());
  update.clear_put();
  update.clear_part();
  update.clear_embeddings();
  EXPECT_TRUE(
      absl::IsResourceExhausted(SerializeStep(message, puts, parts, rows, 20'000).status()));
  ASSERT_TRUE(
      ParseMessage(SerializeStep(message, {}, {}, {}, kMostMessageBytes)->Joined(), read).ok());
  EXPECT_EQ(read.SerializeAsString(), message.SerializeAsString()) << "no parts, no rows";
}

}  // namespace
}  // namespace millrace
