#include "tasks/summed_update.h"

#include <utility>

#include "base/check.h"
#include "processors/server_processor.h"
#include "topics/gradient_codec.h"
#include "topics/message_codec.h"
#include "topics/slice_codec.h"

namespace millrace {

SplitMessage SplitUpdate(Gradient message, KeyRange range) {
  SplitMessage split;
  const bool has_values = message.has_update() && message.update().row_count() > 0 &&
                          CheckSlice(message.update().slice(), range).ok() &&
                          IsSane(message.update());
  if (has_values) {
    Slice& slice = *message.mutable_update()->mutable_slice();
    split.values.assign(range.size(), 0.0f);
    AddSlice(slice, 1.0f, split.values);
    slice.clear_dense();
    slice.clear_sparse_index();
    slice.clear_sparse_value();
  }
  split.rest = std::move(message);
  return split;
}

StatusOr<std::string> JoinUpdate(Gradient rest, std::span<const float> values, KeyRange range) {
  MILLRACE_CHECK(rest.has_update() && rest.update().row_count() > 0);
  rest.mutable_update()->clear_slice();
  return SerializeUpdate(rest, values, range, kMostMessageBytes);
}

}  // namespace millrace
