#include "python/src/row_reader.h"

#include <cmath>
#include <memory>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/printable.h"

namespace millrace {
namespace {

struct Release {
  void operator()(PyObject* object) const { Py_DECREF(object); }
};
using Owned = std::unique_ptr<PyObject, Release>;

std::string QuotedName(const std::string& name) { return absl::StrCat("'", Printable(name), "'"); }

// What a type is called, without its module.
std::string_view TypeName(PyObject* value) {
  const std::string_view name = Py_TYPE(value)->tp_name;
  return name.substr(name.rfind('.') + 1);
}

Status NoCell(PyObject* value) {
  return absl::InvalidArgumentError(
      absl::StrCat("is of the type ", std::string(TypeName(value)),
                   "; a cell is a string, a number, True, False, None, a date or a time"));
}

Status AppendText(PyObject* value, std::string& text) {
  Py_ssize_t size = 0;
  const char* const utf8 = PyUnicode_AsUTF8AndSize(value, &size);
  if (utf8 == nullptr) {
    PyErr_Clear();
    return absl::InvalidArgumentError("is a string with a lone surrogate, which UTF-8 has not");
  }
  text.append(utf8, static_cast<size_t>(size));
  return absl::OkStatus();
}

// Of what a call has returned: a string, or null after an error.
Status AppendReturned(PyObject* value, PyObject* returned, std::string& text) {
  const Owned owned(returned);
  if (returned != nullptr && PyUnicode_Check(returned)) return AppendText(returned, text);
  PyErr_Clear();
  return NoCell(value);
}

Status AppendFloat(double value, std::string& text) {
  if (std::isnan(value)) return absl::OkStatus();
  // As repr() and json.dumps() write it.
  const std::unique_ptr<char, void (*)(void*)> digits(
      PyOS_double_to_string(value, 'r', 0, Py_DTSF_ADD_DOT_0, nullptr), &PyMem_Free);
  if (digits == nullptr) {
    PyErr_Clear();
    return absl::ResourceExhaustedError("is too large for the memory");
  }
  text += digits.get();
  return absl::OkStatus();
}

Status AppendWhole(PyObject* value, std::string& text) {
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
  if (overflow == 0) {
    absl::StrAppend(&text, number);
    return absl::OkStatus();
  }
  return AppendReturned(value, PyLong_Type.tp_repr(value), text);
}

// Scalars of NumPy, missing values of pandas, dates and times, decimal numbers.
Status AppendOther(PyObject* value, std::string& text) {
  const std::string_view type = TypeName(value);
  if (type == "NAType" || type == "NaTType") return absl::OkStatus();
  if (type == "Decimal") {
    const size_t begin = text.size();
    MILLRACE_RETURN_IF_ERROR(AppendReturned(value, PyObject_Str(value), text));
    if (std::string_view(text).substr(begin) == "NaN") text.resize(begin);
    return absl::OkStatus();
  }
  if (type == "datetime64") {
    const size_t begin = text.size();
    MILLRACE_RETURN_IF_ERROR(AppendReturned(value, PyObject_Str(value), text));
    if (std::string_view(text).substr(begin) == "NaT") text.resize(begin);
    return absl::OkStatus();
  }
  if (PyObject_HasAttrString(value, "isoformat")) {
    return AppendReturned(value, PyObject_CallMethod(value, "isoformat", nullptr), text);
  }
  if (!PyObject_HasAttrString(value, "item")) return NoCell(value);
  const Owned item(PyObject_CallMethod(value, "item", nullptr));
  if (item == nullptr) PyErr_Clear();
  const bool is_plain = item != nullptr && (PyFloat_Check(item.get()) || PyLong_Check(item.get()) ||
                                            PyUnicode_Check(item.get()));
  return is_plain ? AppendCell(item.get(), text) : NoCell(value);
}

// Of a dict that has not the column `name`, and of those in it where the column might stand.
Status CheckKeys(PyObject* row, const std::string& name) {
  PyObject* key = nullptr;
  PyObject* value = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(row, &at, &key, &value) != 0;) {
    if (PyUnicode_Check(key)) continue;
    std::string text;
    MILLRACE_RETURN_IF_ERROR(AppendReturned(key, PyObject_Repr(key), text));
    return absl::InvalidArgumentError(absl::StrCat("the key ", Printable(text), " is of the type ",
                                                   std::string(TypeName(key)),
                                                   "; the keys of a row are strings"));
  }
  for (size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1)) {
    PyObject* const inner = PyDict_GetItemString(row, name.substr(0, dot).c_str());
    if (inner == nullptr || !PyDict_Check(inner)) continue;
    MILLRACE_RETURN_IF_ERROR(CheckKeys(inner, name.substr(dot + 1)));
  }
  return absl::OkStatus();
}

}  // namespace

Status AppendCell(PyObject* value, std::string& text) {
  if (value == Py_None) return absl::OkStatus();
  if (PyUnicode_Check(value)) return AppendText(value, text);
  if (PyBool_Check(value)) {
    text += value == Py_True ? "true" : "false";
    return absl::OkStatus();
  }
  if (PyFloat_Check(value)) return AppendFloat(PyFloat_AS_DOUBLE(value), text);
  if (PyLong_Check(value)) return AppendWhole(value, text);
  return AppendOther(value, text);
}

RowReader::RowReader(const std::vector<std::string>& columns, Absent absent)
    : columns_(columns), absent_(absent) {
  for (const std::string& name : columns_) {
    PyObject* const key =
        PyUnicode_FromStringAndSize(name.data(), static_cast<Py_ssize_t>(name.size()));
    if (key == nullptr) PyErr_Clear();  // no UTF-8: no dict has it
    keys_.push_back(key);
  }
}

RowReader::~RowReader() {
  for (PyObject* const key : keys_) Py_XDECREF(key);
}

size_t RowReader::Find(PyObject* row, PyObject* key, const std::string& name, PyObject*& found) {
  size_t places = 0;
  PyObject* const value = key == nullptr ? nullptr : PyDict_GetItemWithError(row, key);
  PyErr_Clear();
  if (value != nullptr) {
    found = value;
    ++places;
  }
  for (size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1)) {
    PyObject* const inner = PyDict_GetItemString(row, name.substr(0, dot).c_str());
    if (inner == nullptr || !PyDict_Check(inner)) continue;
    const std::string rest = name.substr(dot + 1);
    const Owned rest_key(
        PyUnicode_FromStringAndSize(rest.data(), static_cast<Py_ssize_t>(rest.size())));
    places += Find(inner, rest_key.get(), rest, found);
  }
  return places;
}

Status RowReader::Append(PyObject* row, CellTable& cells) const {
  Owned copy;
  if (!PyDict_Check(row)) {
    copy.reset(PyObject_HasAttrString(row, "keys") ? PyDict_New() : nullptr);
    if (copy == nullptr || PyDict_Update(copy.get(), row) != 0) {
      PyErr_Clear();
      return absl::InvalidArgumentError(absl::StrCat("it is of the type ",
                                                     std::string(TypeName(row)),
                                                     "; a row is a dict of cells by column"));
    }
    row = copy.get();
  }
  for (size_t i = 0; i < columns_.size(); ++i) {
    PyObject* value = nullptr;
    const size_t places = Find(row, keys_[i], columns_[i], value);
    if (places == 0 && absent_ == Absent::kEmpty) {
      MILLRACE_RETURN_IF_ERROR(CheckKeys(row, columns_[i]));
      cells.EndCell();
      continue;
    }
    if (places == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("there is no ", QuotedName(columns_[i]), "; if it is not known, give None"));
    }
    if (places > 1) {
      return absl::InvalidArgumentError(absl::StrCat(QuotedName(columns_[i]), " is there twice"));
    }
    const Status status = AppendCell(value, cells.text());
    if (!status.ok()) {
      return Status(status.code(), absl::StrCat(QuotedName(columns_[i]), " ", status.message()));
    }
    cells.EndCell();
  }
  return absl::OkStatus();
}

Status RowReader::AppendFromLists(PyObject* labels, PyObject* lists, size_t row,
                                  CellTable& cells) const {
  const auto at = static_cast<Py_ssize_t>(row);
  if (labels != nullptr) {
    const Status status = AppendCell(PyList_GET_ITEM(labels, at), cells.text());
    if (!status.ok()) return Status(status.code(), absl::StrCat("the label ", status.message()));
    cells.EndCell();
  }
  for (size_t i = 0; i < columns_.size(); ++i) {
    PyObject* const list = PyList_GET_ITEM(lists, static_cast<Py_ssize_t>(i));
    const Status status = AppendCell(PyList_GET_ITEM(list, at), cells.text());
    if (!status.ok()) {
      return Status(status.code(), absl::StrCat(QuotedName(columns_[i]), " ", status.message()));
    }
    cells.EndCell();
  }
  return absl::OkStatus();
}

}  // namespace millrace
