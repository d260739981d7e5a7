// The public API says the same as the rooms behind it: nothing is lost on the way in or out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "steelyard/layout.h"
#include "steelyard/placement.h"
#include "steelyard/reshard.h"

namespace steelyard {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Numbers = std::vector<std::int64_t>;

TensorDescriptor tensor(const std::string& id = "w") {
  TensorDescriptor made;
  made.tensor_id = id;
  made.global_shape = {4, 4};
  made.dtype = "bf16";
  made.itemsize = 2;
  made.partition_dim = 0;
  made.layout_fingerprint = "f";
  return made;
}

PlacementFragment placed(const std::string& id, std::int64_t row, std::int64_t rank) {
  return {id, "w", {row, 0}, {2, 4}, 16, {0, rank, 0, 0}, {}};
}

RuntimeFragment running(const std::string& id, std::int64_t row, std::int64_t rank, std::uint64_t address) {
  RuntimeFragment made;
  made.fragment_id = id;
  made.tensor_id = "w";
  made.global_offset = {row, 0};
  made.local_shape = {2, 4};
  made.address = address;
  made.nbytes = 16;
  made.worker_id = "worker";
  made.endpoint = "endpoint";
  made.device = "cpu";
  made.rank.tp = rank;
  made.lease_generation = 7;
  return made;
}

Result<PlacementManifest> placement(const std::vector<PlacementFragment>& fragments,
                                    const std::string& revision = "r") {
  return PlacementManifest::make("m", revision, std::vector{tensor()}, fragments);
}

TEST(Api, TheVectorsOfTheContract) {
  const auto one = placement({placed("p0", 0, 0)});
  ASSERT_TRUE(one.ok()) << one.status().to_string();
  EXPECT_EQ(one->placement_id(), "sha256:4be6b21a77dd50df576261ad8fa9739925efa5b12b6ab601005032a5f50e4e75");
  EXPECT_EQ(one->digest(), "b129e63182fc69f727976cab4ec843f8ffaeee8f946d26c5a39e1b6781f43bc4");
  const auto empty = PlacementManifest::make("m", "r", {}, {});
  ASSERT_TRUE(empty.ok());
  EXPECT_EQ(empty->placement_id(), "sha256:65e60da33f39b251b1b47dfc71795c890e90c56bbab9c16ff7ab2414dcd15fd1");
  RuntimeHeader header{"m", "r", "instance", "lease", std::nullopt, std::nullopt};
  const auto memory = RuntimeManifest::make(header, std::vector{tensor()}, std::vector{running("f", 0, 0, 4096)});
  ASSERT_TRUE(memory.ok()) << memory.status().to_string();
  EXPECT_EQ(memory->placement()->fragment(0).placement_fragment_id,
            "logical:e8728ff64abb831aab937ef5e99ae32ab406cd101c66079f4cbc08832e0bbbf9");
}

TEST(Api, APlacementGivesBackWhatWasSaid) {
  std::vector fragments{placed("p1", 2, 1), placed("p0", 0, 0)};
  fragments[0].aliases = {"z", "a"};
  TensorDescriptor said = tensor();
  said.layer_id = 3;
  said.expert_id = 0;
  const auto made = PlacementManifest::make("m", "r", std::vector{said}, fragments);
  ASSERT_TRUE(made.ok()) << made.status().to_string();
  EXPECT_EQ(made->model_id(), "m");
  EXPECT_EQ(made->revision(), "r");
  ASSERT_EQ(made->tensor_count(), 1U);
  said.shard_dims = Numbers{0};  // the canonical form
  EXPECT_EQ(made->tensor(0), said);
  ASSERT_EQ(made->fragment_count(), 2U);
  EXPECT_EQ(made->fragment(0), fragments[1]);
  fragments[0].aliases = {"a", "z"};
  EXPECT_EQ(made->fragment(1), fragments[0]);
  EXPECT_EQ(made->find_fragment("p1"), 1U);
  EXPECT_EQ(made->find_fragment("p2"), std::nullopt);
  const auto read = PlacementManifest::from_json(made->to_json());
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(*read, *made);
  EXPECT_EQ(PlacementManifest::make("m", "r", std::vector{said}, fragments, "sha256:0").code(), Code::kInvalidArgument);
}

TEST(Api, AnErrorNamesTheField) {
  auto fragment = placed("p0", 0, 0);
  fragment.local_shape[1] = 0;
  const auto refused = placement({fragment});
  EXPECT_EQ(refused.code(), Code::kInvalidArgument);
  EXPECT_THAT(refused.status().message(), HasSubstr("fragments[0].local_shape[1]: local_shape must be at least 1"));
}

TEST(Api, MemoryIsProjectedAndBoundAgain) {
  auto owner = std::make_shared<int>(1);
  std::vector fragments{running("b", 2, 1, 4096), running("a", 0, 0, 8192)};
  fragments[0].owner = owner;
  fragments[0].placement_fragment_id = "p1";
  fragments[1].aliases = {"x"};
  const RuntimeHeader header{"m", "r", "instance", "lease", std::nullopt, 7};
  auto memory = RuntimeManifest::make(header, std::vector{tensor()}, fragments);
  ASSERT_TRUE(memory.ok()) << memory.status().to_string();
  EXPECT_EQ(memory->header(), header);
  EXPECT_EQ(memory->tensor(0), tensor());
  EXPECT_EQ(memory->fragment(0).placement_fragment_id, "p1");
  EXPECT_EQ(memory->fragment(1).placement_fragment_id, std::nullopt);
  EXPECT_EQ(memory->fragment(1).aliases, std::vector<std::string>{"x"});
  EXPECT_EQ(owner.use_count(), 3);

  const auto layout = memory->placement();
  const auto binding = memory->binding();
  ASSERT_TRUE(layout.ok() && binding.ok());
  EXPECT_EQ(binding->header(),
            (BindingHeader{"m", "r", layout->placement_id(), layout->digest(), "instance", 7, "lease"}));
  EXPECT_TRUE(binding->check_fence("lease", 7).ok());
  EXPECT_EQ(binding->check_fence("lease", 8).code(), Code::kInvalidArgument);
  EXPECT_EQ(binding->check_fence("other", 7).code(), Code::kInvalidArgument);
  EXPECT_EQ(binding->fragment_count(), 2U);
  const auto bound = RuntimeManifest::bind(*layout, *binding);
  ASSERT_TRUE(bound.ok()) << bound.status().to_string();
  EXPECT_EQ(bound->fragment_count(), 2U);

  std::vector<BindingFragment> rows;
  for (std::size_t i = 0; i < 2; ++i) rows.push_back(binding->fragment(i));
  EXPECT_EQ(*RuntimeBindingManifest::make(binding->header(), rows), *binding);
  rows[0].address = 0;
  EXPECT_THAT(RuntimeBindingManifest::make(binding->header(), rows).status().message(),
              HasSubstr("fragments[0].address: address must be at least 1"));
  // The address of the other fragment: each is well formed, together they are not.
  rows[0].address = rows[1].address + 8;
  const auto clash = RuntimeBindingManifest::make(binding->header(), rows);
  ASSERT_TRUE(clash.ok());
  EXPECT_THAT(RuntimeManifest::bind(*layout, *clash).status().message(), HasSubstr("address ranges overlap"));
}

TEST(Api, APlanIsMadeExecutedAndRefused) {
  const auto source = placement({placed("s0", 0, 0), placed("s1", 2, 1)}).value();
  PlacementFragment whole{"d", "w", {0, 0}, {4, 4}, 32, {}, {}};
  const auto target = placement({whole}).value();
  const auto plan = TransferPlan::make(source, target);
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  EXPECT_EQ(plan->bytes(), 32U);
  ASSERT_EQ(plan->region_count(), 2U);
  EXPECT_EQ(plan->segment_count(), 2U);
  EXPECT_EQ(plan->regions_of(0), (std::pair<std::size_t, std::size_t>{0, 2}));
  const Region second = plan->region(1);
  EXPECT_EQ(plan->tensor_id(second.tensor), "w");
  EXPECT_EQ(plan->source_fragment_id(second.source), "s1");
  EXPECT_EQ(plan->target_fragment_id(second.target), "d");
  EXPECT_THAT(second.offset, ElementsAre(2, 0));
  EXPECT_THAT(second.shape, ElementsAre(2, 4));
  EXPECT_EQ(second.source_base, 0U);
  EXPECT_EQ(second.target_base, 16U);
  EXPECT_EQ(second.inner_bytes, 16U);
  EXPECT_EQ(second.bytes(), 16U);
  EXPECT_EQ(plan->key().size(), 64U);
  EXPECT_THAT(plan->explain(), HasSubstr("32"));
  EXPECT_THAT(*plan->render("w"), HasSubstr("<svg"));
  EXPECT_EQ(plan->render("v").code(), Code::kInvalidArgument);

  std::array<unsigned char, 16> upper{};
  std::array<unsigned char, 16> lower{};
  std::array<unsigned char, 32> all{};
  upper.fill(1);
  lower.fill(2);
  const auto at = [](auto& block) {
    return FragmentMemory{reinterpret_cast<std::uint64_t>(block.data()), block.size()};
  };
  const auto report = execute(*plan, std::vector{at(upper), at(lower)}, std::vector{at(all)}, {.verify = true});
  ASSERT_TRUE(report.ok()) << report.status().to_string();
  EXPECT_EQ(report->bytes, 32U);
  EXPECT_EQ(report->verified_fragments, 1U);
  EXPECT_EQ(all[15], 1);
  EXPECT_EQ(all[16], 2);
  EXPECT_EQ(execute(*plan, std::vector{at(upper)}, std::vector{at(all)}).code(), Code::kInvalidArgument);

  const auto gap = TransferPlan::make(placement({placed("s0", 0, 0)}).value(), target);
  EXPECT_THAT(gap.status().message(), HasSubstr("the first missing box"));
  EXPECT_THAT(TransferPlan::make(placement({whole}, "r2").value(), target).status().message(),
              HasSubstr("revision differs"));
  EXPECT_EQ(TransferPlan::make(source, target, {.max_regions = 1}).code(), Code::kInvalidArgument);
}

TEST(Api, OptionsReachThePlanner) {
  const std::vector<FusedPart> parts{{"q", 2}, {"k", 2}};
  const auto views = fused_views("w", Numbers{4, 4}, parts);
  ASSERT_TRUE(views.ok());
  EXPECT_EQ((*views)[1].pieces[0].box, (TensorBox{{2, 0}, {2, 4}}));
  const auto halves = fused_views((*views)[1], std::vector<FusedPart>{{"k0", 2}, {"k1", 2}}, 1);
  ASSERT_TRUE(halves.ok()) << halves.status().to_string();
  EXPECT_EQ((*halves)[1].base_tensor_id, "w");
  EXPECT_EQ((*halves)[1].pieces[0].box, (TensorBox{{2, 2}, {2, 2}}));
  PlanOptions options;
  options.source_views = *views;
  options.target_views = *views;
  options.choice = SourceChoice::kFirst;
  options.locality = {{false, {0, 1, 0, 0}, "worker", "endpoint"}};
  const auto source = placement({placed("s0", 0, 0), placed("s1", 2, 1)}).value();
  const auto plan = TransferPlan::make(source, source, options);
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  EXPECT_EQ(plan->tensor_count(), 2U);
  EXPECT_NE(plan->key(), TransferPlan::make(source, source)->key());
  options.co_plan = {{"w", "no such scales", {2, 2}}};
  EXPECT_EQ(TransferPlan::make(source, source, options).code(), Code::kInvalidArgument);
}

TEST(Api, LayoutHelpers) {
  const std::vector<MeshPlacement> mesh{{MeshPlacement::Kind::kShard, 0}, {MeshPlacement::Kind::kReplicate}};
  EXPECT_THAT(*boxes_from_mesh(Numbers{5, 2}, Numbers{2, 2}, mesh, Numbers{1, 0}),
              ElementsAre(TensorBox{{3, 0}, {2, 2}}));
  const std::vector<MeshPlacement> strided{{MeshPlacement::Kind::kStridedShard, 0, 2}};
  EXPECT_THAT(*boxes_from_mesh(Numbers{8}, Numbers{2}, strided, Numbers{0}),
              ElementsAre(TensorBox{{0}, {2}}, TensorBox{{4}, {2}}));
  EXPECT_THAT(*boxes_from_flat_range(Numbers{2, 3}, 2, 6),
              ElementsAre(TensorBox{{0, 2}, {1, 1}}, TensorBox{{1, 0}, {1, 3}}));
  EXPECT_THAT(*split_sizes(5, 2), ElementsAre(3, 2));
  EXPECT_EQ(split_sizes(5, 0).code(), Code::kInvalidArgument);
}

TEST(Api, AStoredManifestMustBeOne) { EXPECT_FALSE(StoredManifest::from_json("{}").ok()); }

}  // namespace
}  // namespace steelyard
