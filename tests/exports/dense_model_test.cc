#include "exports/dense_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "exports/encoder_description.h"
#include "exports/model_scorer.h"
#include "exports/onnx_model.h"
#include "tests/exports/small_models.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The encoder's dense output.
std::vector<double> InputOf(const ExportedModel& model, const Row& row) {
  const ModelShape& shape = model.description.shape();
  const Scaler scaler = shape.scaled() ? Scaler(model.moments) : Scaler::Identity(shape.numeric());
  std::vector<double> input(shape.features());
  for (size_t i = 0; i < shape.numeric(); ++i) {
    input[i] = static_cast<double>(scaler.Scale(i, row.numeric[i]));
  }
  for (size_t i = 0; i < row.index.size(); ++i) input[row.index[i]] += double{row.value[i]};
  return input;
}

// x A + a; without `biases`: x A.
std::vector<double> Affine(const std::vector<double>& x, const std::vector<float>& weights,
                           const std::vector<float>& biases, size_t outputs) {
  std::vector<double> y(outputs);
  for (size_t k = 0; k < biases.size(); ++k) y[k] = double{biases[k]};
  for (size_t i = 0; i < x.size(); ++i) {
    for (size_t k = 0; k < outputs; ++k) y[k] += x[i] * double{weights[i * outputs + k]};
  }
  return y;
}

// By the formula of dense_model.h.
std::vector<double> ScoresOf(const ModelDescription& description, const DenseModel& dense,
                             std::vector<double> x) {
  const double most = dense.largest > 0 ? double{dense.largest} : 1e300;
  for (double& each : x) each = std::clamp(each, -most, most);
  std::vector<double> z = Affine(x, dense.weights, dense.bias, dense.outputs);
  for (const DenseModel::Layer& layer : dense.hidden) {
    x = Affine(x, layer.weights, layer.biases, layer.biases.size());
    for (double& each : x) each = std::max(each, 0.0);
  }
  if (!dense.hidden.empty()) {
    const std::vector<double> deep = Affine(x, dense.output_weights, {}, dense.outputs);
    for (size_t k = 0; k < z.size(); ++k) z[k] += deep[k];
  }
  if (description.has_target()) {
    return {description.target().mean() + description.target().unit() * z[0]};
  }
  double sum = 0;
  for (double& each : z) sum += each = std::exp(each);
  for (double& each : z) each /= sum;
  return z;
}

std::vector<SmallModel> WithoutIds() {
  std::vector<SmallModel> models = AllSmallModels();
  std::erase_if(models, [](const SmallModel& each) { return each.ids; });
  models.push_back({"WideNetworkWithoutIds", ModelShape::NETWORK, 3, false, false, true});
  models.push_back({"NetworkOfANumber", ModelShape::NETWORK, 0, false});
  return models;
}

class EveryDenseModel : public ::testing::TestWithParam<SmallModel> {};
INSTANTIATE_TEST_SUITE_P(Exports, EveryDenseModel, ::testing::ValuesIn(WithoutIds()),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_P(EveryDenseModel, HasTheScoresOfTheModel) {
  for (const bool scaled : {true, false}) {
    ExportedModel model = ModelOf(GetParam());
    model.description.mutable_shape()->set_scaled(scaled);
    std::vector<Row> rows = SomeRows(GetParam());
    if (!scaled) rows[0].numeric[0] = 1e9;
    const DenseModel dense = ToDense(model);
    const ModelScorer scorer(model);
    for (const Row& row : rows) {
      const Row* const view = &row;
      std::vector<float> expected(scorer.score_count());
      scorer.Score(RowsView(&view, 1), expected);
      const std::vector<double> found = ScoresOf(model.description, dense, InputOf(model, row));
      ASSERT_EQ(found.size(), expected.size());
      for (size_t k = 0; k < found.size(); ++k) {
        if (std::isnan(found[k])) continue;  // (exp overflows, of the feature of 10^9)
        ASSERT_NEAR(found[k], double{expected[k]}, 2e-5 * std::max(1.0, std::abs(found[k])));
      }
    }
  }
}

TEST(DenseModel, BeginsAtTheFrequenciesOfClassesAlsoOfAClassWhoseRowsWeighNothing) {
  ModelDescription description = DescriptionFor(ModelShape::NETWORK, 3, false);
  for (const float weight : {2.0f, 0.0f, 1.0f}) {
    description.mutable_frequencies()->add_weight(weight);
  }
  const ExportedModel model = RandomModel(description);
  const std::vector<Row> rows = SomeRows({"", ModelShape::NETWORK, 3, false});
  const Row* const view = &rows[0];
  std::vector<float> expected(3);
  ModelScorer(model).Score(RowsView(&view, 1), expected);
  const std::vector<double> found = ScoresOf(description, ToDense(model), InputOf(model, rows[0]));
  for (size_t k = 0; k < 3; ++k) EXPECT_NEAR(found[k], double{expected[k]}, 1e-5);
}

TEST(DenseModel, OfIdsOrOfTooManyWeightsIsNoneAndItIsSaidWhy) {
  for (const SmallModel& each : AllSmallModels()) {
    const ExportedModel model = ModelOf(each);
    const std::string why = WhyNotDense(model.description.shape());
    EXPECT_EQ(why.empty(), !each.ids) << each.name;
    if (each.ids) {
      EXPECT_THAT(why, HasSubstr("id columns")) << each.name;
    }
  }
  ModelShape large = DescriptionFor(ModelShape::NETWORK, 3, false).shape();
  large.set_features(1u << 23);
  EXPECT_THAT(WhyNotDense(large), ::testing::IsEmpty());
  large.set_features((1u << 23) + 1);
  EXPECT_THAT(WhyNotDense(large), HasSubstr("use fewer buckets"));
}

onnx::ModelProto GraphOf(const ExportedModel& model) {
  onnx::ModelProto graph;
  EXPECT_TRUE(graph.ParseFromString(ToOnnx(model.description, ToDense(model))));
  return graph;
}

std::vector<std::string> NamesOf(
    const google::protobuf::RepeatedPtrField<onnx::ValueInfoProto>& values) {
  std::vector<std::string> names;
  for (const onnx::ValueInfoProto& value : values) names.push_back(value.name());
  return names;
}

// What it computes is checked by onnxruntime (onnx_test.py).
TEST(OnnxModel, HasTheInputsAndOutputsThatItsUsersLookFor) {
  const onnx::ModelProto classes =
      GraphOf(RandomModel(DescriptionFor(ModelShape::LINEAR, 3, false)));
  EXPECT_THAT(NamesOf(classes.graph().input()), ElementsAre("input"));
  EXPECT_EQ(classes.graph().input(0).type().tensor_type().shape().dim(1).dim_value(), 12);
  EXPECT_THAT(NamesOf(classes.graph().output()), ElementsAre("label", "probabilities"));
  EXPECT_EQ(classes.opset_import(0).version(), 13);
  EXPECT_EQ(classes.producer_name(), "Millrace");
  const onnx::ModelProto number =
      GraphOf(RandomModel(DescriptionFor(ModelShape::NETWORK, 0, false)));
  EXPECT_THAT(NamesOf(number.graph().output()), ElementsAre("variable"));
}

TEST(EncoderDescription, SaysWhichFloatsAreWhatAndHowNumbersAreScaled) {
  ExportedModel model = RandomModel(DescriptionFor(ModelShape::LINEAR, 2, false));
  FeatureSpec& spec = *model.description.mutable_features();
  for (const char* column : {"t", "u"}) spec.add_text(column);
  spec.set_text_buckets(16);
  model.description.mutable_shape()->set_features(12 + 32);
  model.moments.mean[1] = 1e6;
  model.moments.m2[1] = 2e-19;  // no more than the rounding of the mean
  const EncoderDescription encoder = DescribeEncoder(model.description, model.moments);
  EXPECT_EQ(encoder.inputs(), 44u);
  EXPECT_TRUE(encoder.scaled());
  std::vector<std::string> blocks;
  for (const EncoderDescription::Block& block : encoder.blocks()) {
    blocks.push_back(block.what() + block.column() + " " + std::to_string(block.begin()) + "-" +
                     std::to_string(block.end()));
  }
  EXPECT_THAT(blocks, ElementsAre("numeric 0-2", "missing 2-4", "categorical 4-12", "textt 12-28",
                                  "textu 28-44"));
  ASSERT_EQ(encoder.numeric_size(), 2);
  EXPECT_EQ(encoder.numeric(0).column(), "a");
  EXPECT_EQ(encoder.numeric(0).mean(), 0.5);
  EXPECT_EQ(encoder.numeric(0).deviation(), 2);
  EXPECT_EQ(encoder.numeric(1).deviation(), 0) << "it is constant";
}

}  // namespace
}  // namespace millrace
