// Names of columns in lists (a,b) and terms (a*b, a:16): a name that holds a character of these
// notations stands in double quotes, in which a quote is written twice, as in CSV.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace millrace {

// The name in quotes that `text` starts with, and the bytes that it takes there, with the quotes.
// None: `text` starts with no quote, or it is not closed.
struct QuotedPrefix {
  std::string name;
  size_t size = 0;
};
std::optional<QuotedPrefix> ReadQuotedName(std::string_view text);

// The items between the commas of a list, as they stand there. A comma between quotes, which open
// at the start of an item or after one of its stars, is no separator. InvalidArgument: a quote is
// not closed.
StatusOr<std::vector<std::string>> SplitNames(std::string_view list);

// Without the quotes, if all of the item stands in them; else as it is.
std::string Unquoted(std::string_view item);

// A name as it must stand in a term: in quotes if it holds a star or starts with a quote, a space
// or a tab, or ends with one of the latter.
std::string TermOfColumn(std::string_view column);

}  // namespace millrace
