#include "base/replace_folder.h"

#include <filesystem>

namespace millrace {

std::error_code ReplaceFolder(const std::string& complete, const std::string& folder) {
  namespace fs = std::filesystem;
  const std::string replaced = folder + ".replaced";
  std::error_code error;
  fs::remove_all(replaced, error);
  if (!error && fs::exists(folder, error)) fs::rename(folder, replaced, error);
  if (!error) fs::rename(complete, folder, error);
  if (error) return error;
  fs::remove_all(replaced, error);  // (the new one is there: what is left harms nobody)
  return {};
}

}  // namespace millrace
