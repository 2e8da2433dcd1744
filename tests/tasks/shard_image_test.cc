#include "tasks/shard_image.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/tasks/shard_task_fixture.h"
#include "topics/frame.h"

namespace millrace {
namespace {

class ShardImageTest : public ShardTaskTest {
 protected:
  void Image(const ServerOptions& options, size_t most_part_bytes = kMostBatchBytes) {
    Use(options);
    ids_.clear();
    if (options.embeddings) ids_ = EmbeddingsOf(options);
    image_ = std::make_unique<ShardImage>(options_, ids_);
    assembler_ = CheckpointAssembler(most_part_bytes);
    taken_ = 0;
  }
  // Takes the next record of `parameters`, and shows what is new.
  Status TakeNext() {
    const Checkpoint::Entry& entry = log_.parameters[taken_++];
    if (entry.key.empty()) return absl::OkStatus();
    MILLRACE_ASSIGN_OR_RETURN(
        const std::optional<CheckpointAssembler::Part> part,
        assembler_.Add(static_cast<Offset>(taken_ - 1), entry.key, entry.value));
    if (part) MILLRACE_RETURN_IF_ERROR(image_->Take(*part));
    if (!part || !image_->is_new()) return absl::OkStatus();
    MILLRACE_RETURN_IF_ERROR(image_->Finish());
    image_->Show();
    return absl::OkStatus();
  }
  Status TakeAll() {
    while (taken_ < log_.parameters.size()) MILLRACE_RETURN_IF_ERROR(TakeNext());
    return absl::OkStatus();
  }
  void ExpectShows(const ShardTask& task) const {
    const ShardImage::View& view = image_->view();
    const std::span<const float> weights = task.processor().shard().weights();
    EXPECT_TRUE(std::ranges::equal(view.weights, weights));
    EXPECT_EQ(view.range, options_.range);
    EXPECT_EQ(view.position, task.position());
    EXPECT_EQ(view.has_ended, task.processor().AllLeft());
    if (!options_.embeddings) return;
    std::vector<float> rows(ids_.size() * options_.embeddings->width());
    ASSERT_TRUE(task.processor().ReadEmbeddings(ids_, rows).ok());
    EXPECT_EQ(view.rows, rows);
  }

  std::vector<EmbeddingId> ids_;
  std::unique_ptr<ShardImage> image_;
  CheckpointAssembler assembler_;
  size_t taken_ = 0;  // records of log_.parameters
};

ServerOptions WithRows(int trial) {
  ServerOptions options =
      SmallServer(trial % 2 == 0 ? ConsistencyPolicy::Sequential() : ConsistencyPolicy::Bounded(1));
  options.optimizer.kind =
      trial % 3 == 0 ? OptimizerOptions::Kind::kAdam : OptimizerOptions::Kind::kSgd;
  options.random_init_ranges = {{.begin = 1, .end = 4, .limit = 0.5f}};
  if (trial % 4 != 0) {
    options.embeddings = {.seed = 5, .initial_limit = {0, 1, 1}};
    if (trial % 3 == 0) options.embeddings->admit_after = 2;
    if (trial % 5 == 0) options.embeddings->expire_after_ms = 100;
  }
  return options;
}

TEST_F(ShardImageTest, ShowsAfterEachCheckpointWhatATaskLoads) {
  for (int trial = 0; trial < 60; ++trial) {
    SCOPED_TRACE(trial);
    std::mt19937 random(static_cast<uint32_t>(trial));
    const ServerOptions options = WithRows(trial);
    Image(options, trial % 7 == 0 ? 1 : kMostBatchBytes);
    for (const LogRecord& record : RandomLog(random, options, 80)) {
      AppendAndFold(record);
      if (random() % 8 > 0) continue;
      Checkpoint();
      if (random() % 3 == 0) continue;  // several at once
      ASSERT_TRUE(TakeAll().ok());
      MemoryByteMap store;
      const auto task = Load(store);
      ASSERT_TRUE(task.ok()) << task.status();
      ExpectShows(**task);
    }
  }
}

TEST_F(ShardImageTest, WithoutACheckpointShowsWhatTheJobBeginsWith) {
  Image(WithRows(1));
  ASSERT_TRUE(image_->is_new());
  ASSERT_TRUE(image_->Finish().ok());
  image_->Show();
  ExpectShows(*task_);
}

TEST_F(ShardImageTest, ShowsNothingOfACheckpointBeforeAllOfItHasCome) {
  ServerOptions options = SmallServer();
  options.range = {0, 3 * ParameterShard::kBlockKeys};
  Image(options, 1);  // each record is a part
  Checkpoint();
  const auto fold = [&](float value) {
    const std::vector<float> sum(options.range.size(), value);
    for (WorkerId worker = 0; worker < options.workers; ++worker) {
      const Clock clock = task_->processor().clocks().clock(worker);
      AppendAndFold(Update(worker, clock, sum, options.range));
    }
    Checkpoint();
  };
  fold(1);
  ASSERT_TRUE(TakeAll().ok());
  const std::vector<float> before = image_->view().weights;
  fold(1);
  while (taken_ + 1 < log_.parameters.size()) {  // its last record is the transaction's marker
    ASSERT_EQ(image_->view().weights, before);
    ASSERT_TRUE(TakeNext().ok());
  }
  EXPECT_FALSE(image_->is_new());
  EXPECT_NE(image_->view().weights, before);
  ExpectShows(*task_);
}

TEST_F(ShardImageTest, ShowsARowThatWasRemovedAsOneThatWasNeverThere) {
  ServerOptions options = SmallServer(ConsistencyPolicy::Eventual());
  options.embeddings = {.seed = 5, .initial_limit = {1, 1}};
  Image(options);
  Gradient message = Update(0, 0, std::vector<float>(options.range.size(), 1), options.range);
  message.mutable_update()->mutable_embeddings()->add_id(3);
  message.mutable_update()->mutable_embeddings()->mutable_value()->Resize(2, 1.0f);
  Image(options);
  ASSERT_TRUE(image_->Finish().ok());
  image_->Show();
  const std::vector<float> initial = image_->view().rows;
  AppendAndFold(message);
  Checkpoint();
  ASSERT_TRUE(TakeAll().ok());
  ASSERT_NE(image_->view().rows, initial);
  AppendAndFold(Message(Gradient::kAsk, 0, 1));
  std::optional<millrace::Checkpoint> removes = *task_->BeginCheckpoint();
  removes->expired = {EmbeddingRowKey(0, 3)};
  ASSERT_TRUE(log_.CommitTransaction(*removes, 0).ok());
  ASSERT_TRUE(TakeAll().ok());
  EXPECT_EQ(image_->view().rows, initial);
}

TEST_F(ShardImageTest, RefusesWhatIsNotOfItsShard) {
  const auto status_of = [&](const ServerOptions& written) {
    Use(written);
    AppendAndFold(Message(Gradient::kAsk, 0, 0));
    Checkpoint();
    taken_ = 0;
    return TakeAll();
  };
  ServerOptions other = SmallServer();
  other.workers = 2;
  Image(SmallServer());
  EXPECT_TRUE(absl::IsDataLoss(status_of(other)));
  Image(SmallServer());
  EXPECT_TRUE(status_of(SmallServer()).ok());
  Image(SmallServer());
  EXPECT_TRUE(absl::IsDataLoss(
      image_->Take({.entries = {{"p" + std::string(8, '\0'), "no block"}}, .end = {}})));
}

TEST_F(ShardImageTest, RefusesAStateOfATimeOrAPlaceThatNoShardComesTo) {
  const auto finished = [&](const std::function<void(ShardState&)>& change) {
    ShardState state;
    task_->processor().SaveState(state);
    change(state);
    std::string bytes;
    const auto pieces = EncodeState(state);
    for (const std::string& piece : *pieces) bytes += piece;
    Image(SmallServer());
    EXPECT_TRUE(image_->Take({.entries = {}, .end = Offset(1), .state = bytes}).ok());
    return image_->Finish();
  };
  EXPECT_TRUE(finished([](ShardState&) {}).ok());
  for (const auto& [change, reason] :
       std::vector<std::pair<std::function<void(ShardState&)>, std::string>>{
           {[](ShardState& state) { state.set_step_ms(-1); }, "later than the end of the log"},
           {[](ShardState& state) { state.set_shrinkage(NAN); }, "no sum of penalties"},
           {[](ShardState& state) { state.set_position(-1); }, "below 0"},
           {[](ShardState& state) { state.mutable_previous_round()->set_step_ms(1); },
            "its previous round is later"},
       }) {
    const Status status = finished(change);
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr(reason));
  }
}

TEST_F(ShardImageTest, RefusesARowOfATimeThatNoLogHas) {
  ServerOptions options = SmallServer(ConsistencyPolicy::Eventual());
  options.embeddings = {.seed = 5, .initial_limit = {1, 1}};
  EmbeddingRow row;
  row.set_updates(1);
  row.mutable_values()->Resize(2, 1.0f);
  const auto taken = [&] {
    Image(options);
    const std::string value = MakeFrames(row.SerializeAsString(), 0).front();
    return image_->Take({.entries = {{EmbeddingRowKey(0, 3), value}}, .end = {}});
  };
  EXPECT_TRUE(taken().ok());
  row.set_updated_ms(std::numeric_limits<int64_t>::min());
  EXPECT_TRUE(absl::IsDataLoss(taken())) << "how long ago it was is no number";
}

TEST_F(ShardImageTest, ShowsWhenAllWorkersHaveLeft) {
  Image(SmallServer());
  for (WorkerId worker = 0; worker < options_.workers; ++worker) {
    AppendAndFold(Message(Gradient::kLeave, worker, 0));
    Checkpoint();
    ASSERT_TRUE(TakeAll().ok());
    EXPECT_EQ(image_->view().has_ended, worker + 1u == options_.workers);
  }
}

}  // namespace
}  // namespace millrace
