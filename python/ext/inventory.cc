// Adapters: inventories of mappings or of objects with attributes, read field by field.
#include "placement/inventory.h"

#include "ext/areas.h"
#include "ext/manifests.h"

namespace steelyard::python {
namespace {

using placement::PlacementManifest;
using placement::RuntimeBindingManifest;
using placement::RuntimeManifest;

/// Calls `each(fields, record, path)` for every record of a field of an inventory.
template <typename Each>
void for_each_record(const Fields& inventory, nb::handle field, const char* field_name, const Each& each) {
  const Path list(field_name);
  const nb::object records = item_sequence(inventory.get(field), "inventory", list);
  const auto size = static_cast<std::size_t>(PyTuple_GET_SIZE(records.ptr()));
  for (std::size_t i = 0; i < size; ++i) {
    const nb::handle record = PyTuple_GET_ITEM(records.ptr(), static_cast<Py_ssize_t>(i));
    const Path path(&list, i);
    each(RecordFields(record, path), record, path);
  }
}

/// A text field of an inventory's head.
std::string head(const Fields& inventory, nb::handle field, const char* field_name) {
  const nb::object value = inventory.get(field);
  return std::string(text(value, Path(field_name)));
}

std::optional<std::string> optional_head(const Fields& inventory, nb::handle field, const char* field_name) {
  const nb::object value = inventory.find(field);
  if (value.is_none()) return std::nullopt;
  return std::string(text(value, Path(field_name)));
}

PlacementManifest placement_from_inventory(nb::handle inventory) {
  const Names& name = names();
  const Path top;
  const RecordFields fields(inventory, top);
  const std::string model_id = head(fields, name.model_id, "model_id");
  const std::string revision = head(fields, name.revision, "revision");
  const std::optional<std::string> placement_id = optional_head(fields, name.placement_id, "placement_id");
  placement::PlacementInventory builder(model_id, revision, placement_id);
  TensorReader tensor;
  PlacementFragmentReader fragment;
  for_each_record(fields, name.tensors, "tensors", [&](const Fields& record, nb::handle, const Path& path) {
    tensor.read(record, path);
    fragment.read(record, path, true);
    check(builder.add(tensor.row, fragment.row));
  });
  return unwrap(std::move(builder).build());
}

RuntimeManifest runtime_from_inventory(nb::handle inventory, nb::handle owner_resolver) {
  const Names& name = names();
  const Path top;
  const RecordFields fields(inventory, top);
  placement::RuntimeHeader header;
  header.model_id = head(fields, name.model_id, "model_id");
  header.revision = head(fields, name.revision, "revision");
  header.instance_id = head(fields, name.instance_id, "instance_id");
  header.generation = unsigned_integer(fields.get(name.generation), 0, Path("generation"));
  header.lease_id = optional_head(fields, name.lease_id, "lease_id");
  header.placement_id = optional_head(fields, name.placement_id, "placement_id");
  placement::RuntimeInventory builder(std::move(header));
  TensorReader tensor;
  RuntimeFragmentReader fragment;
  AllocationReader allocation;
  for_each_record(fields, name.tensors, "tensors", [&](const Fields& record, nb::handle item, const Path& path) {
    tensor.read(record, path);
    fragment.read(record, path, true);
    allocation.read(record, path, true);
    if (!owner_resolver.is_none()) fragment.row.owner = to_owner(owner_resolver(item));
    check(builder.add(tensor.row, fragment.row, allocation.facts));
  });
  return unwrap(std::move(builder).build());
}

RuntimeBindingManifest binding_from_inventory(nb::handle inventory, nb::handle owner_resolver) {
  const Names& name = names();
  const Path top;
  const RecordFields fields(inventory, top);
  placement::BindingHeader header;
  header.model_id = head(fields, name.model_id, "model_id");
  header.revision = head(fields, name.revision, "revision");
  header.placement_id = head(fields, name.placement_id, "placement_id");
  header.placement_digest = head(fields, name.placement_digest, "placement_digest");
  header.instance_id = head(fields, name.instance_id, "instance_id");
  header.generation = unsigned_integer(fields.get(name.generation), 0, Path("generation"));
  header.lease_id = head(fields, name.lease_id, "lease_id");
  placement::BindingInventory builder(std::move(header));
  BindingFragmentReader fragment;
  AllocationReader allocation;
  for_each_record(fields, name.fragments, "fragments", [&](const Fields& record, nb::handle item, const Path& path) {
    fragment.read(record, path, true);
    allocation.read(record, path, false);
    if (!owner_resolver.is_none()) fragment.row.owner = to_owner(owner_resolver(item));
    check(builder.add(fragment.row, allocation.facts));
  });
  return unwrap(std::move(builder).build());
}

}  // namespace

void add_inventory(nb::module_& module) {
  module.def("placement_from_inventory", &placement_from_inventory, nb::arg("inventory").none());
  module.def("runtime_from_inventory", &runtime_from_inventory, nb::arg("inventory").none(),
             nb::arg("owner_resolver").none());
  module.def("binding_from_inventory", &binding_from_inventory, nb::arg("inventory").none(),
             nb::arg("owner_resolver").none());
}

}  // namespace steelyard::python
