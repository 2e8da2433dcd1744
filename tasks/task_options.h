// Derives the options of a job's parts from its features and training settings.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "messages/job.pb.h"
#include "messages/records.pb.h"
#include "models/model.h"
#include "processors/server_options.h"
#include "processors/worker_options.h"

namespace millrace {

// Whether the model can be trained on these features. InvalidArgument with what is wrong.
Status CheckModel(const JobFeatures& features, const Training& training);

// What workers send, if the user has not said it: what an online learner has learnt where there is
// one (softmax), unless a setting is given that concerns gradients only.
void SetDefaultUpdate(Training& training);
// The learning rate, if the user has not said it: one for factors and networks, whose steps add up.
void SetDefaultLearningRate(Training& training);
// The rounds after the end of the stream, if the user has not said them: some for gradients.
void SetDefaultRounds(Training& training);
// The rows of the first batches, if the user has said nothing of batches: few, of a network.
void SetDefaultBatches(Training& training);
// All of these, before the settings are published.
void SetDefaults(Training& training);
// The same for a job that has begun with `published`: what its defaults were it keeps, since those
// of the version that began it may have been others.
void SetDefaultsAsBegun(const Training& published, Training& training);

// Of a new job: how many features the categorical columns have, and each column of text, if the
// user has not said it. Many, where updates and answers have only those that a batch names, fewer
// if a feature has many weights; few, where they have all, but of text that is learnt online on a
// sliding buffer as many as an answer can carry. `training`: as far as the user of the
// producer has said how the job is trained; null: that is not known. The classes of `spec` are
// known.
void SetDefaultBuckets(const Training* training, FeatureSpec& spec);

// What to say of a model with hashed features of which each answer has all weights, so many, and
// more than by default, that rounds are slow; empty: nothing.
std::string ManyWeightsText(const JobFeatures& features, const Training& training);

// What to say of a sliding buffer that the rows of a turn do not fit into; empty: nothing.
std::string SmallBufferText(const JobFeatures& features, const Training& training);

// Models of more parameters are wide, unless the user has said otherwise.
uint64_t WideAbove(const Training& training);

// Whether the weights of the hashed features are embedding rows (Training.wide_above).
bool IsWide(const JobFeatures& features, const Training& training);

// Units of each hidden layer of its network, from the input on.
std::vector<size_t> HiddenLayers(const Training& training);

// Shared by all tasks of a process. REQUIRES: CheckModel.
std::unique_ptr<Model> MakeModel(const JobFeatures& features, const Training& training);

// `shard`: among those of all groups of servers, as everywhere outside of a shard's own state.
ServerOptions MakeServerOptions(const JobFeatures& features, const JobTraining& training,
                                ShardId shard);
WorkerOptions MakeWorkerOptions(const JobFeatures& features, const JobTraining& training,
                                WorkerId worker);

}  // namespace millrace
