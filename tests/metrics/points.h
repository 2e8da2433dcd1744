// Metric points as a job would send them.
#pragma once

#include <cstdint>
#include <vector>

#include "messages/records.pb.h"

namespace millrace {

inline Figures MakeFigures(uint64_t rows, double accuracy, double log_loss) {
  Figures figures;
  figures.set_rows(rows);
  figures.set_accuracy(accuracy);
  figures.set_f1_macro(accuracy - 0.1);
  figures.set_f1_weighted(accuracy - 0.05);
  figures.set_log_loss(log_loss);
  figures.set_has_auc(true);
  figures.set_auc(0.7);
  figures.set_prior_accuracy(0.76);
  figures.set_prior_log_loss(0.55);
  return figures;
}

// Four workers at the same clock, each with 100 rows per update, all of them tested first.
inline MetricPoint ServerAt(int64_t timestamp_ms, uint64_t clock) {
  MetricPoint point;
  point.set_timestamp_ms(timestamp_ms);
  MetricPoint::ServerProgress& server = *point.mutable_server();
  server.set_rounds(clock);
  server.set_updates(4 * clock);
  server.set_rows_trained(400 * clock);
  server.set_unsaved_updates(24);
  for (uint32_t worker = 0; worker < 4; ++worker) {
    WorkerProgress& progress = *server.add_workers();
    progress.set_worker(worker);
    progress.set_clock(clock);
    progress.set_buffer_rows(128);
  }
  if (clock > 0) *server.mutable_progressive() = MakeFigures(400 * clock, 0.78, 0.5);
  server.mutable_training()->mutable_optimizer()->set_learning_rate(0.04);
  return point;
}

inline MetricPoint EndedAt(int64_t timestamp_ms, uint64_t clock) {
  MetricPoint point = ServerAt(timestamp_ms, clock);
  point.mutable_server()->set_ended(true);
  for (WorkerProgress& worker : *point.mutable_server()->mutable_workers()) worker.set_left(true);
  return point;
}

inline MetricPoint EvaluationAt(int64_t timestamp_ms, uint64_t clock, bool last = false) {
  MetricPoint point;
  point.set_timestamp_ms(timestamp_ms);
  point.mutable_evaluation()->set_clock(clock);
  point.mutable_evaluation()->set_last(last);
  *point.mutable_evaluation()->mutable_holdout() = MakeFigures(1000, 0.79, 0.49);
  return point;
}

inline MetricPoint ProducerAt(int64_t timestamp_ms, uint64_t bytes, uint64_t total, uint64_t rows,
                              bool ended = false) {
  MetricPoint point;
  point.set_timestamp_ms(timestamp_ms);
  MetricPoint::ProducerProgress& producer = *point.mutable_producer();
  producer.set_bytes_read(bytes);
  producer.set_bytes_total(total);
  producer.set_rows_read(rows + 1);
  producer.set_rows_rejected(1);
  producer.set_rows_sent(rows);
  producer.set_ended(ended);
  producer.set_epoch_of_stream(1);
  producer.set_epochs_of_stream(1);
  return point;
}

}  // namespace millrace
