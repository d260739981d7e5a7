// PlacementManifest: columns inside, the facade's objects only where somebody asks for them.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include "ext/areas.h"
#include "ext/manifests.h"
#include "placement/project.h"

namespace steelyard::python {
namespace {

using placement::PlacementBuilder;
using placement::PlacementManifest;

PlacementManifest make_placement(nb::handle model_id, nb::handle revision, nb::handle tensors, nb::handle fragments,
                                 nb::handle placement_id) {
  PlacementBuilder builder(text(model_id, Path("model_id")), text(revision, Path("revision")),
                           optional_text(placement_id, Path("placement_id")));
  builder.reserve(length_hint(tensors), length_hint(fragments));
  TensorReader tensor;
  for_each_of(tensors, "PlacementManifest", Path("tensors"), "TensorDescriptor",
              [&](nb::handle item, const Path& path) {
                tensor.read(ObjectFields(item), path);
                check(builder.add_tensor(tensor.row));
              });
  PlacementFragmentReader fragment;
  for_each_of(fragments, "PlacementManifest", Path("fragments"), "PlacementFragment",
              [&](nb::handle item, const Path& path) {
                fragment.read(ObjectFields(item), path);
                check(builder.add_fragment(fragment.row));
              });
  const nb::gil_scoped_release release;
  auto result = std::move(builder).build();
  const nb::gil_scoped_acquire acquire;
  return unwrap(std::move(result));
}

PlacementManifest from_json(nb::handle given) {
  std::string_view json;
  if (PyBytes_CheckExact(given.ptr())) {
    json = {PyBytes_AS_STRING(given.ptr()), static_cast<std::size_t>(PyBytes_GET_SIZE(given.ptr()))};
  } else {
    json = text(given, Path("text"));
  }
  const nb::gil_scoped_release release;
  auto result = PlacementManifest::from_json(json);
  const nb::gil_scoped_acquire acquire;
  return unwrap(std::move(result));
}

nb::object json_of(const PlacementManifest& manifest) {
  std::string json;
  {
    const nb::gil_scoped_release release;
    json = manifest.to_json();
  }
  return to_python(std::string_view(json));
}

nb::object fragments_of(const PlacementManifest& manifest) {
  const std::vector<nb::object> ranks = rank_objects(manifest.fragments().boxes);
  return tuple_of(manifest.fragments().size(), [&](std::size_t row) {
    return to_python(manifest.fragment(row), ranks[manifest.fragments().boxes.rank_number(row)]);
  });
}

nb::object fragment_at(const PlacementManifest& manifest, std::size_t row) {
  if (row >= manifest.fragments().size()) throw nb::index_error("fragment index out of range");
  return to_python(manifest.fragment(row), to_python(manifest.fragments().boxes.rank(row)));
}

nb::object find_fragment(const PlacementManifest& manifest, nb::handle id) {
  const auto row = manifest.fragments().find(text(id, Path("placement_fragment_id")));
  return row ? to_python(std::uint64_t{*row}) : nb::none();
}

}  // namespace

std::size_t length_hint(nb::handle items) {
  const Py_ssize_t size = PyObject_LengthHint(items.ptr(), 0);
  if (size < 0) PyErr_Clear();
  return size < 0 ? 0 : static_cast<std::size_t>(size);
}

std::vector<nb::object> rank_objects(const placement::BoxColumns& boxes) {
  std::vector<nb::object> objects;
  for (const placement::ParallelRank& rank : boxes.ranks()) objects.push_back(to_python(rank));
  return objects;
}

nb::object tensors_of(const placement::TensorColumns& tensors) {
  return tuple_of(tensors.size(), [&](std::size_t row) { return to_python(tensors.row(row)); });
}

void add_placement(nb::module_& module) {
  nb::class_<PlacementManifest>(module, "Placement", "The columns of a placement manifest.")
      .def_static("make", &make_placement, nb::arg("model_id").none(), nb::arg("revision").none(),
                  nb::arg("tensors").none(), nb::arg("fragments").none(), nb::arg("placement_id").none())
      .def_static("from_json", &from_json, nb::arg("text").none())
      .def("to_json", &json_of, nb::sig("def to_json(self) -> str"))
      .def_prop_ro("model_id", &PlacementManifest::model_id)
      .def_prop_ro("revision", &PlacementManifest::revision)
      .def_prop_ro("placement_id", &PlacementManifest::placement_id)
      .def_prop_ro("digest", &PlacementManifest::digest)
      .def_prop_ro("layout_digest", &PlacementManifest::layout_digest)
      .def_prop_ro("tensor_count", [](const PlacementManifest& manifest) { return manifest.tensors().size(); })
      .def_prop_ro("fragment_count", [](const PlacementManifest& manifest) { return manifest.fragments().size(); })
      .def(
          "tensors", [](const PlacementManifest& manifest) { return tensors_of(manifest.tensors()); },
          nb::sig("def tensors(self) -> tuple[typing.Any, ...]"))
      .def("fragments", &fragments_of, nb::sig("def fragments(self) -> tuple[typing.Any, ...]"))
      .def("fragment", &fragment_at, nb::arg("row"), nb::sig("def fragment(self, row: int) -> typing.Any"))
      .def("find", &find_fragment, nb::arg("placement_fragment_id"),
           nb::sig("def find(self, placement_fragment_id: str) -> int | None"))
      .def(
          "equals", [](const PlacementManifest& a, const PlacementManifest& b) { return a == b; }, nb::arg("other"));
}

}  // namespace steelyard::python
