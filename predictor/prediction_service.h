// What the Predictor answers over HTTP, without sockets.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "predictor/challenger.h"
#include "predictor/model_source.h"

namespace millrace {

// NAME=VALUE of a query, both decoded.
struct HttpParameter {
  std::string_view name{};
  std::string_view value{};  // empty: there is none
};

struct HttpRequest {
  std::string_view method{};
  std::string_view path{};  // without the query
  std::vector<HttpParameter> query{};
  std::string_view content_type{};   // empty: none was given
  std::string_view authorization{};  // the same
  std::string_view body{};
};

struct HttpResponse {
  int status = 200;
  std::string_view content_type = "application/json";
  std::string body{};
  std::string_view allow{};  // with 405: the methods
};

// POST /predict   rows as JSON: an object, an array of objects, or NDJSON (Content-Type
//                 application/x-ndjson), an object on each line. The answer has the same form, with
//                 a prediction for each row (predictor/prediction_text.h). One row of an array that
//                 cannot be used makes the whole request an error (400); of NDJSON its line of the
//                 answer is {"error": ...}, but more than kMostBadLines make all of it an error.
//                 With ?contributions=1 predictions have the member contributions, too
//                 (predictor/contributions.h).
// POST /labels    labels of rows that were predicted, and
// GET /challenger the figures of both models by these labels, if there is a challenger
//                 (predictor/challenger.h)
// GET /model      what is known of the model, and how old it is
// GET /healthz    200: the program runs
// GET /readyz     200: there is a model to predict by
//
// Without a model all but /healthz are 503, with the reason. A parameter of the query that is not
// known, or has no such value, is an error (400), but for /healthz and /readyz, to which probes add
// some of their own.
// Errors are {"error": "..."}. Thread-safe.
class PredictionService {
 public:
  struct Options {
    // Requests for predictions and for the model must have it (Authorization: Bearer TOKEN); empty:
    // they need none.
    std::string token{};
    // Predicts the same rows, which changes no prediction; null: there is none. It outlives the
    // service.
    Challenger* challenger = nullptr;
  };

  static constexpr size_t kMostBadLines = 100;

  // `models` outlives it.
  PredictionService(const ModelSource& models, Options options);
  ~PredictionService();

  HttpResponse Answer(const HttpRequest& request) const;
  // The answer to a request that is refused whatever its body says: that need not be read.
  std::optional<HttpResponse> Refuse(const HttpRequest& request) const;

 private:
  class Session;

  HttpResponse Predict(const HttpRequest& request) const;
  HttpResponse TakeLabels(const HttpRequest& request) const;
  HttpResponse DescribeModel() const;
  HttpResponse IsReady() const;
  // Why there is no model.
  std::string WhyThereIsNone() const;
  bool Has(std::string_view path) const;
  std::string Paths() const;
  bool MayAsk(const HttpRequest& request) const;
  StatusOr<std::unique_ptr<Session>> TakeSession() const;
  void GiveBack(std::unique_ptr<Session> session) const;

  const ModelSource& models_;
  const Options options_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Session>> idle_;  // guarded by mutex_
};

}  // namespace millrace
