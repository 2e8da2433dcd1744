#include "topics/names.h"

#include <algorithm>
#include <cstddef>
#include <string>

#include "base/printable.h"
#include "topics/topics.h"

namespace millrace {
namespace {

constexpr size_t kMostOfJob = 200;
constexpr size_t kMostOfTopic = 249;

bool IsWordLetter(char c) {
  return ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') || ('0' <= c && c <= '9') || c == '_';
}

bool HasGoodLetters(std::string_view name, size_t most) {
  return !name.empty() && name.size() <= most &&
         std::ranges::all_of(name, [](char c) { return IsWordLetter(c) || c == '.' || c == '-'; });
}

Status Wrong(std::string_view where, std::string_view name, const std::string& rule) {
  return absl::InvalidArgumentError(std::string(where) + " '" + Printable(name) + "': " + rule);
}

}  // namespace

Status CheckJobName(std::string_view where, std::string_view name) {
  if (!HasGoodLetters(name, kMostOfJob) || !IsWordLetter(name.front())) {
    return Wrong(where, name,
                 "use letters, digits, '_', '.' and '-', the first of them a letter, digit or "
                 "'_', and " +
                     std::to_string(kMostOfJob) + " at most");
  }
  if (!IsNameOfLayout(name)) return absl::OkStatus();
  return Wrong(where, name,
               "topics of this name are those of another job after MasterApp reshard: give another "
               "name");
}

Status CheckTopicName(std::string_view where, std::string_view name) {
  if (HasGoodLetters(name, kMostOfTopic) && name != "." && name != "..") return absl::OkStatus();
  return Wrong(where, name,
               "use letters, digits, '_', '.' and '-', " + std::to_string(kMostOfTopic) +
                   " at most, and neither '.' nor '..'");
}

}  // namespace millrace
