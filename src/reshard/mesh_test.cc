#include "reshard/mesh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reshard/dtypes.h"
#include "reshard/views.h"

namespace steelyard::reshard {
namespace {

using geometry::Box;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Numbers = std::vector<std::int64_t>;

std::vector<Box> boxes(const Numbers& shape, const Numbers& mesh, const std::vector<MeshPlacement>& placements,
                       const Numbers& coordinate) {
  const auto result = boxes_from_mesh(shape, mesh, placements, coordinate);
  EXPECT_TRUE(result.ok()) << result.status().to_string();
  return result.ok() ? *result : std::vector<Box>{};
}

TEST(Mesh, ReplicasHoldEverything) {
  EXPECT_THAT(boxes({3, 4}, {2}, {replicate()}, {1}), ElementsAre(Box{{0, 0}, {3, 4}}));
  EXPECT_THAT(boxes({}, {2}, {replicate()}, {1}), ElementsAre(Box{}));
}

TEST(Mesh, UnevenCutsAreThoseOfTorchChunk) {
  // torch.chunk(5, 4): 2, 2, 1 and nothing.
  EXPECT_THAT(boxes({5}, {4}, {shard(0)}, {0}), ElementsAre(Box{{0}, {2}}));
  EXPECT_THAT(boxes({5}, {4}, {shard(0)}, {2}), ElementsAre(Box{{4}, {1}}));
  EXPECT_TRUE(boxes({5}, {4}, {shard(0)}, {3}).empty());
  EXPECT_TRUE(boxes({1, 4}, {3}, {shard(0)}, {1}).empty());
}

TEST(Mesh, LaterPlacementsCutWhatIsLeft) {
  // 10 rows over 4 are 3, 3, 3, 1; the 3 of rank 1 over 2 are 2 and 1.
  EXPECT_THAT(boxes({10, 2}, {4, 2}, {shard(0), shard(0)}, {1, 0}), ElementsAre(Box{{3, 0}, {2, 2}}));
  EXPECT_THAT(boxes({10, 2}, {4, 2}, {shard(0), shard(0)}, {1, 1}), ElementsAre(Box{{5, 0}, {1, 2}}));
  EXPECT_TRUE(boxes({10, 2}, {4, 2}, {shard(0), shard(0)}, {3, 1}).empty());
  EXPECT_THAT(boxes({8, 6}, {2, 3}, {shard(0), shard(-1)}, {1, 2}), ElementsAre(Box{{4, 4}, {4, 2}}));
}

TEST(Mesh, AStridedShardHoldsAPieceOfEverySlab) {
  // Slabs [0, 4) and [4, 8), each cut into 2.
  EXPECT_THAT(boxes({8}, {2}, {strided_shard(0, 2)}, {1}), ElementsAre(Box{{2}, {2}}, Box{{6}, {2}}));
  // With the tensor-parallel cut after it a rank's piece is in one.
  EXPECT_THAT(boxes({8}, {2, 2}, {strided_shard(0, 2), shard(0)}, {1, 0}), ElementsAre(Box{{2}, {2}}));
  EXPECT_THAT(boxes({8}, {2, 2}, {strided_shard(0, 2), shard(0)}, {1, 1}), ElementsAre(Box{{6}, {2}}));
  // Pieces that touch are one box.
  EXPECT_THAT(boxes({8}, {1}, {strided_shard(0, 4)}, {0}), ElementsAre(Box{{0}, {8}}));
}

TEST(Mesh, EveryElementIsOnceOnAFullyShardedMesh) {
  for (std::int64_t extent = 0; extent < 20; ++extent) {
    for (const auto& placements : {std::vector<MeshPlacement>{shard(0), shard(0)},
                                   {strided_shard(0, 2), shard(0)},
                                   {strided_shard(0, 3), shard(0)},
                                   {shard(0), strided_shard(0, 5)}}) {
      std::vector<int> seen(static_cast<std::size_t>(extent));
      for (std::int64_t a = 0; a < 3; ++a) {
        for (std::int64_t b = 0; b < 2; ++b) {
          for (const Box& box : boxes({extent}, {3, 2}, placements, {a, b})) {
            for (std::int64_t i = 0; i < box.extent[0]; ++i) ++seen[static_cast<std::size_t>(box.offset[0] + i)];
          }
        }
      }
      EXPECT_THAT(seen, ::testing::Each(1)) << extent;
    }
  }
}

TEST(Mesh, WhatDoesNotFitIsRefusedByName) {
  const auto message = [](const auto& result) { return result.status().message(); };
  const Numbers shape{4, 4};
  const Numbers mesh{2};
  const Numbers at{0};
  const std::vector<MeshPlacement> rows{shard(0)};
  EXPECT_THAT(message(boxes_from_mesh(shape, mesh, {}, at)), HasSubstr("placements: the mesh has 1 dimensions"));
  EXPECT_THAT(message(boxes_from_mesh(shape, mesh, rows, {})), HasSubstr("coordinate: the mesh has 1"));
  EXPECT_THAT(message(boxes_from_mesh(shape, mesh, rows, Numbers{2})), HasSubstr("coordinate[0]: 2 is outside"));
  EXPECT_THAT(message(boxes_from_mesh(shape, Numbers{0}, rows, at)), HasSubstr("must be at least 1"));
  EXPECT_THAT(message(boxes_from_mesh(shape, mesh, std::vector{shard(2)}, at)), HasSubstr("out of range"));
  EXPECT_THAT(message(boxes_from_mesh(shape, mesh, std::vector{strided_shard(0, 0)}, at)),
              HasSubstr("placements[0].split_factor must be at least 1"));
  EXPECT_THAT(message(boxes_from_mesh(Numbers{INT64_MAX, 2}, mesh, rows, at)), HasSubstr("global_shape: "));
  EXPECT_THAT(message(boxes_from_flat_range(shape, 3, 17)), HasSubstr("stop: the range [3, 17)"));
  EXPECT_THAT(message(boxes_from_flat_range(shape, -1, 1)), HasSubstr("start must be at least 0"));
  EXPECT_THAT(message(split_sizes(4, 0)), HasSubstr("parts must be at least 1"));
}

TEST(Mesh, AFlatRangeIsBoxesInOrder) {
  const auto range = boxes_from_flat_range(Numbers{4, 5}, 3, 16);
  ASSERT_TRUE(range.ok());
  EXPECT_THAT(*range, ElementsAre(Box{{0, 3}, {1, 2}}, Box{{1, 0}, {2, 5}}, Box{{3, 0}, {1, 1}}));
}

/// The fewest boxes, each one run of the flat range, that make up [start, stop): by trying every such box at every
/// place. `boxes_from[start]` are the ends of the boxes that begin there.
std::size_t fewest_runs(const std::vector<std::vector<std::int64_t>>& boxes_from, std::int64_t start,
                        std::int64_t stop) {
  std::vector<std::size_t> fewest(static_cast<std::size_t>(stop) + 1, SIZE_MAX);
  fewest[static_cast<std::size_t>(start)] = 0;
  for (std::int64_t at = start; at < stop; ++at) {
    const std::size_t so_far = fewest[static_cast<std::size_t>(at)];
    if (so_far == SIZE_MAX) continue;
    for (const std::int64_t end : boxes_from[static_cast<std::size_t>(at)]) {
      if (end > stop) continue;
      std::size_t& there = fewest[static_cast<std::size_t>(end)];
      there = std::min(there, so_far + 1);
    }
  }
  return fewest[static_cast<std::size_t>(stop)];
}

// A box that is no run of the range has elements of other tensors, or of other ranks, between its own: it could not be
// a fragment, which is contiguous memory. So the fewest of those that are runs is what an adapter can use.
TEST(Mesh, AFlatRangeIsTheFewestBoxesThatAreRuns) {
  for (const Numbers& shape : {Numbers{7}, Numbers{1, 5}, Numbers{3, 4}, Numbers{2, 2, 2}, Numbers{3, 1, 4},
                               Numbers{2, 3, 4}, Numbers{4, 3, 1}, Numbers{2, 3, 2, 2}, Numbers{3, 2, 1, 3}}) {
    const std::int64_t volume = geometry::checked_volume(shape).value();
    std::vector<std::vector<std::int64_t>> boxes_from(static_cast<std::size_t>(volume));
    for (std::int64_t first = 0; first < volume; ++first) {
      const Numbers offset = geometry::element_position(shape, first);
      for (std::int64_t code = 0; code < volume; ++code) {  // every extent, as a position in a tensor of this shape
        Numbers extent = geometry::element_position(shape, code);
        bool inside = true;
        for (std::size_t d = 0; d < shape.size(); ++d) inside = inside && offset[d] + ++extent[d] <= shape[d];
        if (!inside) continue;
        Numbers last = offset;
        for (std::size_t d = 0; d < shape.size(); ++d) last[d] += extent[d] - 1;
        const std::int64_t end = geometry::element_number(shape, last) + 1;
        if (end - first == geometry::volume({offset, extent})) {
          boxes_from[static_cast<std::size_t>(first)].push_back(end);
        }
      }
    }
    for (std::int64_t start = 0; start <= volume; ++start) {
      for (std::int64_t stop = start; stop <= volume; ++stop) {
        const auto range = boxes_from_flat_range(shape, start, stop);
        ASSERT_TRUE(range.ok());
        ASSERT_EQ(range->size(), fewest_runs(boxes_from, start, stop)) << start << ' ' << stop;
        ASSERT_LE(range->size(), shape.size() * 2 - 1);
        std::int64_t at = start;
        for (const Box& box : *range) {
          ASSERT_EQ(geometry::element_number(shape, box.offset), at);
          at += geometry::volume(box);
        }
        ASSERT_EQ(at, stop);
      }
    }
  }
}

TEST(Mesh, SplitSizes) {
  EXPECT_THAT(*split_sizes(10, 4), ElementsAre(3, 3, 3, 1));
  EXPECT_THAT(*split_sizes(5, 4), ElementsAre(2, 2, 1, 0));
  EXPECT_THAT(*split_sizes(0, 2), ElementsAre(0, 0));
  EXPECT_THAT(*split_sizes(100, 3, 16), ElementsAre(48, 48, 4));
  EXPECT_THAT(*split_sizes(INT64_MAX, 1, 2), ElementsAre(INT64_MAX));
}

TEST(FusedViews, StackedExpertsLoseTheirDimension) {
  const std::vector<FusedPart> parts{{"e0", 1, true}, {"e1", 1, true}};
  const auto views = fused_views("experts", Numbers{2, 3, 4}, parts);
  ASSERT_TRUE(views.ok());
  EXPECT_THAT((*views)[1].global_shape, ElementsAre(3, 4));
  EXPECT_THAT((*views)[1].axes, ElementsAre(1, 2));
  EXPECT_THAT((*views)[1].pieces, ElementsAre(ViewPiece{{{1, 0, 0}, {1, 3, 4}}, {0, 0}}));
  EXPECT_TRUE(check_view((*views)[1], Numbers{2, 3, 4}).ok());
}

TEST(FusedViews, GroupedHeadsAreInterleaved) {
  const std::vector<FusedPart> parts{{"q", 4}, {"k", 1}, {"v", 1}};
  const auto views = fused_views("qkv", Numbers{12, 2}, parts, 0, 2);
  ASSERT_TRUE(views.ok());
  EXPECT_THAT((*views)[0].global_shape, ElementsAre(8, 2));
  EXPECT_THAT((*views)[0].pieces,
              ElementsAre(ViewPiece{{{0, 0}, {4, 2}}, {0, 0}}, ViewPiece{{{6, 0}, {4, 2}}, {4, 0}}));
  EXPECT_THAT((*views)[2].pieces,
              ElementsAre(ViewPiece{{{5, 0}, {1, 2}}, {0, 0}}, ViewPiece{{{11, 0}, {1, 2}}, {1, 0}}));
}

TEST(FusedViews, PartsMustFillTheDimension) {
  const std::vector<FusedPart> parts{{"q", 4}, {"k", 1}};
  EXPECT_THAT(fused_views("qkv", Numbers{6, 2}, parts).status().message(), HasSubstr("1 groups of 5 rows"));
  EXPECT_THAT(fused_views("qkv", Numbers{10, 2}, std::vector<FusedPart>{{"q", 5}, {"q", 5}}).status().message(),
              HasSubstr("parts[1].tensor_id: \"q\" is the name of an earlier part"));
  EXPECT_THAT(fused_views("qkv", Numbers{5, 2}, parts, 2).status().message(), HasSubstr("out of range"));
  EXPECT_THAT(fused_views("qkv", Numbers{std::int64_t{5} << 40, 2}, parts, 0, std::int64_t{1} << 40).status().message(),
              HasSubstr("groups: found 1099511627776, at most 8192 are supported"));
}

TEST(Dtypes, SpellingsOfOneTypeAreTheSame) {
  EXPECT_TRUE(same_dtype("BF16", "torch.bfloat16"));
  EXPECT_TRUE(same_dtype("bf16", "bfloat16"));
  EXPECT_TRUE(same_dtype("my_type", "my_type"));
  EXPECT_FALSE(same_dtype("bf16", "f16"));
  EXPECT_FALSE(same_dtype("F8_E4M3", "float8_e4m3"));
  EXPECT_FALSE(same_dtype("my_type", "bf16"));
  EXPECT_EQ(find_dtype("int3"), nullptr);
  std::vector<std::string_view> spellings;
  for (const DtypeSpelling& row : dtype_spellings()) {
    spellings.push_back(row.spelling);
    ASSERT_NE(find_dtype(row.name), nullptr);
    EXPECT_EQ(find_dtype(row.name)->bits, row.bits);
  }
  std::sort(spellings.begin(), spellings.end());
  EXPECT_EQ(std::adjacent_find(spellings.begin(), spellings.end()), spellings.end());
}

TEST(Views, PartsOfAPartAreViewsOfTheBase) {
  // Two experts of a stack, each gate over up; gate and up interleaved in rows of one.
  const auto experts = fused_views("w13", Numbers{2, 6, 4}, std::vector<FusedPart>{{"e0", 1, true}, {"e1", 1, true}});
  ASSERT_TRUE(experts.ok());
  const std::vector<FusedPart> gate_up{{"gate", 3}, {"up", 3}};
  const auto second = fused_views((*experts)[1], gate_up);
  ASSERT_TRUE(second.ok());
  EXPECT_EQ((*second)[1], (TensorView{"up", "w13", {3, 4}, {1, 2}, {{Box{{1, 3, 0}, {1, 3, 4}}, {0, 0}}}, {}}));
  const auto striped = fused_views((*experts)[0], std::vector<FusedPart>{{"gate", 1}, {"up", 1}}, 0, 3);
  ASSERT_TRUE(striped.ok());
  EXPECT_EQ((*striped)[1].pieces.size(), 3U);
  EXPECT_EQ((*striped)[1].pieces[2], (ViewPiece{Box{{0, 5, 0}, {1, 1, 4}}, {2, 0}}));

  // A view in several pieces, cut across them: key of (query, key) of two groups, as heads of two rows.
  const auto qk = fused_views("qk", Numbers{12, 2}, std::vector<FusedPart>{{"q", 3}, {"k", 3}}, 0, 2);
  ASSERT_TRUE(qk.ok());
  const auto heads = fused_views((*qk)[1], std::vector<FusedPart>{{"h0", 2}, {"h1", 2}, {"h2", 2}});
  ASSERT_TRUE(heads.ok());
  EXPECT_EQ(
      (*heads)[1],
      (TensorView{"h1", "qk", {2, 2}, {0, 1}, {{Box{{5, 0}, {1, 2}}, {0, 0}}, {Box{{9, 0}, {1, 2}}, {1, 0}}}, {}}));
  for (const auto* views : {&*second, &*striped}) {
    for (const TensorView& view : *views) EXPECT_TRUE(check_view(view, Numbers{2, 6, 4}).ok());
  }
  for (const TensorView& view : *heads) EXPECT_TRUE(check_view(view, Numbers{12, 2}).ok());

  TensorView broken = (*experts)[1];
  broken.axes = {1, 7};
  EXPECT_THAT(fused_views(broken, gate_up).status().message(), HasSubstr("axes[1]"));
  broken = (*experts)[1];
  broken.pieces[0].box.extent.pop_back();
  EXPECT_FALSE(fused_views(broken, gate_up).ok());
  broken.pieces.clear();
  EXPECT_FALSE(fused_views(broken, gate_up).ok());
}

}  // namespace
}  // namespace steelyard::reshard
