#include "ext/rows.h"

#include <initializer_list>
#include <utility>

namespace steelyard::python {
namespace {

using placement::contract_error;

bool is_mapping(nb::handle value) {
  if (PyDict_Check(value.ptr())) return true;
  static const nb::handle mapping = nb::object(nb::module_::import_("collections.abc").attr("Mapping")).release();
  const int found = PyObject_IsInstance(value.ptr(), mapping.ptr());
  if (found < 0) throw nb::python_error();
  return found == 1;
}

/// `value` is of a class of the facade.
bool is_facade(nb::handle value, const char* name) {
  const int found = PyObject_IsInstance(value.ptr(), facade(name).ptr());
  if (found < 0) throw nb::python_error();
  return found == 1;
}

/// An instance of a frozen dataclass with these fields.
nb::object instance(const char* name, std::initializer_list<std::pair<nb::handle, nb::object>> fields) {
  auto* type = reinterpret_cast<PyTypeObject*>(facade(name).ptr());
  nb::object made = nb::steal(type->tp_alloc(type, 0));
  if (!made.is_valid()) throw nb::python_error();
  for (const auto& [field, value] : fields) {
    if (PyObject_GenericSetAttr(made.ptr(), field.ptr(), value.ptr()) != 0) throw nb::python_error();
  }
  return made;
}

std::string_view keep_text(nb::object value, const Path& path, nb::object& keep) {
  keep = std::move(value);
  return text(keep, path);
}

placement::MemoryPlace read_place(const Fields& fields, const Path& path, nb::object* keep) {
  const Names& name = names();
  placement::MemoryPlace place;
  place.address = unsigned_integer(fields.get(name.address), 1, Path(&path, "address"));
  place.worker_id = keep_text(fields.get(name.worker_id), Path(&path, "worker_id"), keep[0]);
  place.endpoint = keep_text(fields.get(name.endpoint), Path(&path, "endpoint"), keep[1]);
  place.device = keep_text(fields.get(name.device), Path(&path, "device"), keep[2]);
  return place;
}

}  // namespace

nb::object ObjectFields::get(nb::handle name) const {
  nb::object value = nb::steal(PyObject_GetAttr(object_.ptr(), name.ptr()));
  if (!value.is_valid()) throw nb::python_error();
  return value;
}

nb::object DictFields::get(nb::handle name) const {
  nb::object value = nb::borrow(PyDict_GetItemWithError(dict_.ptr(), name.ptr()));
  if (!value.is_valid()) nb::raise_type_error("not the fields of this class");
  return value;
}

RecordFields::RecordFields(nb::handle record, const Path& path)
    : record_(record), path_(path), mapping_(is_mapping(record)) {}

nb::object RecordFields::get(nb::handle name) const { return lookup(name, true); }

nb::object RecordFields::lookup(nb::handle name, bool required) const {
  nb::object value;
  if (PyDict_CheckExact(record_.ptr())) {
    value = nb::borrow(PyDict_GetItemWithError(record_.ptr(), name.ptr()));
    if (!value.is_valid() && PyErr_Occurred() != nullptr) throw nb::python_error();
  } else {
    value =
        nb::steal(mapping_ ? PyObject_GetItem(record_.ptr(), name.ptr()) : PyObject_GetAttr(record_.ptr(), name.ptr()));
    if (!value.is_valid()) {
      if (PyErr_ExceptionMatches(mapping_ ? PyExc_KeyError : PyExc_AttributeError) == 0) throw nb::python_error();
      PyErr_Clear();
    }
  }
  if (value.is_valid()) return value;
  if (!required) return nb::none();
  raise(contract_error(path_, std::string("missing required field: ") + nb::borrow<nb::str>(name).c_str()));
}

void TensorReader::read(const Fields& fields, const Path& path) {
  const Names& name = names();
  row.tensor_id = keep_text(fields.get(name.tensor_id), Path(&path, "tensor_id"), keep_[0]);
  integers(fields.get(name.global_shape), Path(&path, "global_shape"), shape_);
  row.global_shape = shape_;
  row.dtype = keep_text(fields.get(name.dtype), Path(&path, "dtype"), keep_[1]);
  row.itemsize = integer(fields.get(name.itemsize), Path(&path, "itemsize"));
  row.partition_dim = optional_integer(fields.get(name.partition_dim), Path(&path, "partition_dim"));
  row.layout_fingerprint = keep_text(fields.get(name.layout_fingerprint), Path(&path, "layout_fingerprint"), keep_[2]);
  row.layer_id = optional_integer(fields.find(name.layer_id), Path(&path, "layer_id"));
  row.expert_id = optional_integer(fields.find(name.expert_id), Path(&path, "expert_id"));
  row.shard_dims.reset();
  if (const nb::object dims = fields.find(name.shard_dims); !dims.is_none()) {
    integers(dims, Path(&path, "shard_dims"), shard_dims_);
    row.shard_dims = shard_dims_;
  }
}

void RankReader::read_fields(const Fields& fields, const Path& path) {
  const Names& name = names();
  rank_.dp = integer(fields.get(name.dp), Path(&path, "dp"));
  rank_.tp = integer(fields.get(name.tp), Path(&path, "tp"));
  rank_.pp = integer(fields.get(name.pp), Path(&path, "pp"));
  rank_.ep = integer(fields.get(name.ep), Path(&path, "ep"));
}

const placement::ParallelRank& RankReader::read(nb::handle value, const Path& path) {
  if (last_.is_valid() && last_.is(value)) return rank_;
  if (!is_facade(value, "ParallelRank")) {
    raise(contract_error(path, std::string(path.name()) + " must be a ParallelRank"));
  }
  read_fields(ObjectFields(value), path);
  last_ = nb::borrow(value);
  return rank_;
}

const placement::ParallelRank& RankReader::read_record(nb::handle value, const Path& path) {
  if (is_facade(value, "ParallelRank")) return read(value, path);
  last_.reset();
  read_fields(RecordFields(value, path), path);
  return rank_;
}

template <typename Row>
void BoxReader::read(const Fields& fields, const Path& path, bool record, Row& row) {
  const Names& name = names();
  row.tensor_id = keep_text(fields.get(name.tensor_id), Path(&path, "tensor_id"), keep_[0]);
  integers(fields.get(name.global_offset), Path(&path, "global_offset"), offset_);
  row.global_offset = offset_;
  integers(fields.get(name.local_shape), Path(&path, "local_shape"), shape_);
  row.local_shape = shape_;
  row.nbytes = unsigned_integer(fields.get(name.nbytes), 1, Path(&path, "nbytes"));
  const nb::object rank = fields.get(name.rank);
  const Path rank_path(&path, "rank");
  row.rank = record ? rank_.read_record(rank, rank_path) : rank_.read(rank, rank_path);
  row.aliases.clear();
  if (const nb::object aliases = fields.find(name.aliases); !record || !aliases.is_none()) {
    texts(aliases, Path(&path, "aliases"), row.aliases, keep_[1]);
  }
}

void PlacementFragmentReader::read(const Fields& fields, const Path& path, bool record) {
  const Names& name = names();
  row.placement_fragment_id =
      keep_text(fields.get(name.placement_fragment_id), Path(&path, "placement_fragment_id"), keep_);
  box_.read(fields, path, record, row);
}

void RuntimeFragmentReader::read(const Fields& fields, const Path& path, bool record) {
  const Names& name = names();
  row.fragment_id = keep_text(fields.get(name.fragment_id), Path(&path, "fragment_id"), keep_[0]);
  box_.read(fields, path, record, row);
  row.place = read_place(fields, path, &keep_[1]);
  row.lease_generation = unsigned_integer(fields.get(name.lease_generation), 0, Path(&path, "lease_generation"));
  row.owner = record ? placement::Owner() : to_owner(fields.get(name.owner));
  keep_[4] = fields.find(name.placement_fragment_id);
  row.placement_fragment_id = optional_text(keep_[4], Path(&path, "placement_fragment_id"));
}

void BindingFragmentReader::read(const Fields& fields, const Path& path, bool record) {
  const Names& name = names();
  row.placement_fragment_id =
      keep_text(fields.get(name.placement_fragment_id), Path(&path, "placement_fragment_id"), keep_[0]);
  row.fragment_id = keep_text(fields.get(name.fragment_id), Path(&path, "fragment_id"), keep_[1]);
  row.nbytes = unsigned_integer(fields.get(name.nbytes), 1, Path(&path, "nbytes"));
  row.place = read_place(fields, path, &keep_[2]);
  row.owner = record ? placement::Owner() : to_owner(fields.get(name.owner));
}

void AllocationReader::read(const Fields& fields, const Path& path, bool whole) {
  const Names& name = names();
  facts.is_contiguous = fields.get(name.is_contiguous).ptr() == Py_True;
  facts.stride.reset();
  if (whole) {
    integers(fields.get(name.stride), Path(&path, "stride"), stride_);
    facts.stride = stride_;
  }
  auto offset = [&](const nb::object& field, const char* field_name) {
    const nb::object value = whole ? fields.get(field) : fields.find(field);
    return value.is_none() && !whole ? 0 : integer(value, Path(&path, field_name));
  };
  facts.storage_offset = offset(name.storage_offset, "storage_offset");
  facts.byte_offset = offset(name.byte_offset, "byte_offset");
  facts.lease_generation.reset();
  const nb::object generation = whole ? fields.get(name.lease_generation) : fields.find(name.lease_generation);
  if (whole || !generation.is_none()) {
    facts.lease_generation = unsigned_integer(generation, 0, Path(&path, "lease_generation"));
  }
  facts.address_semantics.reset();
  keep_ = fields.find(name.address_semantics);
  if (!keep_.is_none()) {
    // Whatever is not the one word that is allowed is refused by the rules, with the contract's words.
    facts.address_semantics = "";
    if (PyUnicode_CheckExact(keep_.ptr()) && PyUnicode_GET_LENGTH(keep_.ptr()) != 0) {
      facts.address_semantics = text(keep_, Path(&path, "address_semantics"));
    }
  }
}

placement::Owner to_owner(nb::handle object) {
  if (object.is_none()) return nullptr;
  return {object.inc_ref().ptr(), [](void* kept) {
            if (Py_IsInitialized() == 0) return;
            const nb::gil_scoped_acquire gil;
            Py_DECREF(static_cast<PyObject*>(kept));
          }};
}

nb::object to_python(const placement::Owner& owner) {
  return owner ? nb::borrow(static_cast<PyObject*>(owner.get())) : nb::none();
}

nb::object to_python(const placement::ParallelRank& rank) {
  const Names& name = names();
  return instance("ParallelRank", {{name.dp, to_python(rank.dp)},
                                   {name.tp, to_python(rank.tp)},
                                   {name.pp, to_python(rank.pp)},
                                   {name.ep, to_python(rank.ep)}});
}

nb::object to_python(const placement::TensorDescriptorRow& row) {
  const Names& name = names();
  return instance("TensorDescriptor", {{name.tensor_id, to_python(row.tensor_id)},
                                       {name.global_shape, to_python(row.global_shape)},
                                       {name.dtype, to_python(row.dtype)},
                                       {name.itemsize, to_python(row.itemsize)},
                                       {name.partition_dim, to_python(row.partition_dim)},
                                       {name.layout_fingerprint, to_python(row.layout_fingerprint)},
                                       {name.layer_id, to_python(row.layer_id)},
                                       {name.expert_id, to_python(row.expert_id)},
                                       {name.shard_dims, to_python(row.shard_dims)}});
}

nb::object to_python(const placement::PlacementFragmentRow& row, nb::handle rank) {
  const Names& name = names();
  return instance("PlacementFragment", {{name.placement_fragment_id, to_python(row.placement_fragment_id)},
                                        {name.tensor_id, to_python(row.tensor_id)},
                                        {name.global_offset, to_python(row.global_offset)},
                                        {name.local_shape, to_python(row.local_shape)},
                                        {name.nbytes, to_python(row.nbytes)},
                                        {name.rank, nb::borrow(rank)},
                                        {name.aliases, to_python(std::span<const std::string_view>(row.aliases))}});
}

nb::object to_python(const placement::RuntimeFragmentRow& row, nb::handle rank) {
  const Names& name = names();
  return instance("RuntimeFragment", {{name.fragment_id, to_python(row.fragment_id)},
                                      {name.tensor_id, to_python(row.tensor_id)},
                                      {name.global_offset, to_python(row.global_offset)},
                                      {name.local_shape, to_python(row.local_shape)},
                                      {name.address, to_python(row.place.address)},
                                      {name.nbytes, to_python(row.nbytes)},
                                      {name.worker_id, to_python(row.place.worker_id)},
                                      {name.endpoint, to_python(row.place.endpoint)},
                                      {name.device, to_python(row.place.device)},
                                      {name.rank, nb::borrow(rank)},
                                      {name.lease_generation, to_python(row.lease_generation)},
                                      {name.owner, to_python(row.owner)},
                                      {name.aliases, to_python(std::span<const std::string_view>(row.aliases))},
                                      {name.placement_fragment_id, to_python(row.placement_fragment_id)}});
}

nb::object to_python(const placement::BindingFragmentRow& row) {
  const Names& name = names();
  return instance("RuntimeBindingFragment", {{name.placement_fragment_id, to_python(row.placement_fragment_id)},
                                             {name.fragment_id, to_python(row.fragment_id)},
                                             {name.address, to_python(row.place.address)},
                                             {name.nbytes, to_python(row.nbytes)},
                                             {name.worker_id, to_python(row.place.worker_id)},
                                             {name.endpoint, to_python(row.place.endpoint)},
                                             {name.device, to_python(row.place.device)},
                                             {name.owner, to_python(row.owner)}});
}

}  // namespace steelyard::python
