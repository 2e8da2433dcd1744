// A second model that predicts the rows of requests beside the first, and the figures of both from
// the labels that come later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "exports/model_scorer.h"
#include "messages/features.pb.h"
#include "models/evaluation.h"
#include "predictor/compared_rows.h"
#include "predictor/model_source.h"

namespace millrace {

// Thread-safe.
class Challenger {
 public:
  // The figures of these sums, as a JSON object.
  using FiguresText =
      std::function<std::string(const EvaluationSums& sums, const FeatureSpec& features)>;

  struct Options {
    // The member of a row, named as a column is, by whose value a label names the row. Ids are
    // text: as it stands there, whatever decimal signs the models have.
    std::string id_column;
    size_t most_waiting_bytes = size_t{64} << 20;  // of rows whose label has not come
    FiguresText figures;
  };

  static constexpr size_t kMostIdBytes = 256;

  // Both sources outlive it. FailedPrecondition: the two cannot be compared, as far as there are
  // models; InvalidArgument: the ids are the label.
  static StatusOr<std::unique_ptr<Challenger>> Create(const ModelSource& models,
                                                      const ModelSource& challengers,
                                                      Options options);
  ~Challenger();
  Challenger(const Challenger&) = delete;
  Challenger& operator=(const Challenger&) = delete;

  // The rows of a request, as they are answered.
  class Answered {
   public:
    explicit Answered(std::shared_ptr<const ModelScorer> model) : model_(std::move(model)) {}

    // The JSON of the next row, or of all rows of the request; it outlives the object.
    void AddText(std::string_view text) { texts_.push_back(text); }
    // The scores of the next rows.
    void AddScores(std::span<const float> scores);

   private:
    friend class Challenger;

    // So many are kept of one request; the rows behind them are not compared.
    static constexpr size_t kMostScores = size_t{1} << 20;

    size_t rows() const { return scores_.size() / model_->score_count(); }

    const std::shared_ptr<const ModelScorer> model_;
    std::vector<std::string_view> texts_;
    std::vector<float> scores_;  // of the first rows()
    uint64_t left_out_ = 0;      // rows behind them
  };

  // Has the challenger predict the same rows, and keeps what both have said, for as long as
  // memory lasts, until the labels come. A row is not compared if its id is missing, or if the
  // challenger cannot use it.
  void Compare(const Answered& answered);

  // Labels as JSON, {"ID":7,"LABEL":"yes"}, by the names of the columns: an object, an array of
  // objects, or an object on each line. Returns {"labels":N,"unknown":M}, as an object: N rows were
  // counted, M labels name no row that waits. InvalidArgument, with the line or row: one of them is
  // no label; none counts then. Unavailable: there is no model yet.
  StatusOr<std::string> TakeLabels(std::string_view body, bool is_lines);

  // {"labels":.., "waiting":.., "forgotten":.., "unknown_labels":.., "not_compared":..,
  // "not_compared_reason":.., "newer_challenger_error":.., "figures":{"model":{..},
  // "challenger":{..}}}, as an object. They begin anew when the model has other classes.
  std::string ToJson() const;

 private:
  struct Lane;

  Challenger(const ModelSource& models, const ModelSource& challengers, Options options);

  StatusOr<std::unique_ptr<Lane>> MakeLane(const ModelScorer& model,
                                           std::shared_ptr<const ModelScorer> challenger) const;
  StatusOr<std::unique_ptr<Lane>> TakeLane(const ModelScorer& model);
  void GiveBack(std::unique_ptr<Lane> lane);
  void ReadRows(const Answered& answered, Lane& lane);
  Status AddRow(std::span<const std::string_view> cells, Lane& lane);
  void Flush(const Answered& answered, Lane& lane);
  StatusOr<FeatureSpec> SpecOfLabels() const;

  const ModelSource& models_;
  const ModelSource& challengers_;
  const Options options_;
  mutable std::mutex mutex_;  // guards all that follows
  std::vector<std::unique_ptr<Lane>> idle_;
  ComparedRows compared_rows_;
  std::optional<FeatureSpec> label_spec_;  // label and classes of the rows in it
  uint64_t not_compared_ = 0;
  std::string not_compared_reason_;  // of the last such row
};

}  // namespace millrace
