// Runtime manifests and bindings: their rules, projection to a placement, binding to one, fences.
#include "placement/runtime_manifest.h"

#include <gtest/gtest.h>

#include "placement/bind.h"
#include "placement/project.h"
#include "placement/test_samples.h"

namespace steelyard::placement {
namespace {

using samples::Binding;
using samples::binding_header;
using samples::build_binding;
using samples::build_placement;
using samples::build_runtime;
using samples::expect_refused;
using samples::Fragment;
using samples::Runtime;
using samples::runtime_header;
using samples::Tensor;

Runtime other_half() {
  Runtime half;
  half.id = "a-later";
  half.box.offset = {2, 0};
  half.place.address = 0x2000;
  return half;
}

TEST(RuntimeManifest, KeepsTheOrderAndTheFormInWhichItWasSaid) {
  Tensor plain;
  Tensor second;
  second.id = "a";
  second.partition_dim.reset();
  Runtime first = other_half();
  first.placement_id = "p9";
  first.owner = std::make_shared<int>(1);
  first.box.aliases = {"z", "y"};
  const auto manifest = build_runtime(runtime_header(), {plain, second}, {first, Runtime{}});
  ASSERT_TRUE(manifest.ok()) << manifest.status().to_string();
  EXPECT_EQ(manifest->tensors().tensor_id(0), "w");
  EXPECT_EQ(manifest->tensors().shard_dims(0), std::nullopt);
  EXPECT_EQ(manifest->tensors().partition_dim(0), 0);
  const RuntimeFragmentRow row = manifest->fragment(0);
  EXPECT_EQ(row.fragment_id, "a-later");
  EXPECT_EQ(row.placement_fragment_id, "p9");
  EXPECT_EQ(row.owner, first.owner);
  EXPECT_EQ(row.place.address, 0x2000U);
  EXPECT_EQ(row.place.endpoint, "tcp://a:1");
  EXPECT_EQ(row.lease_generation, 7U);
  EXPECT_THAT(row.aliases, ::testing::ElementsAre("y", "z"));
  EXPECT_EQ(manifest->fragment(1).placement_fragment_id, std::nullopt);
  EXPECT_EQ(manifest->fragment(1).owner, nullptr);
}

TEST(RuntimeManifest, EqualityLeavesOwnersOut) {
  Runtime owned;
  owned.owner = std::make_shared<int>(1);
  const auto base = build_runtime(runtime_header(), {Tensor{}}, {Runtime{}});
  EXPECT_EQ(*base, *build_runtime(runtime_header(), {Tensor{}}, {owned}));
  const auto differs = [&](const auto& change) {
    Runtime fragment;
    RuntimeHeader header = runtime_header();
    change(fragment, header);
    return !(*build_runtime(header, {Tensor{}}, {fragment}) == *base);
  };
  EXPECT_TRUE(differs([](Runtime& f, RuntimeHeader&) { f.id = "x"; }));
  EXPECT_TRUE(differs([](Runtime& f, RuntimeHeader&) { f.place.address += 1; }));
  EXPECT_TRUE(differs([](Runtime& f, RuntimeHeader&) { f.place.worker = "x"; }));
  EXPECT_TRUE(differs([](Runtime& f, RuntimeHeader&) { f.place.endpoint = "x"; }));
  EXPECT_TRUE(differs([](Runtime& f, RuntimeHeader&) { f.place.device = "x"; }));
  EXPECT_TRUE(differs([](Runtime& f, RuntimeHeader&) { f.box.rank.pp = 1; }));
  EXPECT_TRUE(differs([](Runtime& f, RuntimeHeader&) { f.box.offset = {1, 0}; }));
  EXPECT_TRUE(differs([](Runtime& f, RuntimeHeader&) { f.box.aliases = {"x"}; }));
  EXPECT_TRUE(differs([](Runtime& f, RuntimeHeader&) { f.placement_id = "x"; }));
  EXPECT_TRUE(differs([](Runtime&, RuntimeHeader& h) { h.lease_id = "x"; }));
  EXPECT_TRUE(differs([](Runtime&, RuntimeHeader& h) { h.instance_id = "x"; }));
}

TEST(RuntimeManifest, NamesMustNotBeEmpty) {
  const auto with = [](const auto& change) {
    RuntimeHeader header = runtime_header();
    change(header);
    return build_runtime(header, {}, {});
  };
  expect_refused(with([](RuntimeHeader& h) { h.model_id = ""; }), "model_id", "must be a non-empty string");
  expect_refused(with([](RuntimeHeader& h) { h.revision = ""; }), "revision", "must be a non-empty string");
  expect_refused(with([](RuntimeHeader& h) { h.instance_id = ""; }), "instance_id", "must be a non-empty string");
  expect_refused(with([](RuntimeHeader& h) { h.lease_id = ""; }), "lease_id", "must be a non-empty string");
  expect_refused(with([](RuntimeHeader& h) { h.placement_id = ""; }), "placement_id", "must be a non-empty string");
}

TEST(RuntimeManifest, OneGeneration) {
  RuntimeHeader silent = runtime_header();
  silent.generation.reset();
  EXPECT_EQ(build_runtime(silent, {Tensor{}}, {Runtime{}})->generation(), 7U);
  EXPECT_EQ(build_runtime(silent, {}, {})->generation(), std::nullopt);
  EXPECT_EQ(build_runtime(runtime_header(), {}, {})->generation(), 7U);
  Runtime later = other_half();
  later.lease_generation = 8;
  expect_refused(build_runtime(silent, {Tensor{}}, {Runtime{}, later}), "fragments[1].lease_generation",
                 "inconsistent lease generations");
  silent.generation = 8;
  expect_refused(build_runtime(silent, {Tensor{}}, {Runtime{}}), "generation", "does not match fragment generation");
}

TEST(RuntimeManifest, RulesOfBoxesHold) {
  Runtime again = other_half();
  again.id = "r0";
  expect_refused(build_runtime(runtime_header(), {Tensor{}}, {Runtime{}, again}), "fragments[1].fragment_id",
                 "duplicate fragment_id");
  again = other_half();
  again.box.offset = {0, 0};
  expect_refused(build_runtime(runtime_header(), {Tensor{}}, {Runtime{}, again}), "fragments[1]",
                 "duplicate logical fragment for tensor and parallel rank");
  again.box.offset = {1, 0};
  expect_refused(build_runtime(runtime_header(), {Tensor{}}, {Runtime{}, again}), "fragments[1]",
                 "logical fragment boxes overlap");
  again.box.tensor = "v";
  expect_refused(build_runtime(runtime_header(), {Tensor{}}, {again}), "fragments[0].tensor_id", "unknown tensor");
}

TEST(Addresses, RangesOfOneWorkerAndDeviceAreDisjoint) {
  Runtime half = other_half();
  half.place.address = 0x1010;  // just behind
  EXPECT_TRUE(build_runtime(runtime_header(), {Tensor{}}, {Runtime{}, half}).ok());
  half.place.address = 0x100F;
  expect_refused(build_runtime(runtime_header(), {Tensor{}}, {Runtime{}, half}), "fragments[1]",
                 "address ranges overlap");
  half.place.address = 0xFF1;
  expect_refused(build_runtime(runtime_header(), {Tensor{}}, {half, Runtime{}}), "fragments[1]",
                 "address ranges overlap");
  half.place.endpoint = "tcp://b:2";  // routing only
  expect_refused(build_runtime(runtime_header(), {Tensor{}}, {half, Runtime{}}), "", "address ranges overlap");
  Runtime elsewhere = half;
  elsewhere.place.device = "cuda:1";
  EXPECT_TRUE(build_runtime(runtime_header(), {Tensor{}}, {elsewhere, Runtime{}}).ok());
  elsewhere = half;
  elsewhere.place.worker = "worker-1";
  EXPECT_TRUE(build_runtime(runtime_header(), {Tensor{}}, {elsewhere, Runtime{}}).ok());
}

TEST(Addresses, ALongRangeBeforeManyShortOnes) {
  Tensor long_tensor;
  long_tensor.id = "long";
  long_tensor.shape = {1000, 4};
  Runtime all;
  all.id = "all";
  all.box.tensor = "long";
  all.box.shape = {1000, 4};
  all.box.nbytes = 8000;
  Runtime inside;
  inside.place.address = 0x1000 + 7999;
  expect_refused(build_runtime(runtime_header(), {Tensor{}, long_tensor}, {inside, all}), "fragments[1]",
                 "address ranges overlap");
}

TEST(Addresses, TheEndOfTheAddressSpace) {
  Runtime last;
  last.place.address = UINT64_MAX - 16;
  Runtime before = other_half();
  before.place.address = UINT64_MAX - 32;
  EXPECT_TRUE(build_runtime(runtime_header(), {Tensor{}}, {last, before}).ok());
  before.place.address += 1;
  expect_refused(build_runtime(runtime_header(), {Tensor{}}, {last, before}), "", "address ranges overlap");
}

TEST(Addresses, OnlyExactDeclaredAliasesShareMemory) {
  const auto tied = [](const auto& change) {
    Tensor other;
    other.id = "v";
    Runtime first;
    first.box.aliases = {"v", "w"};
    Runtime second = first;
    second.id = "r1";
    second.box.tensor = "v";
    change(other, first, second);
    return build_runtime(runtime_header(), {Tensor{}, other}, {first, second});
  };
  EXPECT_TRUE(tied([](Tensor&, Runtime&, Runtime&) {}).ok());
  const std::string_view words = "address ranges overlap";
  expect_refused(tied([](Tensor&, Runtime& a, Runtime& b) { a.box.aliases = b.box.aliases = {}; }), "", words);
  expect_refused(tied([](Tensor&, Runtime& a, Runtime& b) { a.box.aliases = b.box.aliases = {"w"}; }), "", words);
  expect_refused(tied([](Tensor&, Runtime&, Runtime& b) { b.box.aliases = {"v", "x"}; }), "", words);
  expect_refused(tied([](Tensor&, Runtime&, Runtime& b) { b.box.aliases = {"v", "w", "x"}; }), "", words);
  expect_refused(tied([](Tensor&, Runtime&, Runtime& b) { b.place.address += 2; }), "", words);
  expect_refused(tied([](Tensor&, Runtime&, Runtime& b) { b.box.offset = {2, 0}; }), "", words);
  expect_refused(tied([](Tensor&, Runtime&, Runtime& b) { b.box.shape = {1, 4}, b.box.nbytes = 8; }), "", words);
  expect_refused(tied([](Tensor& t, Runtime&, Runtime&) { t.dtype = "f16"; }), "", words);
  expect_refused(tied([](Tensor& t, Runtime&, Runtime&) { t.fingerprint = "g"; }), "", words);
  expect_refused(tied([](Tensor& t, Runtime&, Runtime&) { t.layer_id = 1; }), "", words);
}

TEST(BindingManifest, NamesAndDigestAreChecked) {
  const auto placement = build_placement({Tensor{}}, {Fragment{}});
  const auto with = [&](const auto& change) {
    BindingHeader header = binding_header(*placement);
    change(header);
    return build_binding(header, {});
  };
  expect_refused(with([](BindingHeader& h) { h.model_id = ""; }), "model_id", "must be a non-empty string");
  expect_refused(with([](BindingHeader& h) { h.revision = ""; }), "revision", "must be a non-empty string");
  expect_refused(with([](BindingHeader& h) { h.placement_id = ""; }), "placement_id", "must be a non-empty string");
  expect_refused(with([](BindingHeader& h) { h.instance_id = ""; }), "instance_id", "must be a non-empty string");
  expect_refused(with([](BindingHeader& h) { h.lease_id = ""; }), "lease_id", "must be a non-empty string");
  expect_refused(with([](BindingHeader& h) { h.placement_digest = "sha256:x"; }), "placement_digest",
                 "must be a lowercase SHA-256 digest");
}

TEST(BindingManifest, IsSortedAndWithoutRepeats) {
  const auto placement = build_placement({Tensor{}}, {Fragment{}});
  Binding second;
  second.placement_id = "a";
  second.id = "r1";
  second.place.address = 0x2000;
  const auto binding = build_binding(binding_header(*placement), {Binding{}, second});
  ASSERT_TRUE(binding.ok());
  EXPECT_EQ(binding->fragment(0).placement_fragment_id, "a");
  EXPECT_EQ(binding->fragment(0).place.address, 0x2000U);
  EXPECT_EQ(binding->fragments().find("p0"), 1U);
  EXPECT_EQ(*binding, *build_binding(binding_header(*placement), {second, Binding{}}));
  Binding again = second;
  again.placement_id = "p0";
  expect_refused(build_binding(binding_header(*placement), {Binding{}, again}), "fragments[1].placement_fragment_id",
                 "duplicate placement fragment in runtime binding");
  again.placement_id = "p1";
  again.id = "r0";
  expect_refused(build_binding(binding_header(*placement), {Binding{}, again}), "fragments[1].fragment_id",
                 "duplicate runtime fragment_id in runtime binding");
}

TEST(Projection, AFragmentWithoutAnIdGetsALogicalOne) {
  Runtime named = other_half();
  named.placement_id = "mine";
  const auto live = build_runtime(runtime_header(), {Tensor{}}, {Runtime{}, named});
  const auto placement = placement_of(*live);
  ASSERT_TRUE(placement.ok()) << placement.status().to_string();
  EXPECT_EQ(placement->fragment(0).placement_fragment_id,
            "logical:e8728ff64abb831aab937ef5e99ae32ab406cd101c66079f4cbc08832e0bbbf9");
  EXPECT_EQ(placement->fragment(1).placement_fragment_id, "mine");
  EXPECT_EQ(placement->tensors().row(0).shard_dims->front(), 0);
}

TEST(Projection, AddressesAndInstancesDoNotCount) {
  Runtime moved;
  moved.id = "other";
  moved.place = {0x9000, "other", "tcp://b:2", "cpu"};
  RuntimeHeader header = runtime_header();
  header.instance_id = "j";
  EXPECT_EQ(*placement_of(*build_runtime(runtime_header(), {Tensor{}}, {Runtime{}})),
            *placement_of(*build_runtime(header, {Tensor{}}, {moved})));
}

TEST(Projection, AnIdThatWasSaidMustBeTheDerivedOne) {
  const auto live = build_runtime(runtime_header(), {Tensor{}}, {Runtime{}});
  const std::string id = placement_of(*live)->placement_id();
  EXPECT_TRUE(placement_of(*live, id).ok());
  expect_refused(placement_of(*live, "sha256:x"), "placement_id",
                 "placement_id does not match canonical logical content");
  RuntimeHeader header = runtime_header();
  header.placement_id = "sha256:x";
  expect_refused(placement_of(*build_runtime(header, {Tensor{}}, {Runtime{}})), "placement_id",
                 "placement_id does not match canonical logical content");
  header.placement_id = id;
  EXPECT_TRUE(placement_of(*build_runtime(header, {Tensor{}}, {Runtime{}})).ok());
}

TEST(Projection, TwoFragmentsOfOnePlacementIdAreRefused) {
  Runtime a;
  a.placement_id = "same";
  Runtime b = other_half();
  b.placement_id = "same";
  expect_refused(placement_of(*build_runtime(runtime_header(), {Tensor{}}, {a, b})),
                 "fragments[1].placement_fragment_id", "duplicate placement_fragment_id");
}

TEST(Projection, ABindingNeedsALeaseAndAGeneration) {
  RuntimeHeader header = runtime_header();
  header.lease_id.reset();
  expect_refused(binding_of(*build_runtime(header, {Tensor{}}, {Runtime{}})), "lease_id", "has no lease_id");
  header = runtime_header();
  header.generation.reset();
  expect_refused(binding_of(*build_runtime(header, {}, {})), "generation", "has no generation");
}

TEST(Bind, GivesBackTheMemoryThatWasProjected) {
  Runtime owned = other_half();
  owned.owner = std::make_shared<int>(1);
  owned.box.aliases = {"y", "x"};
  const auto live = build_runtime(runtime_header(), {Tensor{}}, {owned, Runtime{}});
  const auto placement = placement_of(*live);
  const auto binding = binding_of(*live);
  ASSERT_TRUE(binding.ok()) << binding.status().to_string();
  const auto bound = bind(*placement, *binding);
  ASSERT_TRUE(bound.ok()) << bound.status().to_string();
  ASSERT_EQ(bound->fragments().size(), 2U);
  EXPECT_EQ(bound->header().placement_id, placement->placement_id());
  EXPECT_EQ(bound->generation(), 7U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(bound->fragment(i).placement_fragment_id, placement->fragment(i).placement_fragment_id);
    const bool is_owned = bound->fragment(i).fragment_id == "a-later";
    EXPECT_EQ(bound->fragment(i).owner, is_owned ? owned.owner : nullptr);
    EXPECT_EQ(bound->fragment(i).place.address, is_owned ? 0x2000U : 0x1000U);
    EXPECT_EQ(bound->fragment(i).aliases.size(), is_owned ? 2U : 0U);
  }
  EXPECT_EQ(*placement_of(*bound), *placement);
  EXPECT_EQ(*binding_of(*bound), *binding);
}

TEST(Bind, EverythingThatDiffersIsRefused) {
  const auto placement = build_placement({Tensor{}}, {Fragment{}});
  const auto with = [&](const auto& change) {
    BindingHeader header = binding_header(*placement);
    Binding fragment;
    change(header, fragment);
    return bind(*placement, *build_binding(header, {fragment}));
  };
  EXPECT_TRUE(with([](BindingHeader&, Binding&) {}).ok());
  expect_refused(with([](BindingHeader& h, Binding&) { h.model_id = "n"; }), "model_id", "model_id differ");
  expect_refused(with([](BindingHeader& h, Binding&) { h.revision = "s"; }), "revision", "revision differ");
  expect_refused(with([](BindingHeader& h, Binding&) { h.placement_id = "x"; }), "placement_id", "placement_id differ");
  expect_refused(with([](BindingHeader& h, Binding&) { h.placement_digest = std::string(64, 'a'); }),
                 "placement_digest", "digest differ");
  expect_refused(with([](BindingHeader&, Binding& f) { f.placement_id = "p1"; }), "fragments[0]",
                 "unknown placement fragment");
  expect_refused(with([](BindingHeader&, Binding& f) { f.placement_id = "a"; }), "fragments[0]",
                 "unknown placement fragment");
  expect_refused(with([](BindingHeader&, Binding& f) { f.nbytes = 15; }), "fragments[0].nbytes", "byte size mismatch");
  expect_refused(bind(*placement, *build_binding(binding_header(*placement), {})), "fragments",
                 "missing placement fragment");
}

TEST(Bind, OverlappingAddressesAreRefused) {
  Fragment second;
  second.id = "p1";
  second.offset = {2, 0};
  const auto placement = build_placement({Tensor{}}, {Fragment{}, second});
  Binding other;
  other.placement_id = "p1";
  other.id = "r1";
  expect_refused(bind(*placement, *build_binding(binding_header(*placement), {Binding{}, other})), "fragments[1]",
                 "address ranges overlap");
}

TEST(Fence, AnotherLeaseOrGenerationIsRefused) {
  const auto placement = build_placement({Tensor{}}, {Fragment{}});
  const auto binding = build_binding(binding_header(*placement), {Binding{}});
  EXPECT_TRUE(check_fence(*binding, "lease", 7).ok());
  expect_refused(check_fence(*binding, "other", 7), "lease_id", "lease_id differ");
  expect_refused(check_fence(*binding, "lease", 8), "generation", "generation differ");
  expect_refused(check_fence(*binding, "lease", 6), "generation", "generation differ");
}

TEST(RuntimeColumns, SayTheSameAsRows) {
  const std::string ids = "ab";
  const std::vector<std::uint64_t> ends = {1, 2};
  const std::string names = "worker-0tcp://a:1cuda:0";
  const std::vector<std::uint64_t> name_ends = {8, 17, 23};
  const auto same = [&](const std::vector<std::uint32_t>& codes) { return TextArray{names, name_ends, codes}; };
  const std::vector<std::uint32_t> workers = {0, 0};
  const std::vector<std::uint32_t> endpoints = {1, 1};
  const std::vector<std::uint32_t> devices = {2, 2};
  const std::vector<std::uint32_t> tensor = {0, 0};
  const std::vector<std::int64_t> offsets = {0, 0, 2, 0};
  const std::vector<std::int64_t> shapes = {2, 4, 2, 4};
  const std::vector<std::uint64_t> nbytes = {16, 16};
  const std::vector<std::uint64_t> addresses = {0x1000, 0x2000};
  const std::vector<std::uint64_t> generations = {7, 7};
  const std::string placement_ids = "p";
  const std::vector<std::uint64_t> placement_ends = {0, 1};
  const std::vector<Owner> owners = {nullptr, std::make_shared<int>(1)};
  const PlaceArrays places = {addresses, same(workers), same(endpoints), same(devices)};
  const RuntimeFragmentArrays arrays = {.fragment_id = {ids, ends, {}},
                                        .boxes = {tensor, {offsets, {}, 2, 2}, {shapes, {}, 2, 2}, nbytes, {}, {}},
                                        .places = places,
                                        .lease_generation = generations,
                                        .placement_fragment_id = TextArray{placement_ids, placement_ends, {}},
                                        .owners = owners};
  RuntimeBuilder builder(runtime_header());
  ASSERT_TRUE(builder.add_tensor(Tensor{}.row()).ok());
  const Status added = builder.add_fragments(arrays);
  ASSERT_TRUE(added.ok()) << added.to_string();
  const auto manifest = std::move(builder).build();
  ASSERT_TRUE(manifest.ok()) << manifest.status().to_string();
  Runtime a;
  a.id = "a";
  Runtime b = other_half();
  b.id = "b";
  b.placement_id = "p";
  EXPECT_EQ(*manifest, *build_runtime(runtime_header(), {Tensor{}}, {a, b}));
  EXPECT_EQ(manifest->fragment(1).owner, owners[1]);

  const auto placement = build_placement({Tensor{}}, {Fragment{}});
  BindingBuilder binding(binding_header(*placement));
  ASSERT_TRUE(binding.add_fragments({{ids, ends, {}}, {ids, ends, {}}, places, nbytes, owners}).ok());
  const auto bound = std::move(binding).build();
  ASSERT_TRUE(bound.ok());
  EXPECT_EQ(bound->fragment(1).place.address, 0x2000U);
  EXPECT_EQ(bound->fragment(1).owner, owners[1]);

  RuntimeFragmentArrays bad = arrays;
  bad.places.address = std::span(addresses).first(1);
  RuntimeBuilder other(runtime_header());
  ASSERT_TRUE(other.add_tensor(Tensor{}.row()).ok());
  expect_refused(other.add_fragments(bad), "address", "column has 1 rows, wanted 2");
}

}  // namespace
}  // namespace steelyard::placement
