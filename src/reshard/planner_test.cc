// What the planner chooses, and what it refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "reshard/explain.h"
#include "reshard/plan_inputs.h"
#include "reshard/test_models.h"
#include "reshard/transfer_plan.h"

namespace steelyard::reshard {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Numbers;
using testing::sharded;
using testing::TestModel;

std::string refusal(const TestModel& source, const TestModel& target, PlanOptions options = {}) {
  const auto from = source.build();
  const auto to = target.build();
  EXPECT_TRUE(from.ok() && to.ok()) << from.status().to_string() << to.status().to_string();
  const auto plan = plan_transfer(*from, *to, std::move(options));
  EXPECT_FALSE(plan.ok());
  EXPECT_EQ(plan.code(), Code::kInvalidArgument);
  return plan.status().message();
}

TransferPlan planned(const TestModel& source, const TestModel& target, PlanOptions options = {}) {
  auto plan = plan_transfer(source.build().value(), target.build().value(), std::move(options));
  EXPECT_TRUE(plan.ok()) << plan.status().to_string();
  return std::move(plan).value();
}

std::shared_ptr<const formats::StoredManifest> stored(const std::string& dtype, const Numbers& shape,
                                                      std::uint64_t bytes) {
  auto manifest = std::make_shared<formats::StoredManifest>();
  manifest->tensors.add({"w", dtype, shape, "row-major", formats::TensorPlace{0, 128, bytes}, {}, {}, {}});
  return manifest;
}

TestModel target_of(const Numbers& shape, const std::string& dtype, std::int64_t itemsize,
                    const std::string& layout = "row-major") {
  TestModel model = sharded("d", shape, 0, 1);
  model.tensors[0].dtype = dtype;
  model.tensors[0].itemsize = itemsize;
  model.tensors[0].layout = layout;
  return model;
}

TEST(Planner, ColumnsAreStridedAndRowsAreNot) {
  const TransferPlan rows = planned(sharded("s", {8, 4}, 0, 4), sharded("d", {8, 4}, 0, 2));
  ASSERT_EQ(rows.regions().size(), 4U);
  EXPECT_EQ(rows.segments(), 4U);
  EXPECT_EQ(rows.regions().row(1).target_base, 16U);

  const TransferPlan columns = planned(sharded("s", {8, 4}, 1, 4), sharded("d", {8, 4}, 1, 2));
  ASSERT_EQ(columns.regions().size(), 4U);
  const RegionRow row = columns.regions().row(1);
  EXPECT_EQ(row.inner_bytes, 2U);
  EXPECT_THAT(row.loop_count, ElementsAre(8U));
  EXPECT_THAT(row.source_stride, ElementsAre(2U));
  EXPECT_THAT(row.target_stride, ElementsAre(4U));
  EXPECT_EQ(row.target_base, 2U);
  EXPECT_THAT(row.offset, ElementsAre(0, 1));
  EXPECT_THAT(row.extent, ElementsAre(8, 1));
  EXPECT_EQ(columns.bytes(), 64U);
}

TEST(Planner, ATargetRankReadsOnlyWhatItHolds) {
  TestModel one = sharded("d", {64, 64}, 1, 8);
  one.fragments.resize(1);
  const TransferPlan plan = planned(sharded("s", {64, 64}, 0, 8), one);
  EXPECT_EQ(plan.bytes(), 64U * 64 * 2 / 8);
  EXPECT_EQ(planned(sharded("s", {64, 64}, 0, 8), sharded("d", {64, 64}, 1, 8)).bytes(), 64U * 64 * 2);
}

TEST(Planner, EqualReplicasGiveEvenly) {
  const TransferPlan plan = planned(sharded("s", {8, 8}, 0, 1, 8), sharded("d", {8, 8}, 0, 1, 8));
  for (const RankBytes& row : explain(plan).source_ranks) EXPECT_EQ(row.bytes, 128U);
}

TEST(Planner, FirstReadsTheSmallestRank) {
  PlanOptions options;
  options.choice = Choice::kFirst;
  TestModel source = sharded("s", {8, 8}, 0, 1, 3);
  source.fragments[0].id = "z";  // the smallest rank with the largest id
  const TransferPlan plan = planned(source, sharded("d", {8, 8}, 0, 1, 4), options);
  const auto rows = explain(plan).source_ranks;
  EXPECT_EQ(rows[0].bytes, 512U);
  EXPECT_EQ(rows[1].bytes, 0U);
}

TEST(Planner, LocalityComesBeforeBalanceAndChangesTheKey) {
  PlanOptions options;
  options.locality = {{Side::kSource, {1, 0, 0, 0}, "w1", "e1"},
                      {Side::kSource, {2, 0, 0, 0}, "w2", "e2"},
                      {Side::kTarget, {0, 0, 0, 0}, "w2", "e"},
                      {Side::kTarget, {1, 0, 0, 0}, "w9", "e1"}};
  const TestModel source = sharded("s", {8, 8}, 0, 1, 3);
  const TestModel target = sharded("d", {8, 8}, 0, 1, 3);
  const TransferPlan plan = planned(source, target, options);
  const auto ranks = plan.source().ranks();
  EXPECT_EQ(ranks[plan.source().rank_number(plan.regions().row(0).source)].dp, 2);  // same worker
  EXPECT_EQ(ranks[plan.source().rank_number(plan.regions().row(1).source)].dp, 1);  // same endpoint
  EXPECT_EQ(ranks[plan.source().rank_number(plan.regions().row(2).source)].dp, 0);  // the one that gave least
  EXPECT_NE(plan.key(), planned(source, target).key());
  EXPECT_EQ(plan.key().size(), 64U);
  options.locality.push_back(options.locality[0]);
  EXPECT_THAT(refusal(source, target, options), HasSubstr("options.locality[4]"));
}

TEST(Planner, AKeyOutlivesTheRevision) {
  TestModel source = sharded("s", {8, 8}, 0, 2);
  TestModel target = sharded("d", {8, 8}, 0, 4);
  const std::string key = planned(source, target).key();
  source.revision = target.revision = "next";
  EXPECT_EQ(planned(source, target).key(), key);
  target.fragments.pop_back();
  EXPECT_NE(planned(source, target).key(), key);
}

TEST(Planner, DifferencesAreNamedWithBothValues) {
  const TestModel source = sharded("s", {8, 4}, 0, 2);
  const TestModel target = sharded("d", {8, 4}, 0, 2);
  TestModel other = target;
  other.tensors[0].dtype = "f16";
  EXPECT_THAT(refusal(source, other), HasSubstr("tensor \"w\": dtype differs: source \"bf16\", target \"f16\""));
  other = target;
  other.tensors[0].dtype = "bfloat16";  // spellings of running ranks are opaque
  EXPECT_THAT(refusal(source, other), HasSubstr("dtype differs"));
  other = target;
  other.tensors[0].itemsize = 4;
  EXPECT_THAT(refusal(source, other), HasSubstr("itemsize differs: source 2, target 4"));
  other = target;
  other.tensors[0].layout = "g";
  EXPECT_THAT(refusal(source, other), HasSubstr("layout_fingerprint differs: source \"f\", target \"g\""));
  EXPECT_THAT(refusal(source, sharded("d", {4, 8}, 0, 2)),
              HasSubstr("global_shape differs: source (8, 4), target (4, 8)"));
  other = target;
  other.tensors[0].id = "v";
  for (auto& fragment : other.fragments) fragment.tensor = "v";
  EXPECT_THAT(refusal(source, other), HasSubstr("tensor \"v\": the target has it, the source does not"));
  other = target;
  other.model_id = "n";
  EXPECT_THAT(refusal(source, other), HasSubstr("model_id differs: source \"m\", target \"n\""));
  other = target;
  other.revision = "q";
  EXPECT_THAT(refusal(source, other), HasSubstr("revision differs: source \"r\", target \"q\""));
}

TEST(Planner, TheFirstMissingBoxIsNamed) {
  TestModel source = sharded("s", {8, 4}, 0, 4);
  source.fragments.erase(source.fragments.begin() + 2);
  EXPECT_THAT(
      refusal(source, sharded("d", {8, 4}, 0, 2)),
      HasSubstr("tensor \"w\", target fragment \"d0.1\": no source fragment covers offset (4, 0), shape (2, 4)"));
}

TEST(Planner, LimitsSayWhatWasReached) {
  PlanOptions options;
  options.max_regions = 3;
  EXPECT_THAT(refusal(sharded("s", {8, 4}, 0, 4), sharded("d", {8, 4}, 0, 2), options),
              HasSubstr("reached 4 regions; options.max_regions is 3"));
  options.max_regions = 100;
  options.max_segments = 15;
  EXPECT_THAT(refusal(sharded("s", {8, 4}, 1, 4), sharded("d", {8, 4}, 1, 2), options),
              HasSubstr("reached 16 segments; options.max_segments is 15"));
}

TEST(Planner, TheLargestTensorsArePlannedUntilTheirSumLeaves64Bits) {
  const auto model = [](const std::string& prefix, int tensors, std::size_t parts) {
    TestModel made;
    for (int t = 0; t < tensors; ++t) {
      const std::string id = "w" + std::to_string(t);
      made.tensors.push_back({id, {INT64_MAX}, 1});
      for (std::size_t part = 0; part < parts; ++part) {
        const std::int64_t begin = part == 0 ? 0 : INT64_MAX / 2;
        const std::int64_t end = part + 1 == parts ? INT64_MAX : INT64_MAX / 2;
        made.fragments.push_back({prefix + id + "." + std::to_string(part), id, {begin}, {end - begin}, {}});
      }
    }
    return made.build().value();
  };
  const auto two = plan_transfer(model("s", 2, 2), model("d", 2, 1));
  ASSERT_TRUE(two.ok()) << two.status().to_string();
  EXPECT_EQ(two->bytes(), UINT64_MAX - 1);
  EXPECT_EQ(two->regions().row(1).target_base, static_cast<std::uint64_t>(INT64_MAX / 2));
  EXPECT_EQ(two->regions().row(1).inner_bytes, static_cast<std::uint64_t>(INT64_MAX - INT64_MAX / 2));
  const auto three = plan_transfer(model("s", 3, 2), model("d", 3, 1));
  EXPECT_THAT(three.status().message(), HasSubstr("bytes must fit in an unsigned 64-bit integer"));
}

TEST(Planner, FusedAndSeparateTensorsMeetInViews) {
  TestModel fused;
  fused.tensors = {{"qkv", {12, 2}}};
  fused.fragments = {{"s0", "qkv", {0, 0}, {6, 2}, {0, 0, 0, 0}}, {"s1", "qkv", {6, 0}, {6, 2}, {0, 1, 0, 0}}};
  TestModel apart;
  apart.tensors = {{"k", {2, 2}}, {"q", {8, 2}}};
  apart.fragments = {{"dk", "k", {0, 0}, {2, 2}, {}}, {"dq", "q", {0, 0}, {8, 2}, {}}};
  PlanOptions options;
  options.source_views =
      fused_views("qkv", Numbers{12, 2}, std::vector<FusedPart>{{"q", 4}, {"k", 1}, {"v", 1}}, 0, 2).value();
  const TransferPlan plan = planned(fused, apart, options);
  ASSERT_EQ(plan.regions().size(), 4U);
  EXPECT_EQ(plan.regions().row(0).source_base, 16U);  // k of group 0 lies behind 4 rows of 4 bytes
  EXPECT_EQ(plan.regions().row(1).source_base, 16U);
  EXPECT_EQ(plan.regions().row(2).bytes(), 16U);

  // And back: the fused tensor is filled from its parts; leaving one out is refused.
  PlanOptions back;
  back.target_views = options.source_views;
  EXPECT_THAT(refusal(apart, fused, back), HasSubstr("tensor \"v\": the target has it, the source does not"));
  apart.tensors.push_back({"v", {2, 2}});
  apart.fragments.push_back({"dv", "v", {0, 0}, {2, 2}, {}});
  EXPECT_EQ(planned(apart, fused, back).bytes(), 48U);
  back.target_views.pop_back();
  EXPECT_THAT(refusal(apart, fused, back), HasSubstr("the views of target tensor \"qkv\" leave out offset (5, 0)"));
  back.target_views[0].base_tensor_id = "other";
  EXPECT_THAT(refusal(apart, fused, back), HasSubstr("the target has no tensor \"other\""));
}

TEST(Planner, AStoredSourceComparesMeanings) {
  const auto plan = plan_transfer(stored("BF16", {8, 4}, 64), target_of({8, 4}, "torch.bfloat16", 2).build().value());
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  EXPECT_EQ(plan->bytes(), 64U);
  EXPECT_EQ(plan->source().stored_place(plan->regions().row(0).source).offset, 128U);
  EXPECT_TRUE(plan_transfer(stored("F32", {}, 4), target_of({1}, "float32", 4).build().value()).ok());

  const auto other = plan_transfer(stored("BF16", {8, 4}, 64), target_of({8, 4}, "float16", 2).build().value());
  EXPECT_THAT(other.status().message(), HasSubstr("dtype differs: source \"BF16\", target \"float16\""));
  const auto layout = target_of({8, 4}, "bf16", 2, "trainer:v1").build().value();
  EXPECT_THAT(plan_transfer(stored("BF16", {8, 4}, 64), layout).status().message(),
              HasSubstr("layout_fingerprint differs: source \"row-major\", target \"trainer:v1\""));
  PlanOptions options;
  options.stored_layout = "trainer:v1";
  EXPECT_TRUE(plan_transfer(stored("BF16", {8, 4}, 64), layout, options).ok());
  // Of a type that the table does not know nobody has checked the bytes.
  EXPECT_TRUE(plan_transfer(stored("X24", {8, 4}, 96), target_of({8, 4}, "X24", 3).build().value()).ok());
  EXPECT_THAT(plan_transfer(stored("X24", {0, 4}, 3), target_of({8, 4}, "X24", 3).build().value()).status().message(),
              HasSubstr("differs: source"));
}

TEST(Planner, SubByteTypesArePlannedAsTheirPackedBytes) {
  EXPECT_TRUE(plan_transfer(stored("F4", {8, 4}, 16), target_of({8, 2}, "uint8", 1).build().value()).ok());
  EXPECT_TRUE(plan_transfer(stored("F4", {8, 4}, 16), target_of({16}, "U8", 1).build().value()).ok());
  EXPECT_TRUE(
      plan_transfer(stored("F4", {8, 4}, 16), target_of({8, 2}, "torch.float4_e2m1fn_x2", 1).build().value()).ok());
  const auto wrong = plan_transfer(stored("F4", {8, 4}, 16), target_of({8, 4}, "F4", 1).build().value());
  EXPECT_THAT(wrong.status().message(),
              HasSubstr("tensor \"w\": the source stores \"F4\" (8, 4), a sub-byte type, which is planned whole or as "
                        "its packed bytes: wanted itemsize 1 and global_shape (16,) or (8, 2)"));
}

TestModel quantised(const std::string& prefix, std::int64_t rows_each) {
  TestModel model;
  model.tensors = {{"s", {2, 1}, 4, "f32"}, {"w", {8, 4}, 1, "f8"}};
  for (std::int64_t r = 0; r < 8 / rows_each; ++r) {
    model.fragments.push_back(
        {prefix + "w" + std::to_string(r), "w", {r * rows_each, 0}, {rows_each, 4}, {0, r, 0, 0}});
    model.fragments.push_back({prefix + "s" + std::to_string(r), "s", {0, 0}, {2, 1}, {0, r, 0, 0}});
  }
  return model;
}

TEST(Planner, BlockQuantisedPairsAreCutOnBlocks) {
  PlanOptions options;
  options.co_plan = {{"w", "s", {4, 4}}};
  EXPECT_EQ(planned(quantised("s", 4), quantised("d", 8), options).regions().size(), 3U);
  EXPECT_THAT(
      refusal(quantised("s", 2), quantised("d", 8), options),
      HasSubstr("tensor \"w\", source fragment \"sw0\": the cut [0, 2) in dimension 0 does not fall on a block of 4"));
  TestModel target = quantised("d", 4);
  target.fragments.pop_back();
  EXPECT_THAT(refusal(quantised("s", 4), target, options),
              HasSubstr("its rank has no scales of \"s\" at offset (1, 0)"));
  options.co_plan[0].block_shape = {2, 4};
  EXPECT_THAT(refusal(quantised("s", 4), quantised("d", 8), options),
              HasSubstr("options.co_plan[0]: blocks of (2, 4)"));
  options.co_plan[0].scale_id = "none";
  EXPECT_THAT(refusal(quantised("s", 4), quantised("d", 8), options),
              HasSubstr("options.co_plan[0].scale_id: the target has no tensor \"none\""));
}

TEST(Planner, OneRankIsPlannedAlone) {
  const auto source = sharded("s", {8, 4}, 0, 4).build().value();
  const auto target = sharded("d", {8, 4}, 1, 2).build().value();
  const auto planner = TransferPlanner::make(source, target);
  ASSERT_TRUE(planner.ok());
  EXPECT_EQ(planner->plan_rank({0, 1, 0, 0})->size(), 4U);
  EXPECT_THAT(planner->plan_rank({0, 9, 0, 0}).status().message(), HasSubstr("no fragment of rank dp 0, tp 9"));
  EXPECT_THAT(planner->plan_fragment(2).status().message(), HasSubstr("target fragment 2 of 2"));
}

TEST(Explain, ClassesAndWays) {
  const TransferPlan plan = planned(sharded("s", {8, 4}, 0, 2), sharded("d", {8, 4}, 1, 2));
  const PlanExplanation some = explain(plan, 2);
  ASSERT_EQ(some.classes.size(), 1U);
  EXPECT_EQ(some.classes[0].way, Way::kFullPull);
  EXPECT_EQ(some.classes[0].extra_bytes, 4U * (3 * 8 + 4 - 16));
  EXPECT_EQ(explain(plan).classes[0].way, Way::kGather);
  EXPECT_EQ(some.largest_strided->segments, 4U);
  EXPECT_THAT(explain_text(plan, some), HasSubstr("full_pull: 4 regions of 4 x 4 bytes"));
}

TEST(Explain, APictureIsSvg) {
  TestModel source = sharded("s", {8, 4}, 0, 2);
  const TransferPlan plan = planned(source, sharded("d", {8, 4}, 1, 2));
  const auto svg = render_svg(plan, "w");
  ASSERT_TRUE(svg.ok());
  EXPECT_THAT(*svg, ::testing::StartsWith("<svg xmlns="));
  EXPECT_THAT(*svg, ::testing::EndsWith("</svg>\n"));
  EXPECT_THAT(*svg, HasSubstr("<title>tp1</title>"));
  EXPECT_THAT(render_svg(plan, "v").status().message(), HasSubstr("no tensor \"v\""));
}

TEST(Explain, ThePictureInTheDocumentationIsCurrent) {
  TestModel source = sharded("s", {12, 16}, 0, 4);
  source.tensors[0].id = "model.layers.0.mlp.up_proj.weight";
  for (auto& fragment : source.fragments) fragment.tensor = source.tensors[0].id;
  TestModel target = sharded("d", {12, 16}, 1, 3);
  target.tensors = source.tensors;
  for (auto& fragment : target.fragments) fragment.tensor = source.tensors[0].id;
  const std::string svg = render_svg(planned(source, target), source.tensors[0].id).value();
  const std::string path = SY_SOURCE_DIR "/docs/images/resharding.svg";
  if (std::getenv("STEELYARD_REWRITE") != nullptr) std::ofstream(path) << svg;
  std::ifstream file(path);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), svg)
      << "run reshard_test with STEELYARD_REWRITE=1 and look at the picture";
}

}  // namespace
}  // namespace steelyard::reshard
