// Plans: made and read here; regions and segments leave as numpy arrays.
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <sys/mman.h>

#include <cstdlib>
#include <memory>
#include <new>

#include "ext/areas.h"
#include "ext/plans.h"
#include "formats/stored_manifest.h"
#include "reshard/explain.h"
#include "reshard/plan_inputs.h"
#include "reshard/rebind.h"
#include "reshard/segments.h"
#include "reshard/transfer_plan.h"

namespace steelyard::python {
namespace {

using placement::contract_error;
using placement::PlacementManifest;
using placement::RuntimeBindingManifest;
using reshard::BoundPlan;
using reshard::TransferPlan;
using reshard::TransferPlanner;

/// A manifest of the store, as a planner takes it.
struct Stored {
  std::shared_ptr<const formats::StoredManifest> manifest;
};

std::vector<std::int64_t> integer_list(nb::handle value, const Path& path) {
  std::vector<std::int64_t> list;
  integers(value, path, list);
  return list;
}

/// `given` is the facade's PlanOptions as a dict of plain values.
reshard::PlanOptions options_of(const FieldDict& given) {
  reshard::PlanOptions options;
  options.choice = nb::cast<bool>(given["first"]) ? reshard::Choice::kFirst : reshard::Choice::kBalance;
  const Path locality("locality");
  std::size_t index = 0;
  RankReader rank;
  for (nb::handle item : nb::object(given["locality"])) {
    const Path path(&locality, index++);
    reshard::Locality& place = options.locality.emplace_back();
    place.side = nb::cast<bool>(item[0]) ? reshard::Side::kTarget : reshard::Side::kSource;
    place.rank = rank.read(nb::object(item[1]), Path(&path, "rank"));
    place.worker_id = text(nb::object(item[2]), Path(&path, "worker_id"));
    place.endpoint = text(nb::object(item[3]), Path(&path, "endpoint"));
  }
  const Path co_plan("co_plan");
  index = 0;
  for (nb::handle item : nb::object(given["co_plan"])) {
    const Path path(&co_plan, index++);
    reshard::CoPlan& pair = options.co_plan.emplace_back();
    pair.weight_id = text(nb::object(item[0]), Path(&path, "weight_id"));
    pair.scale_id = text(nb::object(item[1]), Path(&path, "scale_id"));
    pair.block_shape = integer_list(nb::object(item[2]), Path(&path, "block_shape"));
  }
  const nb::object layout = given["stored_layout"];
  if (!layout.is_none()) options.stored_layout = text(layout, Path("stored_layout"));
  for (const char* field : {"source_views", "target_views"}) {
    auto& views = field[0] == 's' ? options.source_views : options.target_views;
    const Path list{std::string_view(field)};
    index = 0;
    for (nb::handle item : nb::object(given[field])) views.push_back(view_from_python(item, Path(&list, index++)));
  }
  options.max_regions = unsigned_integer(nb::object(given["max_regions"]), 0, Path("max_regions"));
  options.max_segments = unsigned_integer(nb::object(given["max_segments"]), 0, Path("max_segments"));
  return options;
}

Stored stored_from_json(nb::handle given) {
  std::string_view json;
  if (PyBytes_CheckExact(given.ptr())) {
    json = {PyBytes_AS_STRING(given.ptr()), static_cast<std::size_t>(PyBytes_GET_SIZE(given.ptr()))};
  } else {
    json = text(given, Path("text"));
  }
  return {std::make_shared<const formats::StoredManifest>(unwrap(formats::read_manifest(json)))};
}

TransferPlanner make_planner(nb::handle source, const PlacementManifest& target, const FieldDict& given) {
  reshard::PlanOptions options = options_of(given);
  Stored* const stored = nb::isinstance<Stored>(source) ? nb::cast<Stored*>(source) : nullptr;
  const PlacementManifest* const placed = stored ? nullptr : nb::cast<const PlacementManifest*>(source);
  const nb::gil_scoped_release release;
  auto result = stored ? TransferPlanner::make(stored->manifest, target, std::move(options))
                       : TransferPlanner::make(*placed, target, std::move(options));
  const nb::gil_scoped_acquire acquire;
  return unwrap(std::move(result));
}

TransferPlan make_plan(const TransferPlanner& planner) {
  const nb::gil_scoped_release release;
  auto result = planner.plan();
  const nb::gil_scoped_acquire acquire;
  return unwrap(std::move(result));
}

/// A region in the order of the facade's Region.
nb::object region_to_python(const reshard::PlanInputs& inputs, const reshard::RegionRow& row) {
  auto unsigned_tuple = [](std::span<const std::uint64_t> values) {
    return tuple_of(values.size(), [&](std::size_t i) { return to_python(values[i]); });
  };
  return nb::make_tuple(
      to_python(inputs.tensors[row.tensor].id), to_python(std::string_view(inputs.source->fragment_id(row.source))),
      to_python(std::string_view(inputs.target->fragment_id(row.target))), to_python(row.offset), to_python(row.extent),
      row.source_base, row.target_base, row.inner_bytes, unsigned_tuple(row.loop_count),
      unsigned_tuple(row.source_stride), unsigned_tuple(row.target_stride));
}

/// The region of one target fragment, or of all fragments of a rank: only these are planned.
nb::object part_of_plan(const TransferPlanner& planner, nb::handle target) {
  const reshard::PlanInputs& inputs = planner.inputs();
  Result<reshard::RegionTable> made = [&]() -> Result<reshard::RegionTable> {
    if (!PyUnicode_Check(target.ptr())) {
      RankReader reader;
      const placement::ParallelRank rank = reader.read(target, Path("target"));
      const nb::gil_scoped_release release;
      return planner.plan_rank(rank);
    }
    const auto row = inputs.target->placement()->fragments().find(text(target, Path("target")));
    if (!row)
      return contract_error(Path("target"), "unknown target fragment " + placement::shown(text(target, Path())));
    const nb::gil_scoped_release release;
    return planner.plan_fragment(*row);
  }();
  const reshard::RegionTable regions = unwrap(std::move(made));
  return tuple_of(regions.size(), [&](std::size_t i) { return region_to_python(inputs, regions.row(i)); });
}

nb::object region_at(const TransferPlan& plan, std::size_t region) {
  if (region >= plan.regions().size()) throw nb::index_error("region index out of range");
  return region_to_python(plan.inputs(), plan.regions().row(region));
}

template <typename T>
nb::object view_of(std::span<const T> values, nb::handle owner) {
  static const T kNothing{};
  const T* const data = values.empty() ? &kNothing : values.data();
  return nb::cast(nb::ndarray<nb::numpy, const T, nb::ndim<1>>(data, {values.size()}, owner));
}

/// Views of the plan's columns, which stay alive with them.
nb::dict columns_of(nb::handle self) {
  const reshard::RegionTable& regions = nb::cast<const TransferPlan&>(self).regions();
  nb::dict columns;
  columns["tensor"] = view_of(regions.tensors(), self);
  columns["source_fragment"] = view_of(regions.sources(), self);
  columns["target_fragment"] = view_of(regions.targets(), self);
  columns["source_base"] = view_of(regions.source_bases(), self);
  columns["target_base"] = view_of(regions.target_bases(), self);
  columns["inner_bytes"] = view_of(regions.inner_bytes(), self);
  columns["box_ends"] = view_of(regions.box_ends(), self);
  columns["box_offsets"] = view_of(regions.box_offsets(), self);
  columns["box_shapes"] = view_of(regions.box_extents(), self);
  columns["loop_ends"] = view_of(regions.loop_ends(), self);
  columns["loop_counts"] = view_of(regions.loop_counts(), self);
  columns["source_strides"] = view_of(regions.source_strides(), self);
  columns["target_strides"] = view_of(regions.target_strides(), self);
  return columns;
}

/// Fresh memory that numpy owns. What is large lies on huge pages where the system gives them on request: touching it
/// first costs a few faults, not thousands.
template <typename T>
class Fresh {
 public:
  explicit Fresh(std::size_t count) : count_(count) {
    if (count > (SIZE_MAX - kHugePage) / sizeof(T)) throw std::bad_alloc();
    const std::size_t alignment = count * sizeof(T) >= 2 * kHugePage ? kHugePage : kCacheLine;
    const std::size_t bytes = (count * sizeof(T) / alignment + 1) * alignment;
    data_.reset(static_cast<T*>(std::aligned_alloc(alignment, bytes)));
    if (data_ == nullptr) throw std::bad_alloc();
    if (alignment == kHugePage) madvise(data_.get(), bytes, MADV_HUGEPAGE);
  }
  std::span<T> span() { return {data_.get(), count_}; }
  nb::object take() {
    T* const data = data_.release();
    const nb::capsule owner(data, [](void* memory) noexcept { std::free(memory); });
    return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(data, {count_}, owner));
  }

 private:
  static constexpr std::size_t kHugePage = 2 << 20;
  static constexpr std::size_t kCacheLine = 64;

  std::unique_ptr<T, decltype([](T* memory) { std::free(memory); })> data_;
  std::size_t count_;
};

/// Every single run of bytes of the regions [begin, end), as four columns.
nb::tuple segments_of(const TransferPlan& plan, nb::handle start, nb::handle stop, nb::handle threads) {
  const std::uint64_t begin = unsigned_integer(start, 0, Path("start"));
  const std::uint64_t end = unsigned_integer(stop, 0, Path("stop"));
  if (begin > end || end > plan.regions().size()) throw nb::index_error("region index out of range");
  const std::uint64_t at_once = unsigned_integer(threads, 1, Path("threads"));
  const std::uint64_t count = reshard::count_segments(plan.regions(), begin, end);
  Fresh<std::uint32_t> region(count);
  Fresh<std::uint64_t> source(count);
  Fresh<std::uint64_t> target(count);
  Fresh<std::uint64_t> bytes(count);
  {
    const nb::gil_scoped_release release;
    reshard::fill_segments(plan.regions(), begin, end, {region.span(), source.span(), target.span(), bytes.span()},
                           at_once);
  }
  return nb::make_tuple(region.take(), source.take(), target.take(), bytes.take());
}

nb::object fragment_ids(const reshard::PlanSide& side) {
  return tuple_of(side.fragments(), [&](std::size_t i) { return to_python(std::string_view(side.fragment_id(i))); });
}

nb::object fragment_bytes(const reshard::PlanSide& side) {
  return tuple_of(side.fragments(), [&](std::size_t i) { return to_python(side.fragment_bytes(i)); });
}

nb::dict explain(const TransferPlan& plan, nb::handle full_pull_segments) {
  const reshard::PlanExplanation found =
      reshard::explain(plan, unsigned_integer(full_pull_segments, 0, Path("full_pull_segments")));
  nb::dict out;
  out["bytes"] = found.bytes;
  out["regions"] = found.regions;
  out["segments"] = found.segments;
  auto ranks = [](const std::vector<reshard::RankBytes>& list) {
    nb::dict bytes;
    for (const reshard::RankBytes& one : list) bytes[to_python(one.rank)] = one.bytes;
    return bytes;
  };
  out["source_ranks"] = ranks(found.source_ranks);
  out["target_ranks"] = ranks(found.target_ranks);
  out["largest_strided"] = found.largest_strided ? to_python(std::uint64_t{found.largest_strided->region}) : nb::none();
  nb::list classes;
  for (const reshard::RegionClass& one : found.classes) {
    classes.append(nb::make_tuple(to_python(reshard::way_name(one.way)), one.inner_bytes, one.segments_each,
                                  one.regions, one.bytes, one.extra_bytes, to_python(plan.tensor_id(one.tensor))));
  }
  out["classes"] = classes;
  out["text"] = reshard::explain_text(plan, found);
  return out;
}

std::string render(const TransferPlan& plan, nb::handle tensor_id) {
  return unwrap(reshard::render_svg(plan, text(tensor_id, Path("tensor_id"))));
}

BoundPlan rebind(const TransferPlan& plan, const RuntimeBindingManifest* source, const RuntimeBindingManifest& target,
                 const PlacementManifest* source_placement, const PlacementManifest* target_placement) {
  return unwrap(reshard::rebind(plan, source, target, source_placement, target_placement));
}

nb::tuple report_of(const reshard::ExecuteReport& report) {
  return nb::make_tuple(report.bytes, report.regions, report.segments, report.source_fragments, report.target_fragments,
                        report.verified_fragments);
}

reshard::ExecuteOptions execute_options(nb::handle threads, bool verify, bool dry_run) {
  reshard::ExecuteOptions options;
  options.threads = unsigned_integer(threads, 1, Path("threads"));
  options.verify = verify;
  options.dry_run = dry_run;
  return options;
}

using Places = nb::ndarray<const std::uint64_t, nb::shape<-1, 2>, nb::c_contig, nb::device::cpu>;

std::vector<reshard::FragmentMemory> memory_of(const Places& places) {
  std::vector<reshard::FragmentMemory> memory;
  for (std::size_t i = 0; i < places.shape(0); ++i) {
    memory.push_back({places.data()[2 * i], places.data()[2 * i + 1]});
  }
  return memory;
}

/// `source` and `target`: (address, nbytes) of each fragment of a side, in the plan's order.
nb::tuple execute(const TransferPlan& plan, const Places& source, const Places& target, nb::handle threads, bool verify,
                  bool dry_run) {
  const reshard::ExecuteOptions options = execute_options(threads, verify, dry_run);
  const std::vector<reshard::FragmentMemory> from = memory_of(source);
  const std::vector<reshard::FragmentMemory> to = memory_of(target);
  const nb::gil_scoped_release release;
  auto result = reshard::execute(plan, from, to, options);
  const nb::gil_scoped_acquire acquire;
  return report_of(unwrap(std::move(result)));
}

/// A fence is (lease_id, generation).
nb::tuple execute_bound(const BoundPlan& bound, nb::handle source_fence, nb::handle target_fence, nb::handle threads,
                        bool verify, bool dry_run) {
  const reshard::ExecuteOptions options = execute_options(threads, verify, dry_run);
  auto fence = [](nb::handle given, const char* name, nb::object& keep) -> std::optional<reshard::ExpectedFence> {
    if (given.is_none()) return std::nullopt;
    const Path path{std::string_view(name)};
    keep = given[0];
    return reshard::ExpectedFence{text(keep, Path(&path, "lease_id")),
                                  unsigned_integer(nb::object(given[1]), 0, Path(&path, "generation"))};
  };
  nb::object keep[2];
  const auto source = fence(source_fence, "source_fence", keep[0]);
  const auto target = fence(target_fence, "target_fence", keep[1]);
  const nb::gil_scoped_release release;
  auto result = reshard::execute(bound, source, target, options);
  const nb::gil_scoped_acquire acquire;
  return report_of(unwrap(std::move(result)));
}

}  // namespace

void add_plan(nb::module_& module) {
  nb::class_<Stored>(module, "Stored", "A stored manifest as a source of plans.")
      .def_static("from_json", &stored_from_json, nb::arg("text").none())
      .def_prop_ro("tensor_count", [](const Stored& stored) { return stored.manifest->tensors.size(); });
  nb::class_<TransferPlanner>(module, "Planner", "Two layouts that agree.")
      .def_static("make", &make_planner, nb::arg("source"), nb::arg("target"), nb::arg("options"))
      .def("plan", &make_plan)
      .def("part", &part_of_plan, nb::arg("target").none(),
           nb::sig("def part(self, target: object) -> tuple[typing.Any, ...]"))
      .def_prop_ro("key", &TransferPlanner::key);
  nb::class_<TransferPlan>(module, "Plan", "The columns of a plan.")
      .def_prop_ro("key", &TransferPlan::key)
      .def_prop_ro("bytes", &TransferPlan::bytes)
      .def_prop_ro("segment_count", &TransferPlan::segments)
      .def_prop_ro("region_count", [](const TransferPlan& plan) { return plan.regions().size(); })
      .def("region", &region_at, nb::arg("region"), nb::sig("def region(self, region: int) -> tuple[typing.Any, ...]"))
      .def("regions_of", &TransferPlan::regions_of, nb::arg("target_fragment"))
      .def_prop_ro(
          "tensor_ids",
          [](const TransferPlan& plan) {
            return tuple_of(plan.tensors(),
                            [&](std::size_t i) { return to_python(plan.tensor_id(static_cast<std::uint32_t>(i))); });
          },
          nb::sig("def tensor_ids(self, /) -> tuple[str, ...]"))
      .def(
          "fragment_ids",
          [](const TransferPlan& plan, bool target) { return fragment_ids(target ? plan.target() : plan.source()); },
          nb::arg("target"), nb::sig("def fragment_ids(self, target: bool) -> tuple[str, ...]"))
      .def(
          "fragment_bytes",
          [](const TransferPlan& plan, bool target) { return fragment_bytes(target ? plan.target() : plan.source()); },
          nb::arg("target"), nb::sig("def fragment_bytes(self, target: bool) -> tuple[int, ...]"))
      .def_prop_ro("stored", [](const TransferPlan& plan) { return plan.source().stored(); })
      .def(
          "columns", [](nb::handle self) { return columns_of(self); },
          nb::sig("def columns(self) -> dict[str, typing.Any]"))
      .def("segments", &segments_of, nb::arg("start").none(), nb::arg("stop").none(), nb::arg("threads").none(),
           nb::sig("def segments(self, start: object, stop: object, threads: object) -> tuple[typing.Any, typing.Any, "
                   "typing.Any, typing.Any]"))
      .def("explain", &explain, nb::arg("full_pull_segments").none(),
           nb::sig("def explain(self, full_pull_segments: object) -> dict[str, typing.Any]"))
      .def("render", &render, nb::arg("tensor_id").none())
      .def("rebind", &rebind, nb::arg("source").none(), nb::arg("target"), nb::arg("source_placement").none(),
           nb::arg("target_placement").none())
      .def("execute", &execute, nb::arg("source"), nb::arg("target"), nb::arg("threads").none(), nb::arg("verify"),
           nb::arg("dry_run"),
           nb::sig("def execute(self, source: typing.Any, target: typing.Any, threads: object, verify: bool, dry_run: "
                   "bool) -> tuple[int, int, int, int, int, int]"));
  nb::class_<BoundPlan>(module, "Bound", "A plan with memory on both sides.")
      .def("execute", &execute_bound, nb::arg("source_fence").none(), nb::arg("target_fence").none(),
           nb::arg("threads").none(), nb::arg("verify"), nb::arg("dry_run"),
           nb::sig("def execute(self, source_fence: object | None, target_fence: object | None, threads: object, "
                   "verify: bool, dry_run: bool) -> tuple[int, int, int, int, int, int]"));
  module.attr("full_pull_segments") = reshard::kFullPullSegments;
}

}  // namespace steelyard::python
