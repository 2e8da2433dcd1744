#include "watch/figures_json.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "topics/figures_codec.h"
#include "watch/class_figures.h"

namespace millrace {
namespace {

using Json = nlohmann::ordered_json;

std::optional<double> If(bool known, double value) {
  return known ? std::optional<double>(value) : std::nullopt;
}

Json ReliabilityJson(const Figures& figures) {
  Json bins = Json::array();
  for (int i = 0; i < figures.reliability_bin_size(); ++i) {
    constexpr double kWidth = 1.0 / kReliabilityBins;
    const double bin = figures.reliability_bin(i);
    bins.push_back({{"from", Short(bin * kWidth)},
                    {"to", Short((bin + 1) * kWidth)},
                    {"rows", figures.reliability_rows(i)},
                    {"confidence", Short(figures.reliability_confidence(i))},
                    {"accuracy", Short(figures.reliability_accuracy(i))}});
  }
  return bins;
}

Json ClassesJson(const std::vector<ClassFigures>& classes) {
  Json all = Json::array();
  for (const ClassFigures& one : classes) {
    all.push_back({{"name", one.name},
                   {"rows", one.rows},
                   {"predicted", one.predicted},
                   {"precision", Short(one.precision)},
                   {"recall", Short(one.recall)},
                   {"f1", Short(one.f1)}});
  }
  return all;
}

Json ConfusionJson(const Figures& figures) {
  Json all = Json::array();
  for (const Confusion& cell : ConfusionsOf(figures)) {
    all.push_back(Json::array({cell.label, cell.predicted, cell.rows}));
  }
  return all;
}

}  // namespace

double Short(double value) { return std::round(value * 1e6) / 1e6; }

Json Short(std::optional<double> value) { return value ? Json(Short(*value)) : Json(); }

Json FiguresJson(const Figures& figures,
                 const google::protobuf::RepeatedPtrField<std::string>& class_names) {
  if (figures.has_rmse()) {
    return {{"rows", figures.rows()},
            {"rmse", Short(figures.rmse())},
            {"mae", Short(If(figures.has_mae(), figures.mae()))},
            {"r2", Short(If(figures.has_r2(), figures.r2()))},
            {"prior_rmse", Short(figures.prior_rmse())}};
  }
  Json json = {{"rows", figures.rows()},
               {"accuracy", Short(figures.accuracy())},
               {"f1_macro", Short(figures.f1_macro())},
               {"f1_weighted", Short(figures.f1_weighted())},
               {"log_loss", Short(figures.log_loss())}};
  if (figures.has_auc()) json["auc"] = Short(figures.auc());
  if (figures.has_pr_auc()) json["pr_auc"] = Short(figures.pr_auc());
  json["prior_accuracy"] = Short(figures.prior_accuracy());
  json["prior_log_loss"] = Short(figures.prior_log_loss());
  if (figures.has_pr_auc()) json["prior_pr_auc"] = Short(figures.prior_pr_auc());
  json["calibration_error"] =
      Short(If(figures.has_calibration_error(), figures.calibration_error()));
  json["reliability"] = ReliabilityJson(figures);
  if (figures.class_rows_size() > 0) {
    json["classes"] = ClassesJson(ClassFiguresOf(figures, class_names));
  }
  if (figures.cell_size() > 0) json["confusion"] = ConfusionJson(figures);
  return json;
}

}  // namespace millrace
