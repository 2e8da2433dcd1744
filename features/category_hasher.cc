#include "features/category_hasher.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/hash.h"
#include "features/murmur3.h"
#include "features/name_list.h"
#include "features/number.h"

namespace millrace {
namespace {

void AppendEscaped(std::string_view text, std::string_view special, std::string* out) {
  for (char c : text) {
    if (special.find(c) != std::string_view::npos) out->push_back('\\');
    out->push_back(c);
  }
}

}  // namespace

std::vector<std::string> ColumnsOfTerm(std::string_view term) {
  std::vector<std::string> columns;
  while (true) {
    size_t star = term.find('*');
    std::string column(TrimSpaces(term.substr(0, star)));
    const size_t begin = std::min(term.find_first_not_of(" \t"), term.size());
    if (std::optional<QuotedPrefix> quoted = ReadQuotedName(term.substr(begin))) {
      const size_t after = term.find_first_not_of(" \t", begin + quoted->size);
      // Else the quotes are part of a name.
      if (after == std::string_view::npos || term[after] == '*') {
        column = std::move(quoted->name);
        star = after;
      }
    }
    columns.push_back(std::move(column));
    if (star == std::string_view::npos) return columns;
    term.remove_prefix(star + 1);
  }
}

CategoryHasher::CategoryHasher(std::span<const std::string> terms, uint32_t buckets)
    : buckets_(buckets) {
  MILLRACE_CHECK(buckets > 0);
  for (const std::string& text : terms) {
    Term& term = terms_.emplace_back();
    for (const std::string& column : ColumnsOfTerm(text)) {
      if (!term.prefix.empty()) term.prefix.push_back('*');
      AppendEscaped(column, "\\*=", &term.prefix);
      const auto it = std::find(columns_.begin(), columns_.end(), column);
      term.cells.push_back(static_cast<size_t>(it - columns_.begin()));
      if (it == columns_.end()) columns_.push_back(column);
    }
    term.prefix.push_back('=');
  }
}

void CategoryHasher::MakeKey(const Term& term, std::span<const std::string_view> cells) {
  key_ = term.prefix;
  if (term.cells.size() == 1) {
    key_ += cells[term.cells[0]];
    return;
  }
  for (size_t i = 0; i < term.cells.size(); ++i) {
    if (i > 0) key_.push_back('*');
    AppendEscaped(cells[term.cells[i]], "\\*", &key_);
  }
}

void CategoryHasher::SetIds(std::span<const std::string_view> cells,
                            std::vector<EmbeddingId>* ids) {
  MILLRACE_CHECK(cells.size() == columns_.size());
  ids->clear();
  for (const Term& term : terms_) {
    MakeKey(term, cells);
    ids->push_back(Mix64(Fnv1a64(key_)));
  }
}

void CategoryHasher::Append(std::span<const std::string_view> cells, uint32_t first,
                            std::vector<uint32_t>* index, std::vector<float>* value) {
  MILLRACE_CHECK(cells.size() == columns_.size());
  features_.clear();
  for (const Term& term : terms_) {
    MakeKey(term, cells);
    features_.push_back(static_cast<uint32_t>(Murmur3(key_)) % buckets_);
  }
  std::sort(features_.begin(), features_.end());
  const size_t begin = index->size();
  for (uint32_t feature : features_) {
    if (index->size() > begin && index->back() == first + feature) {
      value->back() += 1;
    } else {
      index->push_back(first + feature);
      value->push_back(1);
    }
  }
}

}  // namespace millrace
