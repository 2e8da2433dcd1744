// A library writes nothing that its program has not asked for.
#pragma once

namespace millrace::client {

// Unless SetLog (millrace/log.h) was called.
void BeQuietByDefault();

}  // namespace millrace::client
