// Judges a run: every invariant, after every event that could break it.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "messages/records.pb.h"
#include "tests/simulation/referee.h"
#include "tests/simulation/row_audit.h"
#include "tests/simulation/world.h"

namespace millrace::simulation {

// Holds the untruncated log's fold (the referee's) against the live state, against `parameters` at
// every marker, against every answer; and every accepted update against the rows it must hold.
class Inspector final : public Observer {
 public:
  explicit Inspector(World& world);

  void OnAppended(Topic topic, int32_t partition, const LogRecord& record) override;
  void OnFolded(const ShardTask& task) override;
  void OnAnswers(const ShardTask& task, std::span<const OutgoingRecord> answers) override;
  void OnAnnouncement(const ShardTask& task, std::span<const OutgoingRecord> answers) override;
  void OnSentByWorker(WorkerId worker, std::span<const OutgoingRecord> records) override;
  void OnCheckpointCommitted() override;
  void OnError(const std::string& what) override { Fail(what); }

  // When everything has come to rest and the last checkpoint has been made.
  void CheckEnd(const ShardTask& task);

  const Referee& referee() const { return referee_; }
  bool AllLeft() const;
  bool failed() const { return !violation_.empty(); }
  // The first thing that went wrong.
  const std::string& violation() const { return violation_; }

  void Fail(const std::string& what) {
    if (violation_.empty()) violation_ = what;
  }

 private:
  // Returns who is answered.
  std::set<WorkerId> CheckAnswers(const Referee::State& state,
                                  std::span<const OutgoingRecord> answers);
  void CheckAnswer(const Referee::State& state, WorkerId worker, const Weights& message);
  void CheckParameters();
  void CheckDeadLetters(size_t count, bool exactly);
  void CheckRecovery(const ShardTask& task);

  World& world_;
  Referee referee_;
  RowAudit rows_;
  size_t audited_ = 0;  // of referee_.accepted()
  std::string violation_;
};

}  // namespace millrace::simulation
