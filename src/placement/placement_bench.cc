// The figures of a placement: 94 layers x 128 experts, TP8 = EP8, DP2 (82,768 fragments) from columns, its JSON both
// ways, and the memory of a million fragments. One line a figure; medians of five runs.
#include <fmt/format.h>
#include <malloc.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include "base/check.h"
#include "placement/bind.h"
#include "placement/placement_manifest.h"
#include "placement/project.h"
#include "placement/runtime_manifest.h"

namespace steelyard::placement {
namespace {

/// Texts as an array hands them over.
struct Texts {
  std::string text;
  std::vector<std::uint64_t> ends;
  void add(std::string_view value) {
    text += value;
    ends.push_back(text.size());
  }
  TextArray array() const { return {text, ends, {}}; }
};

struct Lists {
  std::vector<std::int64_t> values;
  std::vector<std::uint64_t> ends;
  void add(std::span<const std::int64_t> list) {
    values.insert(values.end(), list.begin(), list.end());
    ends.push_back(values.size());
  }
  ListArray array() const { return {values, ends, 0, 0}; }
};

/// A model in columns.
struct Model {
  Texts ids, dtypes, layouts;
  Lists shapes;
  std::vector<std::int64_t> itemsizes, dims, layers, experts;
  Texts fragment_ids;
  std::vector<std::uint32_t> tensors;
  Lists offsets, local_shapes;
  std::vector<std::uint64_t> nbytes;
  std::vector<std::int64_t> ranks;

  void tensor(std::string_view id, std::span<const std::int64_t> shape, std::int64_t dim, std::int64_t layer,
              std::int64_t expert) {
    ids.add(id);
    dtypes.add("bfloat16");
    layouts.add("bench:bf16:v1");
    shapes.add(shape);
    itemsizes.push_back(2);
    dims.push_back(dim);
    layers.push_back(layer);
    experts.push_back(expert);
  }
  /// A fragment of the last tensor: part `part` of `parts` along its dimension, or all of it.
  void fragment(std::string_view id, std::vector<std::int64_t> shape, std::int64_t dim, std::int64_t part,
                std::int64_t parts, const ParallelRank& rank) {
    std::vector<std::int64_t> offset(shape.size());
    if (dim >= 0) {
      const auto d = static_cast<std::size_t>(dim);
      offset[d] = shape[d] * part / parts;
      shape[d] = shape[d] * (part + 1) / parts - offset[d];
    }
    fragment_ids.add(fmt::format("{}@dp{}.tp{}.ep{}", id, rank.dp, rank.tp, rank.ep));
    tensors.push_back(static_cast<std::uint32_t>(itemsizes.size() - 1));
    offsets.add(offset);
    local_shapes.add(shape);
    std::uint64_t bytes = 2;
    for (const std::int64_t extent : shape) bytes *= static_cast<std::uint64_t>(extent);
    nbytes.push_back(bytes);
    for (const std::int64_t number : {rank.dp, rank.tp, rank.pp, rank.ep}) ranks.push_back(number);
  }

  TensorArrays tensor_arrays() const {
    return {ids.array(), shapes.array(), dtypes.array(), itemsizes, dims, layouts.array(), layers, experts, {}};
  }
  PlacementFragmentArrays fragment_arrays() const {
    return {fragment_ids.array(), {tensors, offsets.array(), local_shapes.array(), nbytes, ranks, {}}};
  }
};

Model mixture_of_experts(std::int64_t layers, std::int64_t experts, std::int64_t ep, std::int64_t dp) {
  Model model;
  const auto dense = [&](const std::string& id, const std::vector<std::int64_t>& shape, std::int64_t dim,
                         std::int64_t layer) {
    model.tensor(id, shape, dim, layer, -1);
    for (std::int64_t d = 0; d < dp; ++d) {
      for (std::int64_t i = 0; i < ep; ++i) model.fragment(id, shape, dim, i, ep, {d, i, 0, i});
    }
  };
  dense("model.embed_tokens.weight", {151936, 4096}, 0, -1);
  dense("lm_head.weight", {151936, 4096}, 0, -1);
  dense("model.norm.weight", {4096}, -1, -1);
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    const std::string prefix = fmt::format("model.layers.{}.", layer);
    dense(prefix + "self_attn.q_proj.weight", {8192, 4096}, 0, layer);
    dense(prefix + "self_attn.k_proj.weight", {512, 4096}, 0, layer);
    dense(prefix + "self_attn.v_proj.weight", {512, 4096}, 0, layer);
    dense(prefix + "self_attn.o_proj.weight", {4096, 8192}, 1, layer);
    dense(prefix + "input_layernorm.weight", {4096}, -1, layer);
    dense(prefix + "post_attention_layernorm.weight", {4096}, -1, layer);
    dense(prefix + "mlp.gate.weight", {128, 4096}, -1, layer);
  }
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    for (std::int64_t expert = 0; expert < experts; ++expert) {
      const std::int64_t owner = expert / (experts / ep);
      for (const auto& [name, rows, columns] : {std::tuple("gate_proj", 1536, 4096), std::tuple("up_proj", 1536, 4096),
                                                std::tuple("down_proj", 4096, 1536)}) {
        const std::string id = fmt::format("model.layers.{}.mlp.experts.{}.{}.weight", layer, expert, name);
        const std::vector<std::int64_t> shape = {rows, columns};
        model.tensor(id, shape, -1, layer, expert);
        for (std::int64_t d = 0; d < dp; ++d) model.fragment(id, shape, -1, 0, 1, {d, owner, 0, owner});
      }
    }
  }
  return model;
}

PlacementManifest build(const Model& model) {
  PlacementBuilder builder("bench-model", "rev-1");
  SY_CHECK(builder.add_tensors(model.tensor_arrays()).ok(), "tensors");
  SY_CHECK(builder.add_fragments(model.fragment_arrays()).ok(), "fragments");
  return std::move(builder).build().value();
}

/// Wall clock and CPU time: they differ on a machine that others use too.
std::string timed(const std::function<void()>& action) {
  std::vector<double> walls;
  std::vector<double> cpus;
  for (int i = 0; i < 5; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    const std::clock_t cpu = std::clock();
    action();
    cpus.push_back(1e3 * static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC);
    walls.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
  }
  std::ranges::sort(walls);
  std::ranges::sort(cpus);
  return fmt::format("{:8.1f} ms (cpu {:.1f})", walls[2], cpus[2]);
}

double heap_mib() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<double>(info.uordblks + info.hblkhd) / (1 << 20);
}

double peak_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

void whole_placement() {
  const Model model = mixture_of_experts(94, 128, 8, 2);
  fmt::print("columns                         tensors={} fragments={}\n", model.itemsizes.size(), model.tensors.size());
  fmt::print("build, validate, identify       {}\n", timed([&] { build(model); }));
  const PlacementManifest manifest = build(model);
  std::string text = manifest.to_json();
  const double text_mib = static_cast<double>(text.size()) / (1 << 20);
  fmt::print("to_json                         {}  {:.1f} MiB\n", timed([&] { text = manifest.to_json(); }), text_mib);
  fmt::print("from_json, everything checked   {}\n",
             timed([&] { SY_CHECK(*PlacementManifest::from_json(text) == manifest, "the same"); }));
  const double before = heap_mib();
  const PlacementManifest loaded = PlacementManifest::from_json(text).value();
  fmt::print("one manifest holds              {:8.1f} MiB\n", heap_mib() - before);

  RuntimeBuilder runtime({.model_id = "bench-model",
                          .revision = "rev-1",
                          .instance_id = "i",
                          .lease_id = "lease",
                          .placement_id = {},
                          .generation = 1});
  SY_CHECK(runtime.add_tensors(model.tensor_arrays()).ok(), "tensors");
  std::vector<std::uint64_t> addresses;
  std::vector<std::uint64_t> generations(model.tensors.size(), 1);
  std::uint64_t address = 4096;
  for (const std::uint64_t bytes : model.nbytes) {
    addresses.push_back(address);
    address += bytes;
  }
  Texts worker;
  worker.add("w");
  const std::vector<std::uint32_t> codes(model.tensors.size());
  const TextArray same{worker.text, worker.ends, codes};
  const BoxArrays boxes = model.fragment_arrays().boxes;
  SY_CHECK(
      runtime.add_fragments({model.fragment_ids.array(), boxes, {addresses, same, same, same}, generations, {}, {}})
          .ok(),
      "fragments");
  const RuntimeManifest live = std::move(runtime).build().value();
  fmt::print("placement_of a runtime manifest {} (ids derived)\n", timed([&] { placement_of(live).value(); }));
  const PlacementManifest placed = placement_of(live).value();
  const RuntimeBindingManifest binding = binding_of(live).value();
  fmt::print("bind                            {}\n", timed([&] { bind(placed, binding).value(); }));
}

void grid() {
  Model model;
  const std::vector<std::int64_t> shape = {317 * 8, 317 * 8};
  model.tensor("grid", shape, -1, -1, -1);
  std::vector<std::int64_t> both = {0, 1};
  std::vector<std::uint64_t> ends = {2};
  for (std::int64_t row = 0; row < 317; ++row) {
    for (std::int64_t column = 0; column < 317; ++column) {
      model.fragment(fmt::format("{}.{}", row, column), {8, 8}, -1, 0, 1, {});
      model.offsets.values[model.offsets.values.size() - 2] = row * 8;
      model.offsets.values[model.offsets.values.size() - 1] = column * 8;
    }
  }
  TensorArrays tensors = model.tensor_arrays();
  tensors.shard_dims = ListArray{both, ends, 0, 0};
  fmt::print("grid of {} in one tensor    {}\n", model.tensors.size(), timed([&] {
               PlacementBuilder builder("bench-model", "rev-1");
               SY_CHECK(builder.add_tensors(tensors).ok(), "tensors");
               SY_CHECK(builder.add_fragments(model.fragment_arrays()).ok(), "fragments");
               std::move(builder).build().value();
             }));
}

void million() {
  std::string text;
  {
    // 1,045,000 fragments.
    const Model model = mixture_of_experts(400, 256, 16, 3);
    const double before = heap_mib();
    const auto begin = std::chrono::steady_clock::now();
    const PlacementManifest manifest = build(model);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    fmt::print("{} fragments: build {:.2f} s, holds {:.0f} MiB, peak of the process with its columns {:.0f} MiB\n",
               manifest.fragments().size(), took.count(), heap_mib() - before, peak_mib());
    text = manifest.to_json();
  }
  const auto begin = std::chrono::steady_clock::now();
  const PlacementManifest loaded = PlacementManifest::from_json(text).value();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  fmt::print("its JSON of {:.0f} MiB: load {:.2f} s, peak of the process {:.0f} MiB\n",
             static_cast<double>(text.size()) / (1 << 20), took.count(), peak_mib());
}

}  // namespace
}  // namespace steelyard::placement

int main() {
  steelyard::placement::whole_placement();
  steelyard::placement::grid();
  steelyard::placement::million();
  return 0;
}
