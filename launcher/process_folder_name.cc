#include "launcher/process_folder_name.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <system_error>

#include "base/printable.h"

namespace millrace {
namespace {

constexpr size_t kMostGroupBytes = 32;

bool IsGroup(std::string_view text) {
  const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
  const auto is_allowed = [&](char c) {
    return is_letter(c) || (c >= '0' && c <= '9') || c == '-';
  };
  return !text.empty() && text.size() <= kMostGroupBytes && is_letter(text[0]) &&
         std::all_of(text.begin(), text.end(), is_allowed);
}

}  // namespace

StatusOr<std::string> FolderNameOf(const ProcessName& process) {
  if (!IsGroup(process.group())) {
    return absl::InvalidArgumentError(
        "\"" + Printable(process.group()) +
        "\" is no name of a group of processes: give it at most 32 of a-z, 0-9 and -, the first "
        "a letter");
  }
  return process.group() + "-" + std::to_string(process.rank());
}

std::optional<ProcessName> ProcessOfFolder(std::string_view name) {
  const size_t dash = name.rfind('-');
  if (dash == std::string_view::npos || !IsGroup(name.substr(0, dash))) return std::nullopt;
  const std::optional<uint64_t> rank = ParseNumber(name.substr(dash + 1));
  if (!rank || *rank > std::numeric_limits<uint32_t>::max()) return std::nullopt;
  ProcessName process;
  process.set_group(std::string(name.substr(0, dash)));
  process.set_rank(static_cast<uint32_t>(*rank));
  return process;
}

std::optional<uint64_t> ParseNumber(std::string_view text) {
  uint64_t number = 0;
  const auto [last, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || std::to_string(number) != text) return std::nullopt;
  return number;
}

}  // namespace millrace
