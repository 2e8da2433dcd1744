// An exported model on disk: its files, and whether they are what was written.
//
//   model.json           ModelDescription (messages/exported_model.proto), written last
//   weights.npy          float32: dense parameters. Of a linear model (features + 1, scores), or
//                        (numeric columns + 1, scores) if it is wide: a row for each feature, then
//                        the bias; of another model one dimension
//   moments.npy          float64 (3, numeric columns): count, mean and m2, the sum of squared
//                        distances from the mean; only where there are numeric columns
//   embedding-ids.npy    uint64 (rows), ascending; only where the model has embedding rows
//   embedding-rows.npy   float32 (rows, row_width)
//   model.onnx           the graph that predicts (exports/onnx_model.h); only where WhyNotDense is
//                        empty (exports/dense_model.h)
//   encoder.json         EncoderDescription: what the graph takes; beside it only
//
// docs/model-format.md says what they mean.
#pragma once

#include <google/protobuf/message.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "messages/exported_model.pb.h"

namespace millrace {

inline constexpr uint32_t kModelFormat = 2;

inline constexpr char kDescriptionFile[] = "model.json";
inline constexpr char kWeightsFile[] = "weights.npy";
inline constexpr char kMomentsFile[] = "moments.npy";
inline constexpr char kIdsFile[] = "embedding-ids.npy";
inline constexpr char kRowsFile[] = "embedding-rows.npy";
inline constexpr char kGraphFile[] = "model.onnx";
inline constexpr char kEncoderFile[] = "encoder.json";
// All that a model may have.
inline constexpr std::array<std::string_view, 7> kAllFiles = {
    kDescriptionFile, kWeightsFile, kMomentsFile, kIdsFile, kRowsFile, kGraphFile, kEncoderFile};

// The files that a model of this shape has beside its description, by name.
std::vector<std::string> FilesOf(const ModelShape& shape);

// Writes the message as JSON, with every default said: an atomic file. ResourceExhausted: it would
// be larger than any reader takes.
Status WriteJsonFile(const std::string& path, const google::protobuf::Message& message);

// The errors of a file that is not what was written: DataLoss with the remedy. `what` begins with
// the file's path.
Status DamagedModel(const std::string& what);

// Adds the files to the description, and writes it with a checksum of itself: from now on the
// folder is a model. Errors name the file.
Status SealModel(const std::string& folder, ModelDescription description);

// Reads the description and checks all that it says, and the size and checksum of each file.
// NotFound: there is no model here. DataLoss: a file is missing or was changed, or the model is of
// another format. Errors name the file and the remedy.
StatusOr<ModelDescription> CheckModelFiles(const std::string& folder);

}  // namespace millrace
