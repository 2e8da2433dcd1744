// Messages as JSON, in files and answers: each default is said, under the names of the .proto
// files.
#pragma once

#include <google/protobuf/message.h>

#include <string>

#include "base/status.h"
#include "messages/exported_model.pb.h"

namespace millrace {

// A field a line. Internal: the message has no form in JSON.
StatusOr<std::string> JsonLinesOf(const google::protobuf::Message& message);

// What a model is, in a line, without the files that it was read from. Internal as above, which
// none is that was read from JSON.
StatusOr<std::string> JsonOfModel(ModelDescription description);

}  // namespace millrace
