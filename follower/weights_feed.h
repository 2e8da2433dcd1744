// The newest dense weights of a job, as the last partition of `weights` has them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "exports/exported_model.h"
#include "follower/job_model.h"
#include "messages/records.pb.h"
#include "tasks/shared_weights_reader.h"

namespace millrace {

// Keeps the newest record of each shard. They are of one moment if there is one shard; of several,
// each is of its own last update, as the answers to a worker of an eventual job are. Not
// thread-safe.
class WeightsFeed {
 public:
  // REQUIRES: a model without embedding rows, which are not in the feed.
  explicit WeightsFeed(JobModel model);

  // Takes a record; what it has brought, if these weights are newer; else null. (A server that was
  // replaced may send older ones.) Errors: those of SharedWeightsReader, which make the record
  // unusable. `timestamp_ms`: the record's.
  StatusOr<std::shared_ptr<const SharedWeights>> Take(std::string_view key, std::string_view value,
                                                      int64_t timestamp_ms);

  // How many shards have sent no weights yet.
  size_t missing() const;
  // When the oldest part of the weights was sent. REQUIRES missing() == 0.
  int64_t sent_ms() const;

  // The model that the weights are; created_ms is sent_ms(), rows and clock are those of shard 0's
  // part. What the feed does not say (the figures) is not in its description. REQUIRES missing() ==
  // 0. DataLoss: they are no numbers.
  StatusOr<ExportedModel> ToModel() const;

 private:
  struct Part {
    std::shared_ptr<const SharedWeights> weights;  // null: none has come
    int64_t sent_ms = 0;
  };

  JobModel model_;
  SharedWeightsReader reader_;
  std::vector<Part> parts_;  // by shard
};

}  // namespace millrace
