#include "models/running_scaler.h"

namespace millrace {

RunningScaler::RunningScaler(const Moments& before, bool scales)
    : scales_(scales),
      seen_(before),
      added_(before.columns()),
      scaler_(scales ? Scaler(before) : Scaler::Identity(before.columns())) {}

void RunningScaler::ScaleRow(std::span<const double> numeric, std::span<float> features) {
  if (!is_current_) scaler_.ScaleBy(seen_);
  is_current_ = true;
  scaler_.ScaleRow(numeric, features);
}

void RunningScaler::Add(const Row& row) {
  if (!scales_) return;
  seen_.Add(row);
  added_.Add(row);
  is_current_ = false;
}

void RunningScaler::AddTarget(const Row& row, float estimate) {
  const bool estimated = seen_.target.known();
  TargetMoments::Outcome outcome;
  if (estimated) outcome = seen_.target.OutcomeOf(static_cast<double>(estimate), row.target);
  for (TargetMoments* target : {&seen_.target, &added_.target}) {
    target->Add(row.target);
    if (estimated) target->AddOutcome(outcome);
  }
}

}  // namespace millrace
