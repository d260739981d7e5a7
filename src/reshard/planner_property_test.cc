// Random layouts on both sides, planned, executed, and compared element by element.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <random>
#include <tuple>

#include "reshard/execute.h"
#include "reshard/plan_inputs.h"
#include "reshard/segments.h"
#include "reshard/test_models.h"
#include "reshard/transfer_plan.h"

namespace steelyard::reshard {
namespace {

using testing::content;
using testing::Numbers;
using testing::TestFragment;
using testing::TestMemory;
using testing::TestModel;
using testing::TestTensor;

/// Boxes that cut a whole tensor once, by recursive cuts at random places.
std::vector<geometry::Box> random_cut(const geometry::Box& box, std::mt19937& random, int depth) {
  std::vector<std::size_t> long_enough;
  for (std::size_t d = 0; d < box.rank(); ++d) {
    if (box.extent[d] > 1) long_enough.push_back(d);
  }
  if (depth == 0 || long_enough.empty() || random() % 4 == 0) return {box};
  const std::size_t d = long_enough[random() % long_enough.size()];
  const auto at = static_cast<std::int64_t>(1 + random() % static_cast<std::uint64_t>(box.extent[d] - 1));
  geometry::Box low = box;
  geometry::Box high = box;
  low.extent[d] = at;
  high.offset[d] += at;
  high.extent[d] -= at;
  std::vector<geometry::Box> out = random_cut(low, random, depth - 1);
  for (geometry::Box& part : random_cut(high, random, depth - 1)) out.push_back(std::move(part));
  return out;
}

/// `replicas` of every tensor, each cut in its own way or all in one.
TestModel random_layout(const std::vector<TestTensor>& tensors, std::mt19937& random, const std::string& prefix,
                        int depth) {
  TestModel model;
  model.tensors = tensors;
  for (const TestTensor& tensor : tensors) {
    const auto replicas = static_cast<std::int64_t>(1 + random() % 3);
    const bool alike = random() % 2 == 0;
    std::vector<geometry::Box> boxes;
    for (std::int64_t replica = 0; replica < replicas; ++replica) {
      if (boxes.empty() || !alike) boxes = random_cut(geometry::whole(tensor.shape), random, depth);
      for (std::size_t i = 0; i < boxes.size(); ++i) {
        model.fragments.push_back(
            {prefix + std::to_string(random()) + tensor.id + "." + std::to_string(replica) + "." + std::to_string(i),
             tensor.id,
             boxes[i].offset,
             boxes[i].extent,
             {replica, static_cast<std::int64_t>(i % 3), 0, 0}});
      }
    }
  }
  return model;
}

std::vector<TestTensor> random_tensors(std::mt19937& random) {
  std::vector<TestTensor> tensors;
  const std::size_t count = 1 + random() % 3;
  for (std::size_t t = 0; t < count; ++t) {
    TestTensor tensor{"t" + std::to_string(t), {}};
    const std::size_t rank = 1 + random() % 4;
    for (std::size_t d = 0; d < rank; ++d) tensor.shape.push_back(static_cast<std::int64_t>(1 + random() % 7));
    tensor.itemsize = std::int64_t{1} << (random() % 4);
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

void fill_source(const TestModel& model, const placement::PlacementManifest& manifest, TestMemory& memory) {
  for (std::size_t f = 0; f < manifest.fragments().size(); ++f) {
    const auto row = manifest.fragment(f);
    const std::size_t t = manifest.fragments().boxes.tensor(f);
    const TestTensor& tensor = model.tensors[t];
    testing::for_each_element(
        tensor.shape, {row.global_offset.begin(), row.global_offset.end()},
        {row.local_shape.begin(), row.local_shape.end()}, [&](std::int64_t local, std::int64_t global) {
          for (std::int64_t b = 0; b < tensor.itemsize; ++b) {
            memory.block(f)[static_cast<std::size_t>(local * tensor.itemsize + b)] = content(t, global, b);
          }
        });
  }
}

void check_target(const TestModel& model, const placement::PlacementManifest& manifest, TestMemory& memory) {
  for (std::size_t f = 0; f < manifest.fragments().size(); ++f) {
    const auto row = manifest.fragment(f);
    const std::size_t t = manifest.fragments().boxes.tensor(f);
    const TestTensor& tensor = model.tensors[t];
    testing::for_each_element(
        tensor.shape, {row.global_offset.begin(), row.global_offset.end()},
        {row.local_shape.begin(), row.local_shape.end()}, [&](std::int64_t local, std::int64_t global) {
          for (std::int64_t b = 0; b < tensor.itemsize; ++b) {
            RC_ASSERT(memory.block(f)[static_cast<std::size_t>(local * tensor.itemsize + b)] == content(t, global, b));
          }
        });
  }
}

/// What regions.h promises about the form.
void check_canonical(const RegionTable& regions) {
  for (std::size_t r = 0; r < regions.size(); ++r) {
    const RegionRow row = regions.row(r);
    std::uint64_t inner_source = row.inner_bytes;
    std::uint64_t inner_target = row.inner_bytes;
    for (std::size_t loop = row.loop_count.size(); loop-- > 0;) {
      RC_ASSERT(row.loop_count[loop] > 1);
      RC_ASSERT(row.source_stride[loop] != inner_source || row.target_stride[loop] != inner_target);
      inner_source = row.loop_count[loop] * row.source_stride[loop];
      inner_target = row.loop_count[loop] * row.target_stride[loop];
    }
    if (r > 0) {
      const RegionRow before = regions.row(r - 1);
      RC_ASSERT(std::pair(before.target, before.target_base) < std::pair(row.target, row.target_base));
    }
  }
}

/// The walk in bulk gives the same copies as the loops written out.
void check_segments(const TransferPlan& plan, std::mt19937& random) {
  std::vector<std::array<std::uint64_t, 4>> wanted;
  for (std::size_t r = 0; r < plan.regions().size(); ++r) {
    const RegionRow row = plan.regions().row(r);
    for (std::uint64_t s = 0; s < row.segments(); ++s) {
      std::uint64_t rest = s;
      std::uint64_t source = row.source_base;
      std::uint64_t target = row.target_base;
      for (std::size_t loop = row.loop_count.size(); loop-- > 0;) {
        source += rest % row.loop_count[loop] * row.source_stride[loop];
        target += rest % row.loop_count[loop] * row.target_stride[loop];
        rest /= row.loop_count[loop];
      }
      wanted.push_back({r, source, target, row.inner_bytes});
    }
  }
  RC_ASSERT(wanted.size() == plan.segments());
  std::vector<std::uint32_t> region(1 + random() % 9);
  std::vector<std::uint64_t> source(region.size());
  std::vector<std::uint64_t> target(region.size());
  std::vector<std::uint64_t> bytes(region.size());
  SegmentCursor cursor(plan.regions(), 0, plan.regions().size());
  std::size_t at = 0;
  while (const std::size_t count = cursor.fill({region, source, target, bytes}, region.size())) {
    for (std::size_t i = 0; i < count; ++i, ++at) {
      RC_ASSERT(at < wanted.size());
      RC_ASSERT(wanted[at] == (std::array<std::uint64_t, 4>{region[i], source[i], target[i], bytes[i]}));
    }
  }
  RC_ASSERT(at == wanted.size());
}

TEST(PlannerProperty, ExecutedPlansEqualElementwiseCopies) {
  RC_ASSERT(rc::check([](std::uint32_t seed) {
    std::mt19937 random(seed);
    const auto tensors = random_tensors(random);
    const TestModel source_model = random_layout(tensors, random, "s", 1 + static_cast<int>(random() % 5));
    const TestModel target_model = random_layout(tensors, random, "d", 1 + static_cast<int>(random() % 3));
    const auto source = source_model.build();
    const auto target = target_model.build();
    RC_PRE(source.ok() && target.ok());
    PlanOptions options;
    options.choice = random() % 2 == 0 ? Choice::kBalance : Choice::kFirst;
    if (random() % 2 == 0) {
      options.locality = {{Side::kSource, {0, 0, 0, 0}, "w0", "e0"},
                          {Side::kSource, {1, 0, 0, 0}, "w1", "e0"},
                          {Side::kTarget, {0, 0, 0, 0}, "w1", "e0"}};
    }
    const auto plan = plan_transfer(*source, *target, options);
    RC_ASSERT(plan.ok());
    check_canonical(plan->regions());
    check_segments(*plan, random);

    TestMemory from(plan->source());
    TestMemory to(plan->target());
    fill_source(source_model, *source, from);
    ExecuteOptions how;
    how.threads = 1 + random() % 2;
    how.verify = true;
    const auto report = execute(*plan, from.ranges(), to.ranges(), how);
    RC_ASSERT(report.ok());
    check_target(target_model, *target, to);

    // Lazily, one fragment and one rank at a time, it is the same plan.
    const auto planner = TransferPlanner::make(*source, *target, options);
    RC_ASSERT(planner.ok());
    RC_ASSERT(planner->key() == plan->key());
    const std::size_t fragment = random() % target->fragments().size();
    const auto part = planner->plan_fragment(fragment);
    RC_ASSERT(part.ok());
    const auto [first, last] = plan->regions_of(fragment);
    RC_ASSERT(part->size() == last - first);
    for (std::size_t r = 0; r < part->size(); ++r) {
      RC_ASSERT(part->row(r).source == plan->regions().row(first + r).source);
      RC_ASSERT(part->row(r).source_base == plan->regions().row(first + r).source_base);
      RC_ASSERT(part->row(r).target_base == plan->regions().row(first + r).target_base);
      RC_ASSERT(part->row(r).inner_bytes == plan->regions().row(first + r).inner_bytes);
    }

    // In another order it is the same plan.
    TestModel shuffled_source = source_model;
    TestModel shuffled_target = target_model;
    std::shuffle(shuffled_source.fragments.begin(), shuffled_source.fragments.end(), random);
    std::shuffle(shuffled_target.fragments.begin(), shuffled_target.fragments.end(), random);
    std::shuffle(shuffled_source.tensors.begin(), shuffled_source.tensors.end(), random);
    std::shuffle(options.locality.begin(), options.locality.end(), random);
    const auto again = plan_transfer(*shuffled_source.build(), *shuffled_target.build(), options);
    RC_ASSERT(again.ok());
    RC_ASSERT(again->regions() == plan->regions());
    RC_ASSERT(again->key() == plan->key());
  }));
}

TEST(PlannerProperty, AHoleInTheSourceIsNamedWithItsFirstBox) {
  RC_ASSERT(rc::check([](std::uint32_t seed) {
    std::mt19937 random(seed);
    const auto tensors = random_tensors(random);
    TestModel source_model = random_layout(tensors, random, "s", 4);
    const TestModel target_model = random_layout(tensors, random, "d", 2);
    source_model.fragments.erase(source_model.fragments.begin() +
                                 static_cast<std::ptrdiff_t>(random() % source_model.fragments.size()));
    const auto source = source_model.build();
    const auto target = target_model.build();
    RC_PRE(source.ok() && target.ok());
    // The first target fragment, by id, with a hole, and its first missing box.
    std::string wanted;
    for (std::size_t f = 0; f < target->fragments().size() && wanted.empty(); ++f) {
      const auto row = target->fragment(f);
      std::vector<geometry::Box> boxes;
      for (const TestFragment& fragment : source_model.fragments) {
        if (fragment.tensor == row.tensor_id) boxes.push_back({fragment.offset, fragment.shape});
      }
      // Where the first missing box begins is a fact; how far it is said to reach depends on what is taken away first.
      std::sort(boxes.begin(), boxes.end(), [](const geometry::Box& a, const geometry::Box& b) {
        return std::tie(a.offset, a.extent) < std::tie(b.offset, b.extent);
      });
      const auto missing = geometry::missing(
          {{row.global_offset.begin(), row.global_offset.end()}, {row.local_shape.begin(), row.local_shape.end()}},
          boxes);
      if (missing.empty()) continue;
      wanted = "target fragment \"" + std::string(row.placement_fragment_id) + "\": no source fragment covers " +
               box_text(missing[0].offset, missing[0].extent);
    }
    const auto plan = plan_transfer(*source, *target);
    RC_ASSERT(plan.ok() == wanted.empty());
    if (!wanted.empty()) RC_ASSERT(plan.status().message().find(wanted) != std::string::npos);
  }));
}

}  // namespace
}  // namespace steelyard::reshard
