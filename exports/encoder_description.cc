#include "exports/encoder_description.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "features/feature_encoder.h"
#include "models/moments.h"

namespace millrace {
namespace {

constexpr uint32_t kEncoderFormat = 1;

// Adds blocks one after the other.
class Blocks {
 public:
  explicit Blocks(EncoderDescription& encoder) : encoder_(encoder) {}
  void Add(const char* what, size_t size, const std::string& column = "") {
    if (size == 0) return;
    EncoderDescription::Block& block = *encoder_.add_blocks();
    block.set_what(what);
    block.set_column(column);
    block.set_begin(end_);
    end_ += static_cast<uint32_t>(size);
    block.set_end(end_);
  }
  size_t end() const { return end_; }

 private:
  EncoderDescription& encoder_;
  uint32_t end_ = 0;
};

void AddNumeric(const FeatureSpec& spec, const Moments& moments, EncoderDescription& encoder) {
  const Scaler scaler(moments);
  for (size_t i = 0; i < moments.columns(); ++i) {
    const double mean = moments.mean[i];
    const double deviation = std::sqrt(moments.m2[i] / moments.count[i]);  // NaN without rows
    const bool varies = scaler.Scale(i, mean + deviation) != 0;
    EncoderDescription::Numeric& numeric = *encoder.add_numeric();
    numeric.set_column(spec.numeric(static_cast<int>(i)));
    numeric.set_mean(mean);
    numeric.set_deviation(varies ? deviation : 0.0);
  }
}

}  // namespace

EncoderDescription DescribeEncoder(const ModelDescription& description, const Moments& moments) {
  const FeatureSpec& spec = description.features();
  const ModelShape& shape = description.shape();
  EncoderDescription encoder;
  encoder.set_format(kEncoderFormat);
  *encoder.mutable_features() = spec;
  encoder.set_inputs(shape.features());
  encoder.set_scaled(shape.scaled());
  AddNumeric(spec, moments, encoder);
  const size_t numeric = shape.numeric();
  const size_t indicators = spec.missing() == FeatureSpec::MEAN_AND_INDICATOR ? numeric : 0;
  const size_t of_text = spec.text_size() * size_t{spec.text_buckets()};
  Blocks blocks(encoder);
  blocks.Add("numeric", numeric);
  blocks.Add("missing", indicators);
  blocks.Add("categorical", shape.features() - numeric - indicators - of_text);
  for (const std::string& column : spec.text()) blocks.Add("text", spec.text_buckets(), column);
  MILLRACE_CHECK(blocks.end() == shape.features());
  return encoder;
}

}  // namespace millrace
