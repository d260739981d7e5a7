#include "ext/convert.h"

#include <limits>

namespace steelyard::python {
namespace {

using placement::contract_error;

/// A module that is kept for the life of the process.
nb::handle kept_module(const char* name) { return nb::module_::import_(name).release(); }

bool is_sequence(nb::handle value) {
  if (PyTuple_Check(value.ptr()) || PyList_Check(value.ptr())) return true;
  if (PyUnicode_Check(value.ptr()) || PyBytes_Check(value.ptr()) || PyByteArray_Check(value.ptr())) return false;
  static const nb::handle sequence = nb::object(kept_module("collections.abc").attr("Sequence")).release();
  const int found = PyObject_IsInstance(value.ptr(), sequence.ptr());
  if (found < 0) throw nb::python_error();
  return found == 1;
}

/// A numpy array (or scalar) without importing numpy: somebody who has one has imported it.
bool is_integer_array(nb::handle value) {
  if (!nb::hasattr(value, "__array_interface__")) return false;
  if (nb::cast<std::int64_t>(value.attr("ndim")) != 1) return false;
  const std::string kind = nb::cast<nb::str>(value.attr("dtype").attr("kind")).c_str();
  return kind == "i" || kind == "u";
}

std::string described(nb::handle value) {
  nb::object text = nb::steal(PyObject_Repr(value.ptr()));
  if (!text.is_valid()) {
    PyErr_Clear();
    return "something without a repr";
  }
  Py_ssize_t size = 0;
  const char* data = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
  if (data == nullptr) {
    PyErr_Clear();
    return "a text that is not Unicode";
  }
  std::string found(data, static_cast<std::size_t>(size));
  constexpr std::size_t kLongest = 80;
  if (found.size() > kLongest) {
    std::size_t end = kLongest;
    while (end > 0 && (static_cast<unsigned char>(found[end]) & 0xC0U) == 0x80U) --end;
    found = found.substr(0, end) + "...";
  }
  return found;
}

std::string named(const Path& path, std::string_view words) { return std::string(path.name()) + std::string(words); }

/// The value as a Python int, or null where it is none. Gives a new reference.
nb::object index_of(nb::handle value) {
  if (PyBool_Check(value.ptr()) || !PyIndex_Check(value.ptr())) return {};
  nb::object number = nb::steal(PyNumber_Index(value.ptr()));
  if (!number.is_valid()) {
    if (PyErr_ExceptionMatches(PyExc_TypeError) == 0) throw nb::python_error();
    PyErr_Clear();
  }
  return number;
}

std::int64_t as_int64(nb::handle number, const Path& path) {
  int overflow = 0;
  const long long found = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  if (overflow > 0) raise(placement::beyond_63_bits(path, described(number)));
  // No field goes so far down: the smallest number is refused by the field's own rule, in its own words.
  if (overflow < 0) return std::numeric_limits<std::int64_t>::min();
  if (found == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
  return found;
}

std::int64_t element(nb::handle value, const Path& list, std::size_t index) {
  const Path path(&list, index);
  if (PyLong_CheckExact(value.ptr())) return as_int64(value, path);
  const nb::object number = index_of(value);
  if (!number.is_valid()) {
    raise(contract_error(path, named(list, " must contain integers: ") + named(list, "[") + std::to_string(index) +
                                   "] must be an integer, found " + described(value)));
  }
  return as_int64(number, path);
}

}  // namespace

void raise(const Status& status) {
  std::string message = status.message();
  if (!status.hint().empty()) message += " (" + status.hint() + ")";
  const nb::object error = facade("ContractError")(to_python(std::string_view(message)));
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
  throw nb::python_error();
}

const Names& names() {
  static const Names* const all = [] {
    auto* made = new Names();
    auto intern = [](const char* name) { return nb::steal(PyUnicode_InternFromString(name)); };
#define SY_NAME(name) made->name = intern(#name)
    SY_NAME(tensor_id), SY_NAME(global_shape), SY_NAME(dtype), SY_NAME(itemsize), SY_NAME(partition_dim);
    SY_NAME(layout_fingerprint), SY_NAME(layer_id), SY_NAME(expert_id), SY_NAME(shard_dims);
    SY_NAME(placement_fragment_id), SY_NAME(fragment_id), SY_NAME(global_offset), SY_NAME(local_shape);
    SY_NAME(nbytes), SY_NAME(rank), SY_NAME(aliases), SY_NAME(address), SY_NAME(worker_id), SY_NAME(endpoint);
    SY_NAME(device), SY_NAME(lease_generation), SY_NAME(owner), SY_NAME(dp), SY_NAME(tp), SY_NAME(pp), SY_NAME(ep);
    SY_NAME(model_id), SY_NAME(revision), SY_NAME(tensors), SY_NAME(fragments), SY_NAME(placement_id);
    SY_NAME(placement_digest), SY_NAME(instance_id), SY_NAME(generation), SY_NAME(lease_id), SY_NAME(is_contiguous);
    SY_NAME(stride), SY_NAME(storage_offset), SY_NAME(byte_offset), SY_NAME(address_semantics);
#undef SY_NAME
    return made;
  }();
  return *all;
}

nb::handle facade(const char* name) {
  static const nb::handle module = kept_module("steelyard.model_weight");
  return nb::object(module.attr(name)).release().dec_ref();
}

std::string_view text(nb::handle value, const Path& path) {
  if (!PyUnicode_CheckExact(value.ptr()) || PyUnicode_GET_LENGTH(value.ptr()) == 0) {
    raise(placement::not_a_string(path));
  }
  Py_ssize_t size = 0;
  const char* data = PyUnicode_AsUTF8AndSize(value.ptr(), &size);
  if (data == nullptr) {
    PyErr_Clear();
    raise(contract_error(path, named(path, " must not contain lone surrogates: found ") + described(value)));
  }
  return {data, static_cast<std::size_t>(size)};
}

std::optional<std::string_view> optional_text(nb::handle value, const Path& path) {
  if (value.is_none()) return std::nullopt;
  return text(value, path);
}

std::int64_t integer(nb::handle value, const Path& path) {
  if (PyLong_CheckExact(value.ptr())) return as_int64(value, path);
  const nb::object number = index_of(value);
  if (!number.is_valid()) raise(placement::not_an_integer(path, described(value)));
  return as_int64(number, path);
}

std::optional<std::int64_t> optional_integer(nb::handle value, const Path& path) {
  if (value.is_none()) return std::nullopt;
  return integer(value, path);
}

std::uint64_t unsigned_integer(nb::handle value, std::int64_t minimum, const Path& path) {
  const nb::object number = PyLong_CheckExact(value.ptr()) ? nb::borrow(value) : index_of(value);
  if (!number.is_valid()) raise(placement::not_an_integer(path, described(value)));
  int overflow = 0;
  const long long found = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  if (overflow > 0) {
    const unsigned long long large = PyLong_AsUnsignedLongLong(number.ptr());
    if (large == static_cast<unsigned long long>(-1) && PyErr_Occurred() != nullptr) {
      PyErr_Clear();
      raise(placement::beyond_64_bits(path, described(value)));
    }
    return large;
  }
  if (overflow < 0 || found < minimum) raise(placement::below_minimum(path, minimum, described(value)));
  return static_cast<std::uint64_t>(found);
}

void integers(nb::handle value, const Path& path, std::vector<std::int64_t>& out) {
  out.clear();
  if (is_sequence(value)) {
    const nb::object items = nb::steal(PySequence_Tuple(value.ptr()));
    if (!items.is_valid()) throw nb::python_error();
    const auto size = static_cast<std::size_t>(PyTuple_GET_SIZE(items.ptr()));
    for (std::size_t i = 0; i < size; ++i) {
      out.push_back(element(PyTuple_GET_ITEM(items.ptr(), static_cast<Py_ssize_t>(i)), path, i));
    }
    return;
  }
  if (!is_integer_array(value)) raise(placement::not_integers(path));
  const nb::object items = value.attr("tolist")();
  std::size_t index = 0;
  for (nb::handle item : items) {
    const std::size_t at = index++;
    out.push_back(element(item, path, at));
  }
}

nb::object item_sequence(nb::handle value, std::string_view owner, const Path& path) {
  if (!is_sequence(value)) {
    raise(contract_error(path, std::string(owner) + " " + named(path, " must be a sequence")));
  }
  nb::object items = nb::steal(PySequence_Tuple(value.ptr()));
  if (!items.is_valid()) throw nb::python_error();
  return items;
}

void texts(nb::handle value, const Path& path, std::vector<std::string_view>& out, nb::object& keep) {
  out.clear();
  if (!is_sequence(value)) raise(contract_error(path, named(path, " must be a sequence of non-empty strings")));
  keep = nb::steal(PySequence_Tuple(value.ptr()));
  if (!keep.is_valid()) throw nb::python_error();
  const auto size = static_cast<std::size_t>(PyTuple_GET_SIZE(keep.ptr()));
  for (std::size_t i = 0; i < size; ++i) {
    out.push_back(text(PyTuple_GET_ITEM(keep.ptr(), static_cast<Py_ssize_t>(i)), Path(&path, i)));
  }
}

nb::object to_python(std::string_view text) { return nb::str(text.data(), text.size()); }
nb::object to_python(std::int64_t value) { return nb::steal(PyLong_FromLongLong(value)); }
nb::object to_python(std::uint64_t value) { return nb::steal(PyLong_FromUnsignedLongLong(value)); }

nb::object to_python(std::span<const std::int64_t> values) {
  nb::object tuple = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(values.size())));
  for (std::size_t i = 0; i < values.size(); ++i) {
    PyTuple_SET_ITEM(tuple.ptr(), static_cast<Py_ssize_t>(i), PyLong_FromLongLong(values[i]));
  }
  return tuple;
}

nb::object to_python(std::span<const std::string_view> values) {
  nb::object tuple = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(values.size())));
  for (std::size_t i = 0; i < values.size(); ++i) {
    PyTuple_SET_ITEM(tuple.ptr(), static_cast<Py_ssize_t>(i), to_python(values[i]).release().ptr());
  }
  return tuple;
}

}  // namespace steelyard::python
