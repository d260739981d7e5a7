// The scalar types of the facade are Python dataclasses; their __post_init__ comes here to be checked and brought into
// the form in which they are stored: plain ints, tuples, sorted aliases.
#include "ext/areas.h"
#include "ext/rows.h"
#include "placement/validate.h"

namespace steelyard::python {
namespace {

void set(nb::handle dict, nb::handle name, const nb::object& value) {
  if (PyDict_SetItem(dict.ptr(), name.ptr(), value.ptr()) != 0) throw nb::python_error();
}

void set_aliases(nb::handle dict, std::vector<std::string_view>& aliases) {
  check(placement::sort_aliases(aliases, Path("aliases")));
  set(dict, names().aliases, to_python(std::span<const std::string_view>(aliases)));
}

void normalise_rank(const FieldDict& fields) {
  const Names& name = names();
  const DictFields given(fields);
  placement::ParallelRank rank;
  rank.dp = integer(given.get(name.dp), Path("dp"));
  rank.tp = integer(given.get(name.tp), Path("tp"));
  rank.pp = integer(given.get(name.pp), Path("pp"));
  rank.ep = integer(given.get(name.ep), Path("ep"));
  check(placement::check_rank(rank, Path()));
  set(fields, name.dp, to_python(rank.dp));
  set(fields, name.tp, to_python(rank.tp));
  set(fields, name.pp, to_python(rank.pp));
  set(fields, name.ep, to_python(rank.ep));
}

void normalise_tensor(const FieldDict& fields) {
  const Names& name = names();
  TensorReader reader;
  reader.read(DictFields(fields), Path());
  check(placement::check_tensor(reader.row, Path()));
  set(fields, name.global_shape, to_python(reader.row.global_shape));
  set(fields, name.itemsize, to_python(reader.row.itemsize));
  set(fields, name.partition_dim, to_python(reader.row.partition_dim));
  set(fields, name.layer_id, to_python(reader.row.layer_id));
  set(fields, name.expert_id, to_python(reader.row.expert_id));
  set(fields, name.shard_dims, to_python(reader.row.shard_dims));
}

template <typename Row>
void set_box(nb::handle fields, Row& row) {
  const Names& name = names();
  set(fields, name.global_offset, to_python(row.global_offset));
  set(fields, name.local_shape, to_python(row.local_shape));
  set(fields, name.nbytes, to_python(row.nbytes));
  set_aliases(fields, row.aliases);
}

void normalise_placement_fragment(const FieldDict& fields) {
  PlacementFragmentReader reader;
  reader.read(DictFields(fields), Path());
  check(placement::check_fragment(reader.row, Path()));
  set_box(fields, reader.row);
}

void normalise_runtime_fragment(const FieldDict& fields) {
  const Names& name = names();
  RuntimeFragmentReader reader;
  reader.read(DictFields(fields), Path());
  check(placement::check_fragment(reader.row, Path()));
  set_box(fields, reader.row);
  set(fields, name.address, to_python(reader.row.place.address));
  set(fields, name.lease_generation, to_python(reader.row.lease_generation));
}

void normalise_binding_fragment(const FieldDict& fields) {
  const Names& name = names();
  BindingFragmentReader reader;
  reader.read(DictFields(fields), Path());
  check(placement::check_fragment(reader.row, Path()));
  set(fields, name.address, to_python(reader.row.place.address));
  set(fields, name.nbytes, to_python(reader.row.nbytes));
}

}  // namespace

void add_scalars(nb::module_& module) {
  module.def("normalise_rank", &normalise_rank, nb::arg("fields"));
  module.def("normalise_tensor", &normalise_tensor, nb::arg("fields"));
  module.def("normalise_placement_fragment", &normalise_placement_fragment, nb::arg("fields"));
  module.def("normalise_runtime_fragment", &normalise_runtime_fragment, nb::arg("fields"));
  module.def("normalise_binding_fragment", &normalise_binding_fragment, nb::arg("fields"));
}

}  // namespace steelyard::python
