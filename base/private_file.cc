#include "base/private_file.h"

#include <sys/stat.h>

#include <cerrno>
#include <filesystem>

namespace millrace {

std::error_code MakePrivateFolder(const std::string& path) {
  const std::filesystem::path folder(path);
  std::error_code error;
  if (std::filesystem::is_directory(folder, error)) return {};
  const std::filesystem::path parent = folder.parent_path();
  if (!parent.empty() && parent != folder) {
    if (const std::error_code failed = MakePrivateFolder(parent.string()); failed) return failed;
  }
  if (mkdir(folder.c_str(), S_IRWXU) == 0) return {};
  const int failed = errno;
  // Made meanwhile; or named with a slash at its end, so that it is its own parent.
  if (failed == EEXIST && std::filesystem::is_directory(folder, error)) return {};
  return {failed, std::generic_category()};
}

void MakePrivate(int file) {
  struct stat info = {};
  if (fstat(file, &info) != 0 || !S_ISREG(info.st_mode)) return;
  if ((info.st_mode & (S_IRWXG | S_IRWXO)) != 0) (void)fchmod(file, S_IRUSR | S_IWUSR);
}

}  // namespace millrace
