// Rows that Python gives, as cells.
#pragma once

#include <Python.h>

#include <cstddef>
#include <string>
#include <vector>

#include "base/status.h"
#include "python/src/cell_table.h"

namespace millrace {

// Appends a value as the cell that it is in JSON (formats/json_fields.h): a string is its text, a
// number its shortest digits, a truth true or false, None the empty cell. NaN, pandas.NA and
// pandas.NaT are empty cells, too; dates and times are in ISO 8601. InvalidArgument, beginning with
// "is": anything else. REQUIRES: the interpreter's lock.
Status AppendCell(PyObject* value, std::string& text);

// Finds columns in dicts by their names, or, of names with dots, in dicts in these. All calls
// REQUIRE the interpreter's lock.
class RowReader {
 public:
  // What a row means that has no value for a column: a mistake, or the empty cell.
  enum class Absent { kError, kEmpty };

  RowReader(const std::vector<std::string>& columns, Absent absent);
  ~RowReader();
  RowReader(const RowReader&) = delete;
  RowReader& operator=(const RowReader&) = delete;

  // Appends the cells of a dict, or of another mapping. InvalidArgument with the column: one that
  // is not there (Absent::kError) or is there twice, a value that is no cell; or, where a column is
  // not there (Absent::kEmpty), a key that is no string.
  Status Append(PyObject* row, CellTable& cells) const;

  // Appends the cells of a row of lists, one for each column; `labels` is null, or the list of the
  // first cells. InvalidArgument as above. REQUIRES: lists that are long enough.
  Status AppendFromLists(PyObject* labels, PyObject* lists, size_t row, CellTable& cells) const;

 private:
  // Looks for the column at each place where it may stand; the number of places where it does.
  static size_t Find(PyObject* row, PyObject* key, const std::string& name, PyObject*& found);

  const std::vector<std::string> columns_;
  const Absent absent_;
  std::vector<PyObject*> keys_;  // of columns_; owned
};

}  // namespace millrace
