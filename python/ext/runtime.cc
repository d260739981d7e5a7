// RuntimeManifest and RuntimeBindingManifest, the way from memory to placement and back, and the fence.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "ext/areas.h"
#include "ext/manifests.h"
#include "placement/bind.h"
#include "placement/project.h"

namespace steelyard::python {
namespace {

using placement::BindingHeader;
using placement::PlacementManifest;
using placement::RuntimeBindingManifest;
using placement::RuntimeHeader;
using placement::RuntimeManifest;

std::string owned(nb::handle value, const char* field) { return std::string(text(value, Path(field))); }

std::optional<std::string> optional_owned(nb::handle value, const char* field) {
  if (value.is_none()) return std::nullopt;
  return owned(value, field);
}

RuntimeManifest make_runtime(nb::handle model_id, nb::handle revision, nb::handle instance_id, nb::handle tensors,
                             nb::handle fragments, nb::handle lease_id, nb::handle placement_id,
                             nb::handle generation) {
  RuntimeHeader header;
  header.model_id = owned(model_id, "model_id");
  header.revision = owned(revision, "revision");
  header.instance_id = owned(instance_id, "instance_id");
  header.lease_id = optional_owned(lease_id, "lease_id");
  header.placement_id = optional_owned(placement_id, "placement_id");
  if (!generation.is_none()) header.generation = unsigned_integer(generation, 0, Path("generation"));
  placement::RuntimeBuilder builder(std::move(header));
  builder.reserve(length_hint(tensors), length_hint(fragments));
  TensorReader tensor;
  for_each_of(tensors, "RuntimeManifest", Path("tensors"), "TensorDescriptor", [&](nb::handle item, const Path& path) {
    tensor.read(ObjectFields(item), path);
    check(builder.add_tensor(tensor.row));
  });
  RuntimeFragmentReader fragment;
  for_each_of(fragments, "RuntimeManifest", Path("fragments"), "RuntimeFragment",
              [&](nb::handle item, const Path& path) {
                fragment.read(ObjectFields(item), path);
                check(builder.add_fragment(fragment.row));
              });
  return unwrap(std::move(builder).build());
}

RuntimeBindingManifest make_binding(nb::handle model_id, nb::handle revision, nb::handle placement_id,
                                    nb::handle placement_digest, nb::handle instance_id, nb::handle generation,
                                    nb::handle lease_id, nb::handle fragments) {
  BindingHeader header;
  header.model_id = owned(model_id, "model_id");
  header.revision = owned(revision, "revision");
  header.placement_id = owned(placement_id, "placement_id");
  header.placement_digest = owned(placement_digest, "placement_digest");
  header.instance_id = owned(instance_id, "instance_id");
  header.generation = unsigned_integer(generation, 0, Path("generation"));
  header.lease_id = owned(lease_id, "lease_id");
  placement::BindingBuilder builder(std::move(header));
  builder.reserve(length_hint(fragments));
  BindingFragmentReader fragment;
  for_each_of(fragments, "RuntimeBindingManifest", Path("fragments"), "RuntimeBindingFragment",
              [&](nb::handle item, const Path& path) {
                fragment.read(ObjectFields(item), path);
                check(builder.add_fragment(fragment.row));
              });
  return unwrap(std::move(builder).build());
}

nb::object runtime_fragments(const RuntimeManifest& manifest) {
  const std::vector<nb::object> ranks = rank_objects(manifest.fragments().boxes);
  return tuple_of(manifest.fragments().size(), [&](std::size_t row) {
    return to_python(manifest.fragment(row), ranks[manifest.fragments().boxes.rank_number(row)]);
  });
}

nb::object runtime_fragment(const RuntimeManifest& manifest, std::size_t row) {
  if (row >= manifest.fragments().size()) throw nb::index_error("fragment index out of range");
  return to_python(manifest.fragment(row), to_python(manifest.fragments().boxes.rank(row)));
}

nb::object binding_fragments(const RuntimeBindingManifest& manifest) {
  return tuple_of(manifest.fragments().size(), [&](std::size_t row) { return to_python(manifest.fragment(row)); });
}

nb::object binding_fragment(const RuntimeBindingManifest& manifest, std::size_t row) {
  if (row >= manifest.fragments().size()) throw nb::index_error("fragment index out of range");
  return to_python(manifest.fragment(row));
}

PlacementManifest placement_of(const RuntimeManifest& manifest, nb::handle placement_id) {
  return unwrap(placement::placement_of(manifest, optional_text(placement_id, Path("placement_id"))));
}

RuntimeBindingManifest binding_of(const RuntimeManifest& manifest, nb::handle placement_id) {
  return unwrap(placement::binding_of(manifest, optional_text(placement_id, Path("placement_id"))));
}

void check_fence(const RuntimeBindingManifest& binding, nb::handle lease_id, nb::handle generation) {
  check(placement::check_fence(binding, text(lease_id, Path("lease_id")),
                               unsigned_integer(generation, 0, Path("generation"))));
}

void add_runtime_class(nb::module_& module) {
  nb::class_<RuntimeManifest>(module, "Runtime", "The columns of a runtime manifest.")
      .def_static("make", &make_runtime, nb::arg("model_id").none(), nb::arg("revision").none(),
                  nb::arg("instance_id").none(), nb::arg("tensors").none(), nb::arg("fragments").none(),
                  nb::arg("lease_id").none(), nb::arg("placement_id").none(), nb::arg("generation").none())
      .def_prop_ro("model_id", [](const RuntimeManifest& manifest) { return manifest.header().model_id; })
      .def_prop_ro("revision", [](const RuntimeManifest& manifest) { return manifest.header().revision; })
      .def_prop_ro("instance_id", [](const RuntimeManifest& manifest) { return manifest.header().instance_id; })
      .def_prop_ro("lease_id", [](const RuntimeManifest& manifest) { return manifest.header().lease_id; })
      .def_prop_ro("placement_id", [](const RuntimeManifest& manifest) { return manifest.header().placement_id; })
      .def_prop_ro("generation", &RuntimeManifest::generation)
      .def_prop_ro("tensor_count", [](const RuntimeManifest& manifest) { return manifest.tensors().size(); })
      .def_prop_ro("fragment_count", [](const RuntimeManifest& manifest) { return manifest.fragments().size(); })
      .def(
          "tensors", [](const RuntimeManifest& manifest) { return tensors_of(manifest.tensors()); },
          nb::sig("def tensors(self) -> tuple[typing.Any, ...]"))
      .def("fragments", &runtime_fragments, nb::sig("def fragments(self) -> tuple[typing.Any, ...]"))
      .def("fragment", &runtime_fragment, nb::arg("row"), nb::sig("def fragment(self, row: int) -> typing.Any"))
      .def(
          "equals", [](const RuntimeManifest& a, const RuntimeManifest& b) { return a == b; }, nb::arg("other"));
}

void add_binding_class(nb::module_& module) {
  using Binding = RuntimeBindingManifest;
  nb::class_<Binding>(module, "Binding", "The columns of a runtime binding manifest.")
      .def_static("make", &make_binding, nb::arg("model_id").none(), nb::arg("revision").none(),
                  nb::arg("placement_id").none(), nb::arg("placement_digest").none(), nb::arg("instance_id").none(),
                  nb::arg("generation").none(), nb::arg("lease_id").none(), nb::arg("fragments").none())
      .def_prop_ro("model_id", [](const Binding& manifest) { return manifest.header().model_id; })
      .def_prop_ro("revision", [](const Binding& manifest) { return manifest.header().revision; })
      .def_prop_ro("placement_id", [](const Binding& manifest) { return manifest.header().placement_id; })
      .def_prop_ro("placement_digest", [](const Binding& manifest) { return manifest.header().placement_digest; })
      .def_prop_ro("instance_id", [](const Binding& manifest) { return manifest.header().instance_id; })
      .def_prop_ro("generation", [](const Binding& manifest) { return manifest.header().generation; })
      .def_prop_ro("lease_id", [](const Binding& manifest) { return manifest.header().lease_id; })
      .def_prop_ro("fragment_count", [](const Binding& manifest) { return manifest.fragments().size(); })
      .def("fragments", &binding_fragments, nb::sig("def fragments(self) -> tuple[typing.Any, ...]"))
      .def("fragment", &binding_fragment, nb::arg("row"), nb::sig("def fragment(self, row: int) -> typing.Any"))
      .def(
          "equals", [](const Binding& a, const Binding& b) { return a == b; }, nb::arg("other"));
}

}  // namespace

void add_runtime(nb::module_& module) {
  add_runtime_class(module);
  add_binding_class(module);
  module.def("placement_of", &placement_of, nb::arg("manifest"), nb::arg("placement_id").none());
  module.def("binding_of", &binding_of, nb::arg("manifest"), nb::arg("placement_id").none());
  module.def(
      "bind",
      [](const PlacementManifest& placement, const RuntimeBindingManifest& binding) {
        return unwrap(placement::bind(placement, binding));
      },
      nb::arg("placement"), nb::arg("binding"));
  module.def("check_fence", &check_fence, nb::arg("binding"), nb::arg("lease_id").none(), nb::arg("generation").none());
}

}  // namespace steelyard::python
