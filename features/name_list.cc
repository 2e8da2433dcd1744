#include "features/name_list.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "features/number.h"
#include "features/quoted_value.h"

namespace millrace {

std::optional<QuotedPrefix> ReadQuotedName(std::string_view text) {
  if (!text.starts_with('"')) return std::nullopt;
  QuotedPrefix quoted;
  for (size_t i = 1; i < text.size(); ++i) {
    if (text[i] != '"') {
      quoted.name.push_back(text[i]);
    } else if (i + 1 < text.size() && text[i + 1] == '"') {
      quoted.name.push_back(text[i++]);
    } else {
      quoted.size = i + 1;
      return quoted;
    }
  }
  return std::nullopt;
}

StatusOr<std::vector<std::string>> SplitNames(std::string_view list) {
  std::vector<std::string> items(1);
  bool at_name = true;
  while (!list.empty()) {
    const char c = list[0];
    if (c == '"' && at_name) {
      const std::optional<QuotedPrefix> quoted = ReadQuotedName(list);
      if (!quoted) {
        return absl::InvalidArgumentError(absl::StrCat(
            QuotedValue(list),
            " opens a quote that is not closed: a name in quotes ends with one, and a quote in it "
            "is written twice"));
      }
      items.back() += list.substr(0, quoted->size);
      list.remove_prefix(quoted->size);
      at_name = false;
      continue;
    }
    if (c == ',') {
      items.emplace_back();
    } else {
      items.back().push_back(c);
    }
    at_name = c == ',' || c == '*' || (at_name && (c == ' ' || c == '\t'));
    list.remove_prefix(1);
  }
  return items;
}

std::string Unquoted(std::string_view item) {
  const std::string_view trimmed = TrimSpaces(item);
  std::optional<QuotedPrefix> quoted = ReadQuotedName(trimmed);
  if (!quoted || quoted->size != trimmed.size()) return std::string(item);
  return std::move(quoted->name);
}

std::string TermOfColumn(std::string_view column) {
  const bool is_plain = column.find('*') == std::string_view::npos && !column.starts_with('"') &&
                        TrimSpaces(column) == column;
  if (is_plain) return std::string(column);
  std::string quoted = "\"";
  for (const char c : column) quoted.append(c == '"' ? 2 : 1, c);
  return quoted + "\"";
}

}  // namespace millrace
