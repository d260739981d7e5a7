// The planner's and the executor's figures on the shapes that people run: 94 layers, hidden 4096, 128 experts, bf16.
//
//   reshard_bench [GIB] [THREADS]     memory of the copies (default 2; 0: no copies) and their threads (default 2)
//
// Every line is one measurement: the median of some runs in one process.
#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "placement/placement_manifest.h"
#include "placement/runtime_manifest.h"
#include "reshard/execute.h"
#include "reshard/plan_side.h"
#include "reshard/rebind.h"
#include "reshard/segments.h"
#include "reshard/transfer_plan.h"

namespace steelyard::reshard {
namespace {

using placement::ParallelRank;
using placement::PlacementManifest;
using Numbers = std::vector<std::int64_t>;

constexpr std::int64_t kHidden = 4096;
constexpr std::int64_t kInter = 1536;
constexpr std::int64_t kQueryRows = 8192;
constexpr std::int64_t kKeyRows = 512;
constexpr std::int64_t kVocabulary = 151936;
constexpr std::int64_t kItem = 2;

template <typename T>
T must(Result<T> result) {
  if (!result.ok()) {
    std::fprintf(stderr, "%s\n", result.status().to_string().c_str());
    std::exit(1);
  }
  return std::move(result).value();
}
void must(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.to_string().c_str());
  std::exit(1);
}

double seconds(const std::function<void()>& action) {
  const auto begin = std::chrono::steady_clock::now();
  action();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double median(int runs, const std::function<void()>& action) {
  std::vector<double> times;
  for (int i = 0; i < runs; ++i) times.push_back(seconds(action));
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

class Model {
 public:
  explicit Model(std::string prefix) : prefix_(std::move(prefix)), builder_("bench-model", "rev-1") {}

  void tensor(const std::string& id, const Numbers& shape, int dim) {
    const Numbers cut = dim < 0 ? Numbers{} : Numbers{dim};
    must(builder_.add_tensor({.tensor_id = id,
                              .global_shape = shape,
                              .dtype = "bfloat16",
                              .itemsize = kItem,
                              .partition_dim = std::nullopt,
                              .layout_fingerprint = "bench:bf16:v1",
                              .layer_id = std::nullopt,
                              .expert_id = std::nullopt,
                              .shard_dims = cut}));
  }

  void fragment(const std::string& id, const Numbers& shape, int dim, const ParallelRank& rank, std::int64_t index,
                std::int64_t count) {
    Numbers offset(shape.size(), 0);
    Numbers local = shape;
    if (dim >= 0) {
      const auto d = static_cast<std::size_t>(dim);
      offset[d] = shape[d] * index / count;
      local[d] = shape[d] * (index + 1) / count - offset[d];
    }
    std::uint64_t bytes = kItem;
    for (const std::int64_t size : local) bytes *= static_cast<std::uint64_t>(size);
    const std::string name = prefix_ + ":" + id + ":" + std::to_string(rank.dp) + "." + std::to_string(rank.tp) + "." +
                             std::to_string(rank.ep);
    must(builder_.add_fragment({name, id, offset, local, bytes, rank, {}}));
  }

  PlacementManifest build() { return must(std::move(builder_).build()); }

 private:
  std::string prefix_;
  placement::PlacementBuilder builder_;
};

using TensorVisitor = std::function<void(const std::string&, const Numbers&, int)>;

void dense_shapes(int layers, bool mlp, const TensorVisitor& visit) {
  visit("model.embed_tokens.weight", {kVocabulary, kHidden}, 0);
  visit("lm_head.weight", {kVocabulary, kHidden}, 0);
  visit("model.norm.weight", {kHidden}, -1);
  for (int layer = 0; layer < layers; ++layer) {
    const std::string p = "model.layers." + std::to_string(layer) + ".";
    visit(p + "self_attn.q_proj.weight", {kQueryRows, kHidden}, 0);
    visit(p + "self_attn.k_proj.weight", {kKeyRows, kHidden}, 0);
    visit(p + "self_attn.v_proj.weight", {kKeyRows, kHidden}, 0);
    visit(p + "self_attn.o_proj.weight", {kHidden, kQueryRows}, 1);
    visit(p + "input_layernorm.weight", {kHidden}, -1);
    visit(p + "post_attention_layernorm.weight", {kHidden}, -1);
    if (mlp) {
      visit(p + "mlp.gate_proj.weight", {kInter * 8, kHidden}, 0);
      visit(p + "mlp.up_proj.weight", {kInter * 8, kHidden}, 0);
      visit(p + "mlp.down_proj.weight", {kHidden, kInter * 8}, 1);
    } else {
      visit(p + "mlp.gate.weight", {128, kHidden}, -1);
    }
  }
}

/// Tensor parallel as the models say; with `force_rows` everything is cut along dimension 0.
PlacementManifest dense(const std::string& prefix, int layers, int ranks, bool force_rows = false) {
  Model model(prefix);
  dense_shapes(layers, true, [&](const std::string& id, const Numbers& shape, int dim) {
    const int cut = force_rows ? 0 : dim;
    model.tensor(id, shape, cut);
    for (int rank = 0; rank < ranks; ++rank) model.fragment(id, shape, cut, {0, rank, 0, 0}, rank, ranks);
  });
  return model.build();
}

PlacementManifest experts(const std::string& prefix, int layers, int ranks) {
  Model model(prefix);
  dense_shapes(layers, false, [&](const std::string& id, const Numbers& shape, int dim) {
    model.tensor(id, shape, dim);
    for (int rank = 0; rank < ranks; ++rank) model.fragment(id, shape, dim, {0, rank, 0, rank}, rank, ranks);
  });
  const std::pair<const char*, Numbers> kMatrices[] = {
      {"gate_proj", {kInter, kHidden}}, {"up_proj", {kInter, kHidden}}, {"down_proj", {kHidden, kInter}}};
  for (int layer = 0; layer < layers; ++layer) {
    for (int expert = 0; expert < 128; ++expert) {
      const int owner = expert / (128 / ranks);
      for (const auto& [name, shape] : kMatrices) {
        const std::string id =
            "model.layers." + std::to_string(layer) + ".mlp.experts." + std::to_string(expert) + "." + name + ".weight";
        model.tensor(id, shape, -1);
        model.fragment(id, shape, -1, {0, owner, 0, owner}, 0, 1);
      }
    }
  }
  return model.build();
}

TransferPlan plan_timed(const std::string& name, const PlacementManifest& source, const PlacementManifest& target,
                        double reach_s) {
  TransferPlan plan = must(plan_transfer(source, target));
  const double time = median(5, [&] { must(plan_transfer(source, target)); });
  std::printf("%-44s %8.4f s  (reach %.2f)  %zu + %zu fragments, %zu regions, %llu segments\n", name.c_str(), time,
              reach_s, source.fragments().size(), target.fragments().size(), plan.regions().size(),
              static_cast<unsigned long long>(plan.segments()));
  return plan;
}

void bench_segments(const TransferPlan& plan) {
  constexpr std::size_t kAtOnce = 1 << 16;
  std::vector<std::uint64_t> source(kAtOnce);
  std::vector<std::uint64_t> target(kAtOnce);
  std::vector<std::uint64_t> bytes(kAtOnce);
  std::uint64_t count = 0;
  const double chunks = median(5, [&] {
    SegmentCursor cursor(plan.regions(), 0, plan.regions().size());
    count = 0;
    while (const std::size_t now = cursor.fill({{}, source, target, bytes}, kAtOnce)) count += now;
  });
  std::printf("%-44s %8.4f s  %llu segments\n", "iterate segments, columns of 65536", chunks,
              static_cast<unsigned long long>(count));
  const double whole = median(5, [&] {
    const auto all = static_cast<std::size_t>(plan.segments());
    const auto column = [all] { return std::make_unique_for_overwrite<std::uint64_t[]>(all); };
    const auto a = column();
    const auto b = column();
    const auto c = column();
    SegmentCursor cursor(plan.regions(), 0, plan.regions().size());
    cursor.fill({{}, {a.get(), all}, {b.get(), all}, {c.get(), all}}, all);
  });
  std::printf("%-44s %8.4f s\n", "iterate segments, fresh whole columns", whole);
}

placement::RuntimeBindingManifest binding_of(const PlacementManifest& placement, const std::string& instance) {
  placement::BindingBuilder builder(
      {placement.model_id(), placement.revision(), placement.placement_id(), placement.digest(), instance, 1, "lease"});
  std::uint64_t address = 4096;
  for (std::size_t f = 0; f < placement.fragments().size(); ++f) {
    const std::uint64_t bytes = placement.fragments().boxes.nbytes(f);
    const std::string id = std::to_string(f);
    must(builder.add_fragment({placement.fragments().ids.at(f), id, {address, "w", "e", "cpu"}, bytes, nullptr}));
    address += bytes;
  }
  return must(std::move(builder).build());
}

void bench_rebind(const TransferPlan& plan) {
  const auto source = binding_of(*plan.source().placement(), "trainer");
  const auto target = binding_of(*plan.target().placement(), "server");
  const double time = median(21, [&] { must(rebind(plan, &source, target)); });
  std::printf("%-44s %8.4f ms, %.3f ms per 100,000 regions (reach 1)\n", "rebind", time * 1e3,
              time * 1e3 * 1e5 / static_cast<double>(plan.regions().size()));
}

void bench_growth() {
  double last = 0;
  for (int layers = 47; layers <= 376; layers *= 2) {
    const PlacementManifest source = dense("src", layers, 32, true);
    const PlacementManifest target = dense("dst", layers, 8);
    // Every run begins with an empty heap; otherwise only the small sizes would find their pages there already.
    std::vector<double> times;
    for (int run = 0; run < 9; ++run) {
      malloc_trim(0);
      times.push_back(seconds([&] { must(plan_transfer(source, target)); }));
    }
    std::sort(times.begin(), times.end());
    const double time = times[times.size() / 2];
    std::printf("plan FSDP32 to TP8, %3d layers                %8.4f s", layers, time);
    if (last > 0) std::printf("  x %.2f (reach 2.3)", time / last);
    std::printf("\n");
    last = time;
  }
}

class Memory {
 public:
  explicit Memory(const PlacementManifest& placement) {
    for (std::size_t f = 0; f < placement.fragments().size(); ++f) {
      const std::uint64_t bytes = placement.fragments().boxes.nbytes(f);
      blocks_.emplace_back(static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64)), &std::free);
      std::memset(blocks_.back().get(), static_cast<int>(f + 1), bytes);
      ranges_.push_back({reinterpret_cast<std::uint64_t>(blocks_.back().get()), bytes});
    }
  }
  const std::vector<FragmentMemory>& ranges() const { return ranges_; }

 private:
  std::vector<std::unique_ptr<std::byte, void (*)(void*)>> blocks_;
  std::vector<FragmentMemory> ranges_;
};

/// The same bytes with one memcpy per large block and thread.
double plain_copy(const Memory& source, const Memory& target, std::uint64_t bytes, std::size_t threads) {
  // Blocks of the smaller side's fragments, one after the other.
  struct Block {
    std::uint64_t from, to, bytes;
  };
  std::vector<Block> blocks;
  std::size_t s = 0;
  std::size_t t = 0;
  std::uint64_t s_at = 0;
  std::uint64_t t_at = 0;
  for (std::uint64_t left = bytes; left > 0;) {
    const std::uint64_t now = std::min({left, source.ranges()[s].nbytes - s_at, target.ranges()[t].nbytes - t_at});
    blocks.push_back({source.ranges()[s].address + s_at, target.ranges()[t].address + t_at, now});
    left -= now;
    s_at += now;
    t_at += now;
    if (s_at == source.ranges()[s].nbytes) ++s, s_at = 0;
    if (t_at == target.ranges()[t].nbytes) ++t, t_at = 0;
  }
  return seconds([&] {
    std::vector<std::thread> workers;
    const auto work = [&](std::size_t worker) {
      for (std::size_t i = worker; i < blocks.size(); i += threads) {
        std::memcpy(reinterpret_cast<void*>(blocks[i].to), reinterpret_cast<const void*>(blocks[i].from),
                    blocks[i].bytes);
      }
    };
    for (std::size_t i = 1; i < threads; ++i) workers.emplace_back(work, i);
    work(0);
    for (std::thread& worker : workers) worker.join();
  });
}

void bench_execute(std::uint64_t gib, std::size_t threads, std::int64_t columns, int dim) {
  // Many tensors whose rows are `columns` bf16 long, TP8 to TP4 along `dim`.
  const std::int64_t rows = (64LL << 20) / (columns * kItem);
  const int tensors = static_cast<int>(gib * 16);
  const auto build = [&](const std::string& prefix, int ranks) {
    Model model(prefix);
    for (int i = 0; i < tensors; ++i) {
      const std::string id = "w" + std::to_string(i);
      model.tensor(id, {rows, columns}, dim);
      for (int rank = 0; rank < ranks; ++rank) model.fragment(id, {rows, columns}, dim, {0, rank, 0, 0}, rank, ranks);
    }
    return model.build();
  };
  const PlacementManifest source = build("src", 8);
  const PlacementManifest target = build("dst", 4);
  const TransferPlan plan = must(plan_transfer(source, target));
  const Memory from(source);
  const Memory to(target);
  ExecuteOptions options;
  options.threads = threads;
  std::vector<double> plain;
  std::vector<double> ours;
  for (int run = 0; run < 7; ++run) {
    plain.push_back(plain_copy(from, to, plan.bytes(), threads));
    ours.push_back(seconds([&] { must(execute(plan, from.ranges(), to.ranges(), options)); }));
  }
  std::sort(plain.begin(), plain.end());
  std::sort(ours.begin(), ours.end());
  const double gigabytes = static_cast<double>(plan.bytes()) / 1e9;
  std::printf("execute TP8 to TP4 dim %d, runs of %8llu bytes   %6.2f GB/s, memcpy %6.2f GB/s: x %.2f (reach 0.85)\n",
              dim, static_cast<unsigned long long>(plan.regions().row(0).inner_bytes), gigabytes / ours[3],
              gigabytes / plain[3], plain[3] / ours[3]);
}

void run(std::uint64_t gib, std::size_t threads) {
  {
    const TransferPlan plan =
        plan_timed("plan dense TP8 to TP4, 94 layers", dense("src", 94, 8), dense("dst", 94, 4), 0.02);
    bench_segments(plan);
    bench_rebind(plan);
  }
  plan_timed("plan EP8 to EP16, separate experts, 94 layers", experts("src", 94, 8), experts("dst", 94, 16), 0.25);
  {
    const TransferPlan plan =
        plan_timed("plan FSDP32 dim 0 to TP8, 94 layers", dense("src", 94, 32, true), dense("dst", 94, 8), 0.3);
    bench_segments(plan);
    bench_rebind(plan);
  }
  bench_growth();
  if (gib == 0) return;
  for (const std::int64_t columns : {4096, 8192, 65536}) bench_execute(gib, threads, columns, 1);
  bench_execute(gib, threads, 4096, 0);
}

}  // namespace
}  // namespace steelyard::reshard

int main(int argc, char** argv) {
  const std::uint64_t gib = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 2;
  const std::size_t threads = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 2;
  steelyard::reshard::run(gib, threads);
  return 0;
}
