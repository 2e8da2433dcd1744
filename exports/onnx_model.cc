#include "exports/onnx_model.h"

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <initializer_list>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"

namespace millrace {
namespace {

// As old as has all that is needed, so that old runtimes read it, too.
constexpr int64_t kIrVersion = 7;
constexpr int64_t kOperators = 13;

constexpr char kRows[] = "N";

class GraphBuilder {
 public:
  explicit GraphBuilder(onnx::GraphProto& graph) : graph_(graph) {}

  // A constant of these sizes (none: a number).
  std::string Constant(const std::string& name, std::initializer_list<size_t> sizes,
                       std::span<const float> values) {
    onnx::TensorProto& tensor = AddTensor(name, sizes, onnx::TensorProto::FLOAT);
    tensor.set_raw_data(values.data(), values.size_bytes());  // little-endian, as the format is
    return name;
  }
  std::string Names(const std::string& name,
                    const google::protobuf::RepeatedPtrField<std::string>& values) {
    onnx::TensorProto& tensor =
        AddTensor(name, {static_cast<size_t>(values.size())}, onnx::TensorProto::STRING);
    for (const std::string& value : values) tensor.add_string_data(value);
    return name;
  }

  // Returns the name of its output.
  std::string Apply(const char* operation, std::initializer_list<std::string> inputs,
                    const std::string& output) {
    onnx::NodeProto& node = *graph_.add_node();
    node.set_op_type(operation);
    node.set_name("make_" + output);
    for (const std::string& input : inputs) node.add_input(input);
    node.add_output(output);
    return output;
  }
  // Of the newest node.
  void SetAttribute(const char* name, int64_t value) {
    onnx::AttributeProto& attribute = *graph_.mutable_node(graph_.node_size() - 1)->add_attribute();
    attribute.set_name(name);
    attribute.set_type(onnx::AttributeProto::INT);
    attribute.set_i(value);
  }

 private:
  onnx::TensorProto& AddTensor(const std::string& name, std::initializer_list<size_t> sizes,
                               onnx::TensorProto::DataType type) {
    // (A runtime may take the last of two.)
    MILLRACE_CHECK(names_.insert(name).second);
    onnx::TensorProto& tensor = *graph_.add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(type);
    for (const size_t size : sizes) tensor.add_dims(static_cast<int64_t>(size));
    return tensor;
  }

  onnx::GraphProto& graph_;
  std::set<std::string> names_;  // of constants
};

// N rows, of so many columns; none: of one dimension.
void Declare(onnx::ValueInfoProto& value, std::string_view name, onnx::TensorProto::DataType type,
             size_t columns) {
  value.set_name(std::string(name));
  onnx::TypeProto::Tensor& tensor = *value.mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(type);
  tensor.mutable_shape()->add_dim()->set_dim_param(kRows);
  if (columns == 0) return;
  tensor.mutable_shape()->add_dim()->set_dim_value(static_cast<int64_t>(columns));
}

// Returns the name of z.
std::string AddScores(const DenseModel& dense, GraphBuilder& graph) {
  std::string x = "input";
  if (dense.largest > 0) {
    const float least = -dense.largest;
    const std::string low = graph.Constant("least", {}, std::span(&least, 1));
    const std::string high = graph.Constant("largest", {}, std::span(&dense.largest, 1));
    x = graph.Apply("Clip", {x, low, high}, "clipped");
  }
  const std::string weights =
      graph.Constant("weights", {dense.inputs, dense.outputs}, dense.weights);
  const std::string bias = graph.Constant("bias", {dense.outputs}, dense.bias);
  std::string linear = graph.Apply("Gemm", {x, weights, bias}, "linear");
  if (dense.hidden.empty()) return linear;
  std::string h = x;
  for (size_t i = 0; i < dense.hidden.size(); ++i) {
    const DenseModel::Layer& layer = dense.hidden[i];
    const std::string name = "layer" + std::to_string(i + 1);
    const size_t units = layer.biases.size();
    const std::string of_inputs =
        graph.Constant(name + "_weights", {layer.weights.size() / units, units}, layer.weights);
    const std::string biases = graph.Constant(name + "_biases", {units}, layer.biases);
    h = graph.Apply("Relu", {graph.Apply("Gemm", {h, of_inputs, biases}, name + "_sums")}, name);
  }
  const std::string of_units = graph.Constant(
      "output_weights", {dense.hidden.back().biases.size(), dense.outputs}, dense.output_weights);
  return graph.Apply("Add", {linear, graph.Apply("MatMul", {h, of_units}, "deep")}, "scores");
}

void AddClasses(const ModelDescription& description, const std::string& scores, GraphBuilder& graph,
                onnx::GraphProto& proto) {
  const std::string probabilities = graph.Apply("Softmax", {scores}, "probabilities");
  graph.SetAttribute("axis", 1);
  const std::string likeliest = graph.Apply("ArgMax", {probabilities}, "likeliest");
  graph.SetAttribute("axis", 1);
  graph.SetAttribute("keepdims", 0);
  const std::string classes = graph.Names("classes", description.features().classes());
  graph.Apply("Gather", {classes, likeliest}, "label");
  graph.SetAttribute("axis", 0);
  Declare(*proto.add_output(), "label", onnx::TensorProto::STRING, 0);
  Declare(*proto.add_output(), "probabilities", onnx::TensorProto::FLOAT,
          description.shape().classes());
}

void AddEstimate(const ModelDescription::Target& target, const std::string& scores,
                 GraphBuilder& graph, onnx::GraphProto& proto) {
  // (A mixed model that knows no target says 0.)
  const bool known = target.count() > 0;
  const auto mean = static_cast<float>(target.mean());
  const auto unit = static_cast<float>(known ? target.unit() : 0);
  const std::string by_unit = graph.Constant("unit", {}, std::span(&unit, 1));
  const std::string from_mean = graph.Constant("mean", {}, std::span(&mean, 1));
  const std::string distance = graph.Apply("Mul", {scores, by_unit}, "distance");
  const bool has_range = known && target.has_least();
  const std::string sum = graph.Apply("Add", {distance, from_mean}, has_range ? "sum" : "variable");
  if (has_range) {
    const auto least = static_cast<float>(target.least());
    const auto most = static_cast<float>(target.most());
    graph.Apply("Clip",
                {sum, graph.Constant("least_target", {}, std::span(&least, 1)),
                 graph.Constant("most_target", {}, std::span(&most, 1))},
                "variable");
  }
  Declare(*proto.add_output(), "variable", onnx::TensorProto::FLOAT, 1);
}

void AddProperty(const char* key, const std::string& value, onnx::ModelProto& model) {
  onnx::StringStringEntryProto& property = *model.add_metadata_props();
  property.set_key(key);
  property.set_value(value);
}

}  // namespace

std::string ToOnnx(const ModelDescription& description, const DenseModel& dense) {
  onnx::ModelProto model;
  model.set_ir_version(kIrVersion);
  model.set_producer_name("Millrace");
  model.set_producer_version(MILLRACE_VERSION);
  model.add_opset_import()->set_version(kOperators);
  AddProperty("job", description.job(), model);
  AddProperty("snapshot", std::to_string(description.snapshot()), model);
  AddProperty("clock", std::to_string(description.clock()), model);
  AddProperty("encoder", "encoder.json", model);
  onnx::GraphProto& proto = *model.mutable_graph();
  proto.set_name("millrace");
  GraphBuilder graph(proto);
  Declare(*proto.add_input(), "input", onnx::TensorProto::FLOAT, dense.inputs);
  const std::string scores = AddScores(dense, graph);
  if (description.shape().classes() > 0) {
    AddClasses(description, scores, graph, proto);
  } else {
    AddEstimate(description.target(), scores, graph, proto);
  }
  return model.SerializeAsString();
}

}  // namespace millrace
