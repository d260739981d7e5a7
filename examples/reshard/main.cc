// Two layouts of one small model: four trainer ranks that cut matrices by rows, two server ranks that cut them by
// columns. The plan is made once; then every step binds its addresses to it, copies, and compares every element.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "steelyard/layout.h"
#include "steelyard/placement.h"
#include "steelyard/reshard.h"

namespace {

using Numbers = std::vector<std::int64_t>;

constexpr std::int64_t kItemBytes = 4;

/// The value, or the reason on stderr and the end of the program.
template <typename T>
T must(steelyard::Result<T> result) {
  if (result.ok()) return std::move(result).value();
  std::fprintf(stderr, "error: %s\n", result.status().to_string().c_str());
  std::exit(1);
}

struct Parameter {
  std::string name;
  Numbers shape;
};

const std::vector<Parameter>& parameters() {
  static const std::vector<Parameter> all = {
      {"layers.0.up", {24, 16}}, {"layers.0.down", {16, 24}}, {"layers.0.experts", {4, 8, 6}}, {"norm", {10}}};
  return all;
}

/// What an adapter does: for each tensor, which box of it each rank holds. `dim` counts from the back.
steelyard::PlacementManifest placement(const std::string& prefix, const std::string& step, std::int64_t ranks,
                                       std::int64_t dim) {
  std::vector<steelyard::TensorDescriptor> tensors;
  std::vector<steelyard::PlacementFragment> fragments;
  for (const Parameter& parameter : parameters()) {
    const auto dimensions = static_cast<std::int64_t>(parameter.shape.size());
    const bool cut = dimensions > 1;
    steelyard::TensorDescriptor tensor;
    tensor.tensor_id = parameter.name;
    tensor.global_shape = parameter.shape;
    tensor.dtype = "float32";
    tensor.itemsize = kItemBytes;
    tensor.layout_fingerprint = "row-major";
    if (cut) tensor.partition_dim = dimensions + dim;
    tensors.push_back(tensor);
    const std::vector<steelyard::MeshPlacement> mesh = {
        {cut ? steelyard::MeshPlacement::Kind::kShard : steelyard::MeshPlacement::Kind::kReplicate, dim}};
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      const auto boxes = must(steelyard::boxes_from_mesh(parameter.shape, Numbers{ranks}, mesh, Numbers{rank}));
      for (const steelyard::TensorBox& box : boxes) {
        steelyard::PlacementFragment fragment;
        fragment.placement_fragment_id = prefix + parameter.name + "/tp" + std::to_string(rank);
        fragment.tensor_id = parameter.name;
        fragment.global_offset = box.offset;
        fragment.local_shape = box.shape;
        fragment.nbytes = kItemBytes;
        for (const std::int64_t extent : box.shape) fragment.nbytes *= static_cast<std::uint64_t>(extent);
        fragment.rank.tp = rank;
        fragments.push_back(fragment);
      }
    }
  }
  return must(steelyard::PlacementManifest::make("tiny", step, tensors, fragments));
}

/// The memory of one side: a block per fragment, and the binding that says where each lies.
struct Memory {
  std::vector<std::vector<std::uint32_t>> blocks;

  explicit Memory(const steelyard::PlacementManifest& placement) {
    for (std::size_t i = 0; i < placement.fragment_count(); ++i) {
      blocks.emplace_back(placement.fragment(i).nbytes / kItemBytes);
    }
  }

  steelyard::RuntimeBindingManifest binding(const steelyard::PlacementManifest& placement) const {
    std::vector<steelyard::BindingFragment> fragments;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      steelyard::BindingFragment fragment;
      fragment.placement_fragment_id = placement.fragment(i).placement_fragment_id;
      fragment.fragment_id = "memory of " + fragment.placement_fragment_id;
      fragment.address = reinterpret_cast<std::uintptr_t>(blocks[i].data());
      fragment.nbytes = blocks[i].size() * kItemBytes;
      fragment.worker_id = "this process";
      fragment.endpoint = "here";
      fragment.device = "cpu";
      fragments.push_back(fragment);
    }
    return must(
        steelyard::RuntimeBindingManifest::make({placement.model_id(), placement.revision(), placement.placement_id(),
                                                 placement.digest(), "example", 1, "lease"},
                                                fragments));
  }
};

/// Calls visit(element of the fragment's memory, element of the whole tensor) for every element of a fragment.
template <typename Visit>
void for_each_element(const steelyard::PlacementFragment& fragment, const Numbers& shape, const Visit& visit) {
  Numbers at(shape.size(), 0);
  std::size_t local = 0;
  for (bool more = true; more; ++local) {
    std::int64_t global = 0;
    for (std::size_t d = 0; d < shape.size(); ++d) global = global * shape[d] + fragment.global_offset[d] + at[d];
    visit(local, static_cast<std::uint32_t>(global));
    more = false;
    for (std::size_t d = shape.size(); d-- > 0 && !more;) {
      more = ++at[d] < fragment.local_shape[d];
      if (!more) at[d] = 0;
    }
  }
}

/// The value of an element: which tensor, which element, which step.
std::uint32_t value(std::size_t parameter, std::uint32_t element, std::uint32_t step) {
  return step * 1000003U + static_cast<std::uint32_t>(parameter) * 65537U + element;
}

std::size_t parameter_of(const std::string& tensor_id) {
  std::size_t index = 0;
  while (parameters()[index].name != tensor_id) ++index;
  return index;
}

/// Calls visit(a value in memory, what it should be) for every element of one side.
template <typename Visit>
void for_each_value(const steelyard::PlacementManifest& placement, Memory& memory, std::uint32_t step,
                    const Visit& visit) {
  for (std::size_t i = 0; i < placement.fragment_count(); ++i) {
    const steelyard::PlacementFragment fragment = placement.fragment(i);
    const std::size_t parameter = parameter_of(fragment.tensor_id);
    for_each_element(fragment, parameters()[parameter].shape, [&](std::size_t local, std::uint32_t global) {
      visit(memory.blocks[i][local], value(parameter, global, step));
    });
  }
}

}  // namespace

int main() {
  const auto trainer = placement("trainer/", "step-1", 4, -2);
  const auto server = placement("server/", "step-1", 2, -1);
  const auto plan = must(steelyard::TransferPlan::make(trainer, server));
  std::printf("%s", plan.explain().c_str());

  Memory from(trainer);
  Memory to(server);
  std::size_t checked = 0;
  std::size_t wrong = 0;
  for (std::uint32_t step = 1; step <= 3; ++step) {
    // Another step is another revision of the same layout: its placements go along, and nothing is planned again.
    const std::string revision = "step-" + std::to_string(step);
    const auto source = placement("trainer/", revision, 4, -2);
    const auto target = placement("server/", revision, 2, -1);
    for_each_value(source, from, step, [](std::uint32_t& at, std::uint32_t wanted) { at = wanted; });
    const auto bound =
        must(steelyard::BoundPlan::make(plan, from.binding(source), to.binding(target), &source, &target));
    steelyard::ExecuteOptions options;
    options.threads = 2;
    options.verify = true;
    const steelyard::Fence fence{"lease", 1};
    const auto report = must(bound.execute(fence, fence, options));
    for_each_value(target, to, step, [&](const std::uint32_t& found, std::uint32_t wanted) {
      ++checked;
      if (found != wanted) ++wrong;
    });
    std::printf("%s: %llu bytes in %llu regions\n", revision.c_str(), static_cast<unsigned long long>(report.bytes),
                static_cast<unsigned long long>(report.regions));
  }

  // A lease that was lost refuses before the first byte moves.
  const auto bound = must(steelyard::BoundPlan::make(plan, from.binding(trainer), to.binding(server)));
  const auto late = bound.execute(std::nullopt, steelyard::Fence{"lease", 2});
  std::printf("with another generation: %s\n", late.status().message().c_str());

  std::printf("%zu elements compared, %zu differ\n", checked, wrong);
  return wrong == 0 && !late.ok() ? 0 : 1;
}
