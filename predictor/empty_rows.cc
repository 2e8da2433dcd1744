#include "predictor/empty_rows.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/grouped_number.h"
#include "features/quoted_value.h"

namespace millrace {
namespace {

constexpr size_t kMostNames = 10;

void AppendNames(const nlohmann::json& object, const std::string& prefix, int depth,
                 std::vector<std::string>* names) {
  constexpr int kMostDepth = 8;  // foreign objects may be as deep as they are long
  for (const auto& [key, value] : object.items()) {
    if (names->size() > kMostNames) return;
    if (value.is_object() && !value.empty() && depth < kMostDepth) {
      AppendNames(value, prefix + key + ".", depth + 1, names);
    } else {
      names->push_back(prefix + key);
    }
  }
}

std::string Listed(std::span<const std::string> names) {
  std::string list;
  for (size_t i = 0; i < std::min(names.size(), kMostNames); ++i) {
    absl::StrAppend(&list, list.empty() ? "" : ", ", QuotedValue(names[i]));
  }
  return names.size() > kMostNames ? list + " and more" : list;
}

}  // namespace

std::vector<std::string> MemberNames(std::string_view json) {
  std::vector<std::string> names;
  const auto parsed = nlohmann::json::parse(json.begin(), json.end(), nullptr,
                                            /*allow_exceptions=*/false);
  if (parsed.is_object()) AppendNames(parsed, "", 1, &names);
  return names;
}

std::string EmptyRowsText(std::string_view topic, const EmptyRows& found,
                          std::span<const std::string> columns, bool at_end) {
  constexpr uint64_t kFewRows = 10;
  const bool all = found.rows > 0 && found.empty == found.rows;
  const bool most = found.rows >= kFirstRows && found.empty >= found.rows - found.rows / 10;
  if (!most && !(all && (at_end || found.rows >= kFewRows))) return "";
  const std::string first =
      absl::StrCat(GroupedNumber(found.rows), found.rows == 1 ? " row of " : " rows of ",
                   absl::string_view(topic.data(), topic.size()));
  std::string text =
      all ? absl::StrCat("none of the first ", first, " has")
          : absl::StrCat(GroupedNumber(found.empty), " of the first ", first, " have no");
  absl::StrAppend(&text, all ? " a" : "", " value in any of the model's columns (", Listed(columns),
                  ")");
  if (!found.members.empty()) {
    absl::StrAppend(&text, "; the first such row has ", Listed(found.members), " instead");
  }
  return text +
         ". Check --input-topic, and whether the topic has these columns under other names. "
         "Predictor goes on, and scores such a row as if every cell were empty";
}

}  // namespace millrace
