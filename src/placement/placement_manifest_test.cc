// Rules over several rows, the builder's two ways in, and that the order in which things are said does not count.
#include "placement/placement_manifest.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "placement/test_samples.h"

namespace steelyard::placement {
namespace {

using samples::build_placement;
using samples::expect_refused;
using samples::Fragment;
using samples::Tensor;

constexpr std::int64_t kMax = INT64_MAX;

Fragment other_half() {
  Fragment half;
  half.id = "p1";
  half.offset = {2, 0};
  half.rank.tp = 1;
  return half;
}

Tensor any_cut() {
  Tensor tensor;
  tensor.partition_dim.reset();
  tensor.shard_dims = {0, 1};
  return tensor;
}

Fragment box(std::string id, std::vector<std::int64_t> offset, std::vector<std::int64_t> shape) {
  Fragment fragment;
  fragment.id = std::move(id);
  fragment.nbytes = 2;
  for (const std::int64_t extent : shape) fragment.nbytes *= static_cast<std::uint64_t>(extent);
  fragment.offset = std::move(offset);
  fragment.shape = std::move(shape);
  return fragment;
}

TEST(PlacementManifest, GivesBackWhatWasSaid) {
  Tensor tensor;
  tensor.layer_id = 5;
  Fragment fragment;
  fragment.rank = {1, 2, 3, 4};
  fragment.aliases = {"z", "a"};
  const auto manifest = build_placement({tensor}, {other_half(), fragment});
  ASSERT_TRUE(manifest.ok()) << manifest.status().to_string();
  ASSERT_EQ(manifest->fragments().size(), 2U);
  const PlacementFragmentRow row = manifest->fragment(0);
  EXPECT_EQ(row.placement_fragment_id, "p0");
  EXPECT_EQ(row.tensor_id, "w");
  EXPECT_THAT(row.global_offset, ::testing::ElementsAre(0, 0));
  EXPECT_THAT(row.local_shape, ::testing::ElementsAre(2, 4));
  EXPECT_EQ(row.nbytes, 16U);
  EXPECT_EQ(row.rank, (ParallelRank{1, 2, 3, 4}));
  EXPECT_THAT(row.aliases, ::testing::ElementsAre("a", "z"));
  EXPECT_EQ(manifest->tensors().layer_id(0), 5);
  EXPECT_EQ(manifest->fragments().find("p1"), 1U);
  EXPECT_EQ(manifest->fragments().find("p2"), std::nullopt);
  EXPECT_EQ(manifest->tensors().find("w"), 0U);
  // By rank: p1 has dp 0, p0 has dp 1.
  EXPECT_THAT(manifest->fragments_of(0), ::testing::ElementsAre(1U, 0U));
}

TEST(PlacementManifest, NamesOfTheManifestAreNotEmpty) {
  expect_refused(PlacementBuilder("", "r").build(), "model_id", "model_id must be a non-empty string");
  expect_refused(PlacementBuilder("m", "").build(), "revision", "revision must be a non-empty string");
  expect_refused(PlacementBuilder("m", "r", "").build(), "placement_id", "placement_id must be a non-empty string");
}

TEST(PlacementManifest, RepeatedIdsAreRefused) {
  expect_refused(build_placement({Tensor{}, Tensor{}}, {}), "tensors[1].tensor_id", "duplicate tensor_id");
  Fragment same = other_half();
  same.id = "p0";
  Fragment last;
  last.id = "a";
  last.rank.dp = 3;
  expect_refused(build_placement({Tensor{}}, {Fragment{}, last, same}), "fragments[2].placement_fragment_id",
                 "duplicate placement_fragment_id \"p0\", also fragments[0]");
}

TEST(PlacementManifest, AnUnknownTensorIsRefused) {
  Fragment stray = other_half();
  stray.tensor = "v";
  expect_refused(build_placement({Tensor{}}, {Fragment{}, stray}), "fragments[1].tensor_id", "unknown tensor");
}

TEST(PlacementManifest, ATensorMayComeAfterItsFragments) {
  PlacementBuilder builder("m", "r");
  ASSERT_TRUE(builder.add_fragment(Fragment{}.row()).ok());
  ASSERT_TRUE(builder.add_tensor(Tensor{}.row()).ok());
  EXPECT_TRUE(std::move(builder).build().ok());
}

TEST(PlacementManifest, OtherNumbersOfDimensionsAreRefused) {
  Fragment flat;
  flat.offset = {0};
  expect_refused(build_placement({Tensor{}}, {flat}), "fragments[0].global_offset", "fragment rank mismatch");
  flat = {};
  flat.shape = {2, 4, 1};
  expect_refused(build_placement({Tensor{}}, {flat}), "fragments[0].local_shape", "fragment rank mismatch");
}

TEST(PlacementManifest, BoxesOutsideOfTheirTensorAreRefused) {
  expect_refused(build_placement({Tensor{}}, {box("p", {3, 0}, {2, 4})}), "fragments[0].local_shape[0]",
                 "out of bounds");
  expect_refused(build_placement({Tensor{}}, {box("p", {5, 0}, {1, 4})}), "fragments[0].local_shape[0]",
                 "out of bounds");
  expect_refused(build_placement({Tensor{}}, {box("p", {0, 0}, {4, 5})}), "fragments[0].local_shape[1]",
                 "out of bounds");
}

TEST(PlacementManifest, AReplicatedTensorIsNotCut) {
  Tensor whole;
  whole.partition_dim.reset();
  EXPECT_TRUE(build_placement({whole}, {box("p", {0, 0}, {4, 4})}).ok());
  expect_refused(build_placement({whole}, {box("p", {2, 0}, {2, 4})}), "fragments[0].global_offset",
                 "replicated fragment has an offset");
  expect_refused(build_placement({whole}, {box("p", {0, 0}, {2, 4})}), "fragments[0].local_shape",
                 "replicated fragment is incomplete");
}

TEST(PlacementManifest, OnlyShardDimensionsAreCut) {
  expect_refused(build_placement({Tensor{}}, {box("p", {0, 2}, {4, 2})}), "fragments[0]",
                 "fragment offset/shape uses a non-shard axis");
  expect_refused(build_placement({Tensor{}}, {box("p", {0, 0}, {4, 2})}), "fragments[0]",
                 "fragment offset/shape uses a non-shard axis");
  EXPECT_TRUE(build_placement({any_cut()}, {box("p", {1, 2}, {3, 2})}).ok());
}

TEST(PlacementManifest, OtherSizesInBytesAreRefused) {
  for (const std::uint64_t nbytes : {std::uint64_t{15}, std::uint64_t{17}, UINT64_MAX}) {
    Fragment fragment;
    fragment.nbytes = nbytes;
    expect_refused(build_placement({Tensor{}}, {fragment}), "fragments[0].nbytes", "byte size mismatch");
  }
}

TEST(PlacementManifest, TheLargestTensorIsPlaced) {
  Tensor tensor;
  tensor.shape = {kMax};
  tensor.itemsize = 1;
  Fragment fragment;
  fragment.offset = {kMax - 1};
  fragment.shape = {1};
  fragment.nbytes = 1;
  Fragment rest;
  rest.id = "rest";
  rest.offset = {0};
  rest.shape = {kMax - 1};
  rest.nbytes = static_cast<std::uint64_t>(kMax - 1);
  EXPECT_TRUE(build_placement({tensor}, {fragment, rest}).ok());
  rest.shape = {kMax};
  rest.nbytes = static_cast<std::uint64_t>(kMax);
  expect_refused(build_placement({tensor}, {fragment, rest}), "fragments[1]", "logical fragment boxes overlap");
}

TEST(PlacementManifest, TheSameBoxTwiceForOneRankIsRefused) {
  Fragment again;
  again.id = "a";  // sorts before the first
  expect_refused(build_placement({Tensor{}}, {Fragment{}, again}), "fragments[1]",
                 "duplicate logical fragment for tensor and parallel rank");
}

TEST(PlacementManifest, OverlapWithinARankIsRefused) {
  Fragment inner = box("a", {1, 0}, {2, 4});
  expect_refused(build_placement({Tensor{}}, {Fragment{}, inner}), "fragments[1]", "logical fragment boxes overlap");
}

// Replicas and partial inventories are normal: what covers what is the planner's business.
TEST(PlacementManifest, OverlapAndGapsAcrossRanksAreAllowed) {
  Fragment replica;
  replica.id = "replica";
  replica.rank.dp = 1;
  Fragment crossing = box("crossing", {1, 0}, {2, 4});
  crossing.rank.dp = 2;
  EXPECT_TRUE(build_placement({Tensor{}}, {Fragment{}, replica, crossing}).ok());
  EXPECT_TRUE(build_placement({Tensor{}}, {other_half()}).ok());
  EXPECT_TRUE(build_placement({Tensor{}}, {}).ok());
}

TEST(PlacementManifest, ColumnsSayTheSameAsRows) {
  const std::string text = "vw";
  const std::vector<std::uint64_t> ends = {1, 2};
  const std::vector<std::int64_t> shapes = {4, 4, 8};
  const std::vector<std::uint64_t> shape_ends = {2, 3};
  const std::string shared_text = "bf16f";
  const std::vector<std::uint64_t> shared_ends = {4, 5};
  const std::vector<std::uint32_t> first = {0, 0};
  const std::vector<std::uint32_t> second = {1, 1};
  const std::vector<std::int64_t> itemsizes = {2, 2};
  const std::vector<std::int64_t> dims = {0, -1};
  const TensorArrays tensors = {.tensor_id = {text, ends, {}},
                                .global_shape = {shapes, shape_ends, 0, 0},
                                .dtype = {shared_text, shared_ends, first},
                                .itemsize = itemsizes,
                                .partition_dim = dims,
                                .layout_fingerprint = {shared_text, shared_ends, second},
                                .layer_id = {},
                                .expert_id = {},
                                .shard_dims = {}};
  const std::string ids = "cba";
  const std::vector<std::uint64_t> id_ends = {1, 2, 3};
  const std::vector<std::uint32_t> tensor = {0, 1, 0};
  const std::vector<std::int64_t> offsets = {0, 0, 0, 2, 0};
  const std::vector<std::int64_t> local = {2, 4, 8, 2, 4};
  const std::vector<std::uint64_t> list_ends = {2, 3, 5};
  const std::vector<std::uint64_t> nbytes = {16, 16, 16};
  const std::vector<std::int64_t> ranks = {0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0};
  const std::string names = "xy";
  const std::vector<std::uint64_t> name_ends = {1, 2};
  const std::vector<std::uint64_t> alias_ends = {0, 2, 2};
  const PlacementFragmentArrays fragments = {.placement_fragment_id = {ids, id_ends, {}},
                                             .boxes = {tensor,
                                                       {offsets, list_ends, 0, 0},
                                                       {local, list_ends, 0, 0},
                                                       nbytes,
                                                       ranks,
                                                       {{names, name_ends, {}}, alias_ends}}};
  PlacementBuilder builder("m", "r");
  ASSERT_TRUE(builder.add_tensors(tensors).ok());
  const Status added = builder.add_fragments(fragments);
  ASSERT_TRUE(added.ok()) << added.to_string();
  const auto from_columns = std::move(builder).build();
  ASSERT_TRUE(from_columns.ok()) << from_columns.status().to_string();

  Tensor v;
  v.id = "v";
  Tensor w;
  w.shape = {8};
  w.partition_dim.reset();
  Fragment a = box("a", {2, 0}, {2, 4});
  a.tensor = "v";
  a.rank.tp = 1;
  Fragment b = box("b", {0}, {8});
  b.rank.pp = 1;
  b.aliases = {"y", "x"};
  Fragment c = box("c", {0, 0}, {2, 4});
  c.tensor = "v";
  EXPECT_EQ(*from_columns, *build_placement({v, w}, {a, b, c}));

  const auto refused = [&](const auto& change, std::string_view path, std::string_view words) {
    PlacementFragmentArrays bad = fragments;
    change(bad);
    PlacementBuilder other("m", "r");
    ASSERT_TRUE(other.add_tensors(tensors).ok());
    expect_refused(other.add_fragments(bad), path, words);
  };
  const std::vector<std::uint32_t> unknown = {0, 2, 0};
  refused([&](auto& bad) { bad.boxes.tensor = unknown; }, "tensor[1]", "unknown tensor number 2");
  refused([&](auto& bad) { bad.boxes.nbytes = std::span(nbytes).first(2); }, "nbytes", "column has 2 rows, wanted 3");
  refused([&](auto& bad) { bad.boxes.rank = std::span(ranks).first(8); }, "rank", "wanted 4 for each of 3 rows");
  const std::vector<std::uint64_t> falling = {2, 1, 3};
  refused([&](auto& bad) { bad.boxes.local_shape.ends = falling; }, "local_shape", "must ascend");
  const std::vector<std::uint64_t> beyond = {1, 2, 4};
  refused([&](auto& bad) { bad.placement_fragment_id.ends = beyond; }, "placement_fragment_id", "ends at 4");
  const std::vector<std::uint32_t> codes = {0, 3, 1};
  refused([&](auto& bad) { bad.placement_fragment_id.codes = codes; }, "placement_fragment_id", "code 3");
  refused([&](auto& bad) { bad.boxes.global_offset = {offsets, {}, 2, 3}; }, "global_offset", "wanted 3 rows of 2");
  refused([&](auto& bad) { bad.boxes.aliases.ends = beyond; }, "aliases", "ends at 4");
  const std::vector<std::uint64_t> zero_bytes = {16, 16, 0};
  refused([&](auto& bad) { bad.boxes.nbytes = zero_bytes; }, "fragments[2].nbytes", "nbytes must be at least 1");
}

// A grid in one tensor and rank, of 100,000 boxes in no order.
TEST(PlacementManifest, AHundredThousandBoxesOfOneRank) {
  Tensor tensor = any_cut();
  tensor.shape = {317 * 3, 317 * 3};
  std::vector<Fragment> fragments;
  for (std::int64_t i = 0; i < 317 * 317; ++i) {
    fragments.push_back(box(std::to_string(i), {i / 317 * 3, i % 317 * 3}, {3, 3}));
  }
  std::mt19937 random(3);
  std::ranges::shuffle(fragments, random);
  EXPECT_TRUE(build_placement({tensor}, fragments).ok());
  fragments[500].shape = {3, 4};
  fragments[500].nbytes = 24;
  if (fragments[500].offset[1] == 316 * 3) fragments[500].offset[1] -= 1;
  expect_refused(build_placement({tensor}, fragments), "", "logical fragment boxes overlap");
}

// Random boxes in up to four dimensions: refused exactly when two of one rank meet.
RC_GTEST_PROP(PlacementManifestProperty, OverlapAgreesWithBruteForce, ()) {
  const auto rank = *rc::gen::inRange<std::size_t>(1, 5);
  Tensor tensor;
  tensor.shape.assign(rank, 6);
  tensor.partition_dim.reset();
  tensor.shard_dims.emplace(rank);
  std::iota(tensor.shard_dims->begin(), tensor.shard_dims->end(), 0);
  const auto count = *rc::gen::inRange<std::size_t>(0, 12);
  std::vector<Fragment> fragments;
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<std::int64_t> offset(rank);
    std::vector<std::int64_t> shape(rank);
    for (std::size_t d = 0; d < rank; ++d) {
      offset[d] = *rc::gen::inRange<std::int64_t>(0, 6);
      shape[d] = *rc::gen::inRange<std::int64_t>(1, 7 - offset[d]);
    }
    fragments.push_back(box(std::to_string(i), offset, shape));
    fragments.back().rank.tp = *rc::gen::inRange(0, 3);
  }
  bool overlap = false;
  bool repeat = false;
  for (std::size_t a = 0; a < count; ++a) {
    for (std::size_t b = a + 1; b < count; ++b) {
      if (fragments[a].rank != fragments[b].rank) continue;
      bool meet = true;
      for (std::size_t d = 0; d < rank; ++d) {
        meet = meet && fragments[a].offset[d] < fragments[b].offset[d] + fragments[b].shape[d] &&
               fragments[b].offset[d] < fragments[a].offset[d] + fragments[a].shape[d];
      }
      const bool same = fragments[a].offset == fragments[b].offset && fragments[a].shape == fragments[b].shape;
      repeat = repeat || same;
      overlap = overlap || (meet && !same);
    }
  }
  const auto manifest = build_placement({tensor}, fragments);
  RC_ASSERT(manifest.ok() == !(overlap || repeat));
  if (manifest.ok()) return;
  const bool says_overlap = manifest.status().message().find("logical fragment boxes overlap") != std::string::npos;
  const bool says_repeat =
      manifest.status().message().find("duplicate logical fragment for tensor and parallel rank") != std::string::npos;
  RC_ASSERT((says_overlap && overlap) || (says_repeat && repeat));
}

RC_GTEST_PROP(PlacementManifestProperty, PermutedInputIsTheSameManifest, ()) {
  const auto count = *rc::gen::inRange<std::size_t>(1, 40);
  std::vector<Tensor> tensors;
  std::vector<Fragment> fragments;
  for (std::size_t i = 0; i < count; ++i) {
    Tensor tensor;
    tensor.id = *rc::gen::container<std::string>(rc::gen::elementOf(std::string("ab.0\x7F"))) + std::to_string(i);
    tensors.push_back(tensor);
    for (std::int64_t half = 0; half < 2; ++half) {
      Fragment fragment = box(tensor.id + "#" + std::to_string(half), {half * 2, 0}, {2, 4});
      fragment.tensor = tensor.id;
      fragment.rank = {*rc::gen::inRange(0, 3), half, 0, *rc::gen::inRange(0, 2)};
      fragment.aliases = {"y" + tensor.id, "x" + tensor.id};
      fragments.push_back(fragment);
    }
  }
  const auto reference = build_placement(tensors, fragments);
  RC_ASSERT(reference.ok());
  std::mt19937 random(*rc::gen::arbitrary<std::uint32_t>());
  std::ranges::shuffle(tensors, random);
  std::ranges::shuffle(fragments, random);
  for (Fragment& fragment : fragments) std::ranges::shuffle(fragment.aliases, random);
  const auto permuted = build_placement(tensors, fragments);
  RC_ASSERT(permuted.ok());
  RC_ASSERT(permuted->placement_id() == reference->placement_id());
  RC_ASSERT(permuted->to_json() == reference->to_json());
  RC_ASSERT(permuted->layout_digest() == reference->layout_digest());
  for (std::size_t i = 0; i < count; ++i) {
    RC_ASSERT(std::ranges::equal(permuted->fragments_of(i), reference->fragments_of(i)));
  }
  RC_ASSERT(std::ranges::equal(permuted->fragments().boxes.ranks(), reference->fragments().boxes.ranks()));
}

}  // namespace
}  // namespace steelyard::placement
