// Whole columns: numpy arrays handed through to the builders, and the lists of Python that become columns first.
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>

#include "ext/areas.h"
#include "ext/manifests.h"
#include "placement/arrays.h"
#include "placement/inventory.h"

namespace steelyard::python {
namespace {

using placement::ListArray;
using placement::TextArray;
using placement::TextListArray;

template <typename T>
using Column = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

/// The prepared columns of one table, and what keeps their memory.
class Table {
 public:
  explicit Table(nb::dict columns) : columns_(std::move(columns)) {}

  template <typename T>
  std::span<const T> numbers(const char* name) {
    return numbers<T>(nb::object(columns_[name]));
  }

  TextArray texts(const char* name) { return texts(nb::object(columns_[name])); }
  std::optional<TextArray> optional_texts(const char* name) {
    const nb::object value = columns_[name];
    if (value.is_none()) return std::nullopt;
    return texts(value);
  }

  ListArray lists(const char* name) { return lists(nb::object(columns_[name])); }
  std::optional<ListArray> optional_lists(const char* name) {
    const nb::object value = columns_[name];
    if (value.is_none()) return std::nullopt;
    return lists(value);
  }

  TextListArray text_lists(const char* name) {
    const nb::object value = columns_[name];
    if (value.is_none()) return {};
    return {texts(value), numbers<std::uint64_t>(value[2])};
  }

  nb::object get(const char* name) { return columns_[name]; }

 private:
  template <typename T>
  std::span<const T> numbers(const nb::object& value) {
    const auto column = nb::cast<Column<T>>(value);
    return {column.data(), column.size()};
  }
  TextArray texts(const nb::object& value) {
    const auto text = nb::cast<Column<std::uint8_t>>(value[0]);
    TextArray array;
    array.text = {reinterpret_cast<const char*>(text.data()), text.size()};
    array.ends = numbers<std::uint64_t>(value[1]);
    const nb::object codes = nb::len(value) == 3 ? nb::object(value[2]) : nb::none();
    // In a column of aliases the third part is where the rows end, which text_lists() takes.
    if (!codes.is_none() && nb::ndarray_check(codes) &&
        nb::cast<nb::ndarray<>>(codes).dtype() == nb::dtype<std::uint32_t>()) {
      array.codes = numbers<std::uint32_t>(codes);
    }
    return array;
  }
  ListArray lists(const nb::object& value) {
    ListArray array;
    array.values = numbers<std::int64_t>(value[0]);
    if (const nb::object ends = value[1]; !ends.is_none()) array.ends = numbers<std::uint64_t>(ends);
    array.width = nb::cast<std::size_t>(value[2]);
    array.rows = nb::cast<std::size_t>(value[3]);
    return array;
  }

  nb::dict columns_;
};

placement::TensorArrays tensor_arrays(Table& table) {
  placement::TensorArrays arrays;
  arrays.tensor_id = table.texts("tensor_id");
  arrays.global_shape = table.lists("global_shape");
  arrays.dtype = table.texts("dtype");
  arrays.itemsize = table.numbers<std::int64_t>("itemsize");
  arrays.partition_dim = table.numbers<std::int64_t>("partition_dim");
  arrays.layout_fingerprint = table.texts("layout_fingerprint");
  arrays.layer_id = table.numbers<std::int64_t>("layer_id");
  arrays.expert_id = table.numbers<std::int64_t>("expert_id");
  arrays.shard_dims = table.optional_lists("shard_dims");
  return arrays;
}

placement::BoxArrays box_arrays(Table& table) {
  placement::BoxArrays arrays;
  arrays.tensor = table.numbers<std::uint32_t>("tensor");
  arrays.global_offset = table.lists("global_offset");
  arrays.local_shape = table.lists("local_shape");
  arrays.nbytes = table.numbers<std::uint64_t>("nbytes");
  arrays.rank = table.numbers<std::int64_t>("rank");
  arrays.aliases = table.text_lists("aliases");
  return arrays;
}

placement::PlaceArrays place_arrays(Table& table) {
  return {table.numbers<std::uint64_t>("address"), table.texts("worker_id"), table.texts("endpoint"),
          table.texts("device")};
}

placement::PlacementManifest placement_from_columns(nb::handle model_id, nb::handle revision, FieldDict tensors,
                                                    FieldDict fragments, nb::handle placement_id) {
  Table tensor_table(std::move(tensors));
  Table table(std::move(fragments));
  placement::PlacementBuilder builder(text(model_id, Path("model_id")), text(revision, Path("revision")),
                                      optional_text(placement_id, Path("placement_id")));
  const placement::TensorArrays tensor_columns = tensor_arrays(tensor_table);
  placement::PlacementFragmentArrays columns;
  columns.placement_fragment_id = table.texts("placement_fragment_id");
  columns.boxes = box_arrays(table);
  auto build = [&]() -> Result<placement::PlacementManifest> {
    SY_RETURN_IF_ERROR(builder.add_tensors(tensor_columns));
    SY_RETURN_IF_ERROR(builder.add_fragments(columns));
    return std::move(builder).build();
  };
  const nb::gil_scoped_release release;
  auto result = build();
  const nb::gil_scoped_acquire acquire;
  return unwrap(std::move(result));
}

/// What allocators say, where they say anything.
Status check_facts(Table& table, const placement::RuntimeFragmentArrays& columns,
                   std::span<const std::int64_t> itemsizes) {
  const nb::object contiguous = table.get("is_contiguous");
  const nb::object semantics = table.get("address_semantics");
  placement::AllocationArrays facts;
  if (!semantics.is_none()) {
    if (!PyUnicode_CheckExact(semantics.ptr()) || text(semantics, Path("address_semantics")) != "view") {
      return placement::contract_error(Path("address_semantics"), "address_semantics must be 'view'");
    }
    facts.view_addresses = true;
  }
  facts.storage_offset = table.numbers<std::int64_t>("storage_offset");
  facts.byte_offset = table.numbers<std::int64_t>("byte_offset");
  facts.stride = table.optional_lists("stride");
  if (!contiguous.is_none()) facts.is_contiguous = table.numbers<std::uint8_t>("is_contiguous");
  if (contiguous.is_none() && !facts.stride && facts.storage_offset.empty() && facts.byte_offset.empty()) return {};
  return placement::check_allocations(facts, columns.boxes, itemsizes);
}

placement::RuntimeManifest runtime_from_columns(nb::handle model_id, nb::handle revision, nb::handle instance_id,
                                                FieldDict tensors, FieldDict fragments, nb::handle lease_id,
                                                nb::handle placement_id, nb::handle generation) {
  Table tensor_table(std::move(tensors));
  Table table(std::move(fragments));
  placement::RuntimeHeader header;
  header.model_id = text(model_id, Path("model_id"));
  header.revision = text(revision, Path("revision"));
  header.instance_id = text(instance_id, Path("instance_id"));
  if (!lease_id.is_none()) header.lease_id = text(lease_id, Path("lease_id"));
  if (!placement_id.is_none()) header.placement_id = text(placement_id, Path("placement_id"));
  if (!generation.is_none()) header.generation = unsigned_integer(generation, 0, Path("generation"));
  placement::RuntimeBuilder builder(std::move(header));
  const placement::TensorArrays tensor_columns = tensor_arrays(tensor_table);
  placement::RuntimeFragmentArrays columns;
  columns.fragment_id = table.texts("fragment_id");
  columns.boxes = box_arrays(table);
  columns.places = place_arrays(table);
  columns.lease_generation = table.numbers<std::uint64_t>("lease_generation");
  columns.placement_fragment_id = table.optional_texts("placement_fragment_id");
  check(builder.add_tensors(tensor_columns));
  check(builder.add_fragments(columns));
  check(check_facts(table, columns, tensor_columns.itemsize));
  const nb::gil_scoped_release release;
  auto result = std::move(builder).build();
  const nb::gil_scoped_acquire acquire;
  return unwrap(std::move(result));
}

placement::RuntimeBindingManifest binding_from_columns(nb::handle model_id, nb::handle revision,
                                                       nb::handle placement_id, nb::handle placement_digest,
                                                       nb::handle instance_id, nb::handle generation,
                                                       nb::handle lease_id, FieldDict fragments) {
  Table table(std::move(fragments));
  placement::BindingHeader header;
  header.model_id = text(model_id, Path("model_id"));
  header.revision = text(revision, Path("revision"));
  header.placement_id = text(placement_id, Path("placement_id"));
  header.placement_digest = text(placement_digest, Path("placement_digest"));
  header.instance_id = text(instance_id, Path("instance_id"));
  header.generation = unsigned_integer(generation, 0, Path("generation"));
  header.lease_id = text(lease_id, Path("lease_id"));
  placement::BindingBuilder builder(std::move(header));
  placement::BindingFragmentArrays columns;
  columns.placement_fragment_id = table.texts("placement_fragment_id");
  columns.fragment_id = table.texts("fragment_id");
  columns.places = place_arrays(table);
  columns.nbytes = table.numbers<std::uint64_t>("nbytes");
  check(builder.add_fragments(columns));
  const nb::gil_scoped_release release;
  auto result = std::move(builder).build();
  const nb::gil_scoped_acquire acquire;
  return unwrap(std::move(result));
}

template <typename T>
nb::bytes bytes_of(const std::vector<T>& values) {
  return nb::bytes(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

/// "fragments.dtype" and 3 are "fragments[3].dtype".
std::string row_path(std::string_view column, std::size_t row) {
  const std::size_t dot = column.find('.');
  return std::string(column.substr(0, dot)) + "[" + std::to_string(row) + "]" +
         std::string(dot == std::string_view::npos ? "" : column.substr(dot));
}

/// (bytes of all texts, uint64 ends) of a sequence of str.
nb::tuple join_texts(nb::handle given, const char* column) {
  const Path path{std::string_view(column)};
  const nb::object sequence = item_sequence(given, "column", path);
  const auto size = static_cast<std::size_t>(PyTuple_GET_SIZE(sequence.ptr()));
  std::string joined;
  std::vector<std::uint64_t> ends;
  ends.reserve(size);
  for (std::size_t row = 0; row < size; ++row) {
    const nb::handle item = PyTuple_GET_ITEM(sequence.ptr(), static_cast<Py_ssize_t>(row));
    if (PyUnicode_CheckExact(item.ptr()) && PyUnicode_IS_COMPACT_ASCII(item.ptr()) != 0) [[likely]] {
      joined.append(static_cast<const char*>(PyUnicode_DATA(item.ptr())),
                    static_cast<std::size_t>(PyUnicode_GET_LENGTH(item.ptr())));
    } else if (PyUnicode_CheckExact(item.ptr())) {
      const std::string where = row_path(column, row);
      joined += text(item, Path(where));
    } else {
      const std::string where = row_path(column, row);
      raise(placement::not_a_string(Path(where)));
    }
    ends.push_back(joined.size());
  }
  return nb::make_tuple(nb::bytes(joined.data(), joined.size()), bytes_of(ends));
}

void append_utf8(std::string& out, std::uint32_t point) {
  auto put = [&out](std::uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (point < 0x80) {
    put(point);
  } else if (point < 0x800) {
    put(0xC0 | point >> 6), put(0x80 | (point & 0x3F));
  } else if (point < 0x10000) {
    put(0xE0 | point >> 12), put(0x80 | (point >> 6 & 0x3F)), put(0x80 | (point & 0x3F));
  } else {
    put(0xF0 | point >> 18), put(0x80 | (point >> 12 & 0x3F)), put(0x80 | (point >> 6 & 0x3F));
    put(0x80 | (point & 0x3F));
  }
}

template <typename Unit>
nb::tuple join_fixed(const nb::ndarray<const Unit, nb::ndim<2>, nb::c_contig, nb::device::cpu>& given) {
  const std::size_t rows = given.shape(0);
  const std::size_t width = given.shape(1);
  std::string joined;
  std::vector<std::uint64_t> ends;
  ends.reserve(rows);
  const Unit* at = given.data();
  for (std::size_t row = 0; row < rows; ++row, at += width) {
    std::size_t length = width;
    while (length > 0 && at[length - 1] == 0) --length;
    for (std::size_t i = 0; i < length; ++i) {
      if constexpr (sizeof(Unit) == 1) {
        joined.push_back(static_cast<char>(at[i]));
      } else {
        append_utf8(joined, at[i]);
      }
    }
    ends.push_back(joined.size());
  }
  return nb::make_tuple(nb::bytes(joined.data(), joined.size()), bytes_of(ends));
}

/// The same of numpy's fixed-width texts: UTF-32 or bytes. That they are valid is checked where rows are.
nb::tuple join_fixed_texts(const nb::ndarray<nb::ndim<2>, nb::c_contig, nb::device::cpu, nb::ro>& given) {
  if (given.dtype() == nb::dtype<std::uint32_t>()) {
    return join_fixed(nb::ndarray<const std::uint32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>(given));
  }
  return join_fixed(nb::ndarray<const std::uint8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>(given));
}

/// (int64 values, uint64 ends) of a sequence of sequences of integers.
nb::tuple join_lists(nb::handle given, const char* column) {
  const Path path{std::string_view(column)};
  const nb::object sequence = item_sequence(given, "column", path);
  const auto size = static_cast<std::size_t>(PyTuple_GET_SIZE(sequence.ptr()));
  std::vector<std::int64_t> values;
  std::vector<std::uint64_t> ends;
  std::vector<std::int64_t> row_values;
  ends.reserve(size);
  for (std::size_t row = 0; row < size; ++row) {
    const std::string where = row_path(column, row);
    integers(PyTuple_GET_ITEM(sequence.ptr(), static_cast<Py_ssize_t>(row)), Path(where), row_values);
    values.insert(values.end(), row_values.begin(), row_values.end());
    ends.push_back(values.size());
  }
  return nb::make_tuple(bytes_of(values), bytes_of(ends));
}

}  // namespace

void add_columns(nb::module_& module) {
  module.def("placement_from_columns", &placement_from_columns, nb::arg("model_id").none(), nb::arg("revision").none(),
             nb::arg("tensors"), nb::arg("fragments"), nb::arg("placement_id").none());
  module.def("runtime_from_columns", &runtime_from_columns, nb::arg("model_id").none(), nb::arg("revision").none(),
             nb::arg("instance_id").none(), nb::arg("tensors"), nb::arg("fragments"), nb::arg("lease_id").none(),
             nb::arg("placement_id").none(), nb::arg("generation").none());
  module.def("binding_from_columns", &binding_from_columns, nb::arg("model_id").none(), nb::arg("revision").none(),
             nb::arg("placement_id").none(), nb::arg("placement_digest").none(), nb::arg("instance_id").none(),
             nb::arg("generation").none(), nb::arg("lease_id").none(), nb::arg("fragments"));
  module.def("join_texts", &join_texts, nb::arg("texts").none(), nb::arg("column"),
             nb::sig("def join_texts(texts: object, column: str) -> tuple[bytes, bytes]"));
  module.def("join_fixed_texts", &join_fixed_texts, nb::arg("texts"),
             nb::sig("def join_fixed_texts(texts: typing.Any) -> tuple[bytes, bytes]"));
  module.def("join_lists", &join_lists, nb::arg("lists").none(), nb::arg("column"),
             nb::sig("def join_lists(lists: object, column: str) -> tuple[bytes, bytes]"));
}

}  // namespace steelyard::python
