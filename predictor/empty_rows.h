// Rows in which none of a model's columns has a value: their topic may be another one, or have the
// columns under other names, which is no error of any record. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

// The names of a JSON object's members, those of an object in it with a dot between, as columns are
// named; sorted, some at most. None of what is no object.
std::vector<std::string> MemberNames(std::string_view json);

struct EmptyRows {
  uint64_t rows = 0;   // all so far
  uint64_t empty = 0;  // of these: without a value in any column
  // What the first of the latter has instead; empty: that is not known.
  std::vector<std::string> members{};
};

// What to say of a topic's first rows, `columns` being those of the model; empty when nothing is to
// be said, or not yet: of ten rows at least, all empty, or of kFirstRows, nine in ten empty.
// `at_end`: no more rows come, so fewer than ten are enough.
constexpr uint64_t kFirstRows = 1000;
std::string EmptyRowsText(std::string_view topic, const EmptyRows& found,
                          std::span<const std::string> columns, bool at_end);

}  // namespace millrace
