// Which Millrace this is.
#pragma once

namespace millrace {

// "0.1.0 (9e367f11a2b3)": the version and the commit that was built, with "-dirty" if files
// differed from it. Without the commit where the build had no Git.
const char* MillraceVersion();

}  // namespace millrace
