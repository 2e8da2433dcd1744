// Gives a folder that is complete its final name.
#pragma once

#include <string>
#include <system_error>

namespace millrace {

// Renames `complete` to `folder`, on the same disk. What has that name is replaced.
std::error_code ReplaceFolder(const std::string& complete, const std::string& folder);

}  // namespace millrace
