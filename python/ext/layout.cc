// The layout helpers and the table of dtype spellings.
#include <nanobind/stl/string.h>

#include <array>

#include "ext/areas.h"
#include "ext/plans.h"
#include "reshard/dtypes.h"
#include "reshard/mesh.h"

namespace steelyard::python {
namespace {

using placement::contract_error;

/// ((offset, shape), ...)
nb::object boxes_to_python(std::span<const geometry::Box> boxes) {
  return tuple_of(boxes.size(), [&](std::size_t i) -> nb::object {
    return nb::make_tuple(to_python(std::span<const std::int64_t>(boxes[i].offset)),
                          to_python(std::span<const std::int64_t>(boxes[i].extent)));
  });
}

std::vector<std::int64_t> integer_list(nb::handle value, const Path& path) {
  std::vector<std::int64_t> list;
  integers(value, path, list);
  return list;
}

/// `placements` are (kind, dim, split_factor).
nb::object boxes_from_mesh(nb::handle global_shape, nb::handle mesh_shape, nb::handle placements,
                           nb::handle coordinate) {
  const std::vector<std::int64_t> shape = integer_list(global_shape, Path("global_shape"));
  const std::vector<std::int64_t> mesh = integer_list(mesh_shape, Path("mesh_shape"));
  const std::vector<std::int64_t> position = integer_list(coordinate, Path("coordinate"));
  std::vector<reshard::MeshPlacement> parts;
  const Path list("placements");
  std::size_t index = 0;
  for (nb::handle item : placements) {
    const Path path(&list, index++);
    reshard::MeshPlacement& part = parts.emplace_back();
    part.kind = static_cast<reshard::MeshPlacement::Kind>(nb::cast<int>(item[0]));
    part.dim = integer(nb::object(item[1]), Path(&path, "dim"));
    part.split_factor = integer(nb::object(item[2]), Path(&path, "split_factor"));
  }
  return boxes_to_python(unwrap(reshard::boxes_from_mesh(shape, mesh, parts, position)));
}

nb::object boxes_from_flat_range(nb::handle global_shape, nb::handle start, nb::handle stop) {
  const std::vector<std::int64_t> shape = integer_list(global_shape, Path("global_shape"));
  return boxes_to_python(
      unwrap(reshard::boxes_from_flat_range(shape, integer(start, Path("start")), integer(stop, Path("stop")))));
}

nb::object split_sizes(nb::handle extent, nb::handle parts, nb::handle align) {
  const std::vector<std::int64_t> sizes = unwrap(reshard::split_sizes(
      integer(extent, Path("extent")), integer(parts, Path("parts")), integer(align, Path("align"))));
  return to_python(std::span<const std::int64_t>(sizes));
}

/// `parts` are (tensor_id, extent, drop_dim); the views come as tuples in the order of the facade's TensorView. `base`
/// is (tensor_id, global_shape), or such a tuple.
nb::object fused_views(nb::handle base, nb::handle parts, nb::handle dim, nb::handle groups) {
  std::vector<reshard::FusedPart> given;
  const Path list("parts");
  std::size_t index = 0;
  for (nb::handle item : parts) {
    const Path path(&list, index++);
    reshard::FusedPart& part = given.emplace_back();
    part.tensor_id = text(nb::object(item[0]), Path(&path, "tensor_id"));
    part.extent = integer(nb::object(item[1]), Path(&path, "extent"));
    part.drop_dim = nb::cast<bool>(item[2]);
  }
  const std::int64_t along = integer(dim, Path("dim"));
  const std::int64_t times = integer(groups, Path("groups"));
  const std::vector<reshard::TensorView> views = unwrap([&] {
    if (nb::len(base) != 2) {
      return reshard::fused_views(view_from_python(base, Path("descriptor")), given, along, times);
    }
    const std::vector<std::int64_t> shape = integer_list(nb::object(base[1]), Path("global_shape"));
    return reshard::fused_views(text(nb::object(base[0]), Path("tensor_id")), shape, given, along, times);
  }());
  return tuple_of(views.size(), [&](std::size_t i) { return view_to_python(views[i]); });
}

}  // namespace

nb::object view_to_python(const reshard::TensorView& view) {
  const nb::object pieces = tuple_of(view.pieces.size(), [&](std::size_t i) -> nb::object {
    const reshard::ViewPiece& piece = view.pieces[i];
    return nb::make_tuple(to_python(std::span<const std::int64_t>(piece.box.offset)),
                          to_python(std::span<const std::int64_t>(piece.box.extent)),
                          to_python(std::span<const std::int64_t>(piece.view_offset)));
  });
  const std::vector<std::int64_t> axes(view.axes.begin(), view.axes.end());
  return nb::make_tuple(to_python(std::string_view(view.tensor_id)), to_python(std::string_view(view.base_tensor_id)),
                        to_python(std::span<const std::int64_t>(view.global_shape)),
                        to_python(std::span<const std::int64_t>(axes)), pieces,
                        to_python(std::string_view(view.layout_fingerprint)));
}

reshard::TensorView view_from_python(nb::handle value, const Path& path) {
  reshard::TensorView view;
  view.tensor_id = text(nb::object(value[0]), Path(&path, "tensor_id"));
  view.base_tensor_id = text(nb::object(value[1]), Path(&path, "base_tensor_id"));
  view.global_shape = integer_list(nb::object(value[2]), Path(&path, "global_shape"));
  const Path axes_path(&path, "axes");
  for (const std::int64_t axis : integer_list(nb::object(value[3]), axes_path)) {
    if (axis < 0 || axis > 64) raise(contract_error(axes_path, "axes contain an out-of-range dimension"));
    view.axes.push_back(static_cast<std::uint32_t>(axis));
  }
  const Path pieces_path(&path, "pieces");
  std::size_t index = 0;
  for (nb::handle item : nb::object(value[4])) {
    const Path piece_path(&pieces_path, index++);
    reshard::ViewPiece& piece = view.pieces.emplace_back();
    piece.box = unwrap(geometry::make_box(integer_list(nb::object(item[0]), Path(&piece_path, "offset")),
                                          integer_list(nb::object(item[1]), Path(&piece_path, "shape"))));
    piece.view_offset = integer_list(nb::object(item[2]), Path(&piece_path, "view_offset"));
  }
  const nb::object fingerprint = value[5];
  if (PyUnicode_CheckExact(fingerprint.ptr()) == 0 || PyUnicode_GET_LENGTH(fingerprint.ptr()) != 0) {
    view.layout_fingerprint = text(fingerprint, Path(&path, "layout_fingerprint"));
  }
  return view;
}

void add_layout(nb::module_& module) {
  module.def("boxes_from_mesh", &boxes_from_mesh, nb::arg("global_shape").none(), nb::arg("mesh_shape").none(),
             nb::arg("placements"), nb::arg("coordinate").none(),
             nb::sig("def boxes_from_mesh(global_shape: object, mesh_shape: object, placements: list[typing.Any], "
                     "coordinate: object) -> typing.Any"));
  module.def("boxes_from_flat_range", &boxes_from_flat_range, nb::arg("global_shape").none(), nb::arg("start").none(),
             nb::arg("stop").none(),
             nb::sig("def boxes_from_flat_range(global_shape: object, start: object, stop: object) -> typing.Any"));
  module.def("split_sizes", &split_sizes, nb::arg("extent").none(), nb::arg("parts").none(), nb::arg("align").none(),
             nb::sig("def split_sizes(extent: object, parts: object, align: object) -> tuple[int, ...]"));
  module.def("fused_views", &fused_views, nb::arg("base"), nb::arg("parts"), nb::arg("dim").none(),
             nb::arg("groups").none(),
             nb::sig("def fused_views(base: tuple[typing.Any, ...], parts: list[typing.Any], dim: object, groups: "
                     "object) -> typing.Any"));
  module.def(
      "dtype_spellings",
      [] {
        nb::list rows;
        for (const reshard::DtypeSpelling& row : reshard::dtype_spellings()) {
          rows.append(nb::make_tuple(to_python(row.spelling), to_python(row.name), row.bits));
        }
        return rows;
      },
      nb::sig("def dtype_spellings() -> list[tuple[str, str, int]]"));
}

}  // namespace steelyard::python
