// Builders of manifests from the facade's objects, and what all manifests give back.
#pragma once

#include <string_view>

#include "ext/rows.h"
#include "placement/columns.h"
#include "placement/placement_manifest.h"
#include "placement/runtime_manifest.h"

namespace steelyard::python {

/// Calls `each(item, path)` for every item of a field that must be a sequence of instances of `type`.
template <typename Each>
void for_each_of(nb::handle items, std::string_view owner, const Path& field, const char* type, const Each& each) {
  const nb::object sequence = item_sequence(items, owner, field);
  const nb::handle wanted = facade(type);
  const auto size = static_cast<std::size_t>(PyTuple_GET_SIZE(sequence.ptr()));
  for (std::size_t i = 0; i < size; ++i) {
    const nb::handle item = PyTuple_GET_ITEM(sequence.ptr(), static_cast<Py_ssize_t>(i));
    const Path path(&field, i);
    const int fits = PyObject_IsInstance(item.ptr(), wanted.ptr());
    if (fits < 0) throw nb::python_error();
    if (fits == 0) {
      raise(placement::contract_error(path,
                                      std::string(owner) + " " + std::string(field.name()) + " must contain " + type));
    }
    each(item, path);
  }
}

/// Number of items, as a hint; 0 where there is no saying.
std::size_t length_hint(nb::handle items);

/// A tuple of `count` objects made by `make(row)`.
template <typename Make>
nb::object tuple_of(std::size_t count, const Make& make) {
  nb::object tuple = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(count)));
  if (!tuple.is_valid()) throw nb::python_error();
  for (std::size_t row = 0; row < count; ++row) {
    nb::object item = make(row);
    PyTuple_SET_ITEM(tuple.ptr(), static_cast<Py_ssize_t>(row), item.release().ptr());
  }
  return tuple;
}

/// One Python object for each distinct rank, so that a million fragments share a few.
std::vector<nb::object> rank_objects(const placement::BoxColumns& boxes);

nb::object tensors_of(const placement::TensorColumns& tensors);

}  // namespace steelyard::python
