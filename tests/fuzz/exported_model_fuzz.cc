// Exported models of any content: one is refused with a reason, or it predicts; one that is as it
// was written predicts.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "exports/model_files.h"
#include "exports/model_reader.h"
#include "exports/model_scorer.h"
#include "features/feature_encoder.h"
#include "tests/exports/small_models.h"
#include "tests/fuzz/mutate_message.h"
#include "tests/fuzz/scratch_folder.h"
#include "tests/fuzz/target.h"

namespace millrace::fuzz {
namespace {

// One of each kind, written once.
struct Original {
  ScratchFolder folder{};
  ModelDescription description{};
  std::map<std::string, std::string> files{};

  Original(ModelShape::Kind kind, size_t classes, bool ids) {
    const ExportedModel model = RandomModel(DescriptionFor(kind, classes, ids));
    MILLRACE_CHECK(millrace::Write(folder.path(), model).ok());
    description = model.description;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
      const std::string name = entry.path().filename();
      files[name] = folder.Read(name);
    }
  }
};

// What every program does that predicts: a row whose cells are all empty, and one of numbers.
Status Predict(const std::string& folder) {
  MILLRACE_ASSIGN_OR_RETURN(ExportedModel model, ReadModel(folder));
  const ModelScorer scorer(std::move(model));
  MILLRACE_ASSIGN_OR_RETURN(FeatureEncoder encoder,
                            FeatureEncoder::Create(scorer.model().description.features()));
  for (const std::string_view cell : {"", "3"}) {
    const std::vector<std::string_view> cells(encoder.required_columns().size() - 1, cell);
    Row row;
    if (!encoder.EncodeFeatures(cells, &row).ok()) continue;
    const Row* const view = &row;
    std::vector<float> scores(scorer.score_count());
    scorer.Score(RowsView(&view, 1), scores);
  }
  return absl::OkStatus();
}

}  // namespace

void FuzzOne(ByteSource& bytes) {
  static const Original originals[] = {{ModelShape::LINEAR, 3, false},
                                       {ModelShape::LINEAR, 0, true},
                                       {ModelShape::FACTORIZATION_MACHINE, 2, true},
                                       {ModelShape::DEEP_FM, 0, true},
                                       {ModelShape::NETWORK, 3, true}};
  const Original& original = originals[bytes.Below(std::size(originals))];
  for (const auto& [name, content] : original.files) original.folder.Write(name, content);
  if (bytes.empty()) {
    MILLRACE_CHECK(Predict(original.folder.path()).ok());
    return;
  }
  auto file = original.files.begin();
  std::advance(file, bytes.Below(original.files.size()));
  std::string content = file->second;
  Mutate(content, bytes);
  original.folder.Write(file->first, content);
  // As whoever means harm would leave it: with checksums that fit.
  if (!bytes.Chance(32)) {
    ModelDescription description = original.description;
    if (bytes.Chance(128)) Mutate(description, bytes);
    // (JSON has no text that is not UTF-8.)
    if (!SealModel(original.folder.path(), description).ok()) return;
  }
  const Status status = Predict(original.folder.path());
  MILLRACE_CHECK(status.ok() || !status.message().empty());
}

}  // namespace millrace::fuzz
