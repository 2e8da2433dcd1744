// A trainer's process as the simulator runs it: production TrainerTasks and a program of its own.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tasks/shared_weights_reader.h"
#include "tasks/trainer_task.h"
#include "tests/simulation/trainers.h"
#include "tests/simulation/worker_process.h"

namespace millrace::simulation {

class TrainerHost : public WorkerProcess {
 public:
  explicit TrainerHost(World& world);

  bool Step() override;
  void Die() override;

  void Assign(WorkerId worker) override;
  void Revoke(WorkerId worker, bool /*lost*/) override { tasks_.erase(worker); }
  void Lose(WorkerId worker) override;
  std::optional<GoingTrainer> TakeTrainer(WorkerId worker) override;
  bool Has(WorkerId worker) const override { return tasks_.contains(worker); }
  void RepeatAll() override;
  bool left(WorkerId worker) const override { return tasks_.at(worker).task->left(); }
  Offset next_row(WorkerId /*worker*/) const override { return 0; }
  std::string Describe(WorkerId worker) const override;

 protected:
  std::unique_ptr<TrainerTask> NewTask(WorkerId worker);
  // The seam: what a planted error does otherwise.
  virtual std::unique_ptr<TrainerTask> GoOver(WorkerId worker, std::unique_ptr<TrainerTask> task);
  virtual TrainerStep MakeStep(WorkerId worker, Clock clock, const TrainerSteps& steps) const;
  // What the steps have read; of a row that they have not, zeros.
  RowReader RowsIn(const TrainerSteps& steps) const;
  virtual void Change(std::vector<OutgoingRecord>&) const {}

 private:
  struct Hosted {
    std::unique_ptr<TrainerTask> task;
    Offset next_weights = 0;
    bool lost = false;
    std::optional<Clock> offered{};  // the last clock of which it has made a step
    // The clock whose rows it reads, and in how many parts it has begun to.
    std::optional<Clock> reads{};
    size_t parts_read = 0;
    bool leaves = false;
  };

  void Begin(WorkerId worker, Hosted& hosted);
  bool ReadWeights(WorkerId worker, Hosted& hosted);
  bool ReadShared();
  // Has values of which no step is made.
  static bool MayStep(const Hosted& hosted);
  void MakeStep(WorkerId worker, Hosted& hosted);
  // Reads what the step of this clock needs: one half of the rows, then the other. Returns whether
  // it has to wait for some of them.
  bool ReadRows(WorkerId worker, Clock clock, Hosted& hosted);
  void Advance(WorkerId worker, Hosted& hosted);
  void SendFrom(WorkerId worker);

  std::map<WorkerId, Hosted> tasks_;
  SharedWeightsReader shared_;
  Offset next_shared_ = 0;  // while there are tasks
  std::vector<OutgoingRecord> out_;
};

}  // namespace millrace::simulation
