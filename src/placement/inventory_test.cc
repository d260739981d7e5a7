#include "placement/inventory.h"

#include <gtest/gtest.h>

#include "placement/test_samples.h"

namespace steelyard::placement {
namespace {

using samples::Binding;
using samples::binding_header;
using samples::build_placement;
using samples::expect_refused;
using samples::Fragment;
using samples::Runtime;
using samples::runtime_header;
using samples::Tensor;

AllocationFacts whole_allocation() {
  static const std::vector<std::int64_t> stride = {4, 1};
  AllocationFacts facts;
  facts.is_contiguous = true;
  facts.stride = stride;
  return facts;
}

template <typename Change>
Status add_runtime(const Change& change) {
  Tensor tensor;
  Runtime fragment;
  AllocationFacts facts = whole_allocation();
  change(tensor, fragment, facts);
  RuntimeInventory inventory(runtime_header());
  return inventory.add(tensor.row(), fragment.row(), facts);
}

TEST(PlacementInventory, RecordsBecomeAPlacement) {
  Fragment half;
  half.id = "p1";
  half.offset = {2, 0};
  Tensor same;
  same.partition_dim.reset();
  same.shard_dims = {0};
  PlacementInventory inventory("m", "r");
  ASSERT_TRUE(inventory.add(same.row(), half.row()).ok());
  ASSERT_TRUE(inventory.add(Tensor{}.row(), Fragment{}.row()).ok());
  const auto manifest = std::move(inventory).build();
  ASSERT_TRUE(manifest.ok()) << manifest.status().to_string();
  EXPECT_EQ(*manifest, *build_placement({Tensor{}}, {Fragment{}, half}));
}

TEST(PlacementInventory, RecordsOfOneTensorAgree) {
  Tensor other;
  other.dtype = "f16";
  Fragment half;
  half.id = "p1";
  half.offset = {2, 0};
  PlacementInventory inventory("m", "r");
  ASSERT_TRUE(inventory.add(Tensor{}.row(), Fragment{}.row()).ok());
  expect_refused(inventory.add(other.row(), half.row()), "tensors[1]", "placement descriptor mismatch");
}

TEST(PlacementInventory, PathsNameTheRecord) {
  Tensor bad;
  bad.itemsize = 0;
  Fragment beyond;
  beyond.id = "p1";
  beyond.offset = {3, 0};
  PlacementInventory inventory("m", "r");
  expect_refused(inventory.add(bad.row(), Fragment{}.row()), "tensors[0].itemsize", "itemsize must be at least 1");
  expect_refused(inventory.add(Tensor{}.row(), beyond.row()), "tensors[1].local_shape[0]", "out of bounds");
}

TEST(RuntimeInventory, RecordsBecomeAManifest) {
  RuntimeInventory inventory(runtime_header());
  ASSERT_TRUE(inventory.add(Tensor{}.row(), Runtime{}.row(), whole_allocation()).ok());
  const auto manifest = std::move(inventory).build();
  ASSERT_TRUE(manifest.ok()) << manifest.status().to_string();
  EXPECT_EQ(*manifest, *samples::build_runtime(runtime_header(), {Tensor{}}, {Runtime{}}));
}

TEST(RuntimeInventory, NeedsAGeneration) {
  RuntimeHeader header = runtime_header();
  header.generation.reset();
  RuntimeInventory inventory(header);
  expect_refused(inventory.add(Tensor{}.row(), Runtime{}.row(), whole_allocation()), "generation",
                 "missing required field: generation");
  expect_refused(RuntimeInventory(header).build(), "generation", "missing required field: generation");
}

TEST(RuntimeInventory, RecordsOfOneTensorAgree) {
  Tensor other;
  other.layer_id = 1;
  Runtime half;
  half.id = "r1";
  half.box.offset = {2, 0};
  RuntimeInventory inventory(runtime_header());
  ASSERT_TRUE(inventory.add(Tensor{}.row(), Runtime{}.row(), whole_allocation()).ok());
  expect_refused(inventory.add(other.row(), half.row(), whole_allocation()), "tensors[1]",
                 "placement descriptor mismatch");
}

TEST(RuntimeInventory, ScatteredMemoryIsRefused) {
  expect_refused(add_runtime([](Tensor&, Runtime&, AllocationFacts& f) { f.is_contiguous = false; }),
                 "tensors[0].is_contiguous", "must be contiguous");
}

TEST(RuntimeInventory, OtherStridesAreRefused) {
  for (const std::vector<std::int64_t>& stride :
       {std::vector<std::int64_t>{1, 2}, {8, 1}, {4, 2}, {8, 2}, {4}, {}, {4, 4, 1}, {-4, 1}}) {
    expect_refused(add_runtime([&](Tensor&, Runtime&, AllocationFacts& f) { f.stride = stride; }), "tensors[0].stride",
                   "must use canonical stride");
  }
}

TEST(RuntimeInventory, StridesOfOneElementDoNotCount) {
  const std::vector<std::int64_t> stride = {999, 1};
  EXPECT_TRUE(add_runtime([&](Tensor&, Runtime& r, AllocationFacts& f) {
                r.box.shape = {1, 4};
                r.box.nbytes = 8;
                f.stride = stride;
              }).ok());
}

TEST(RuntimeInventory, OffsetsNeedAddressesOfViews) {
  const auto with = [](std::int64_t storage, std::int64_t bytes, std::optional<std::string_view> semantics) {
    return add_runtime([&](Tensor&, Runtime&, AllocationFacts& f) {
      f.storage_offset = storage;
      f.byte_offset = bytes;
      f.address_semantics = semantics;
    });
  };
  EXPECT_TRUE(with(0, 0, std::nullopt).ok());
  EXPECT_TRUE(with(0, 0, "view").ok());
  EXPECT_TRUE(with(3, 6, "view").ok());
  expect_refused(with(1, 0, std::nullopt), "tensors[0].address_semantics", "address_semantics must be 'view'");
  expect_refused(with(0, 2, std::nullopt), "tensors[0].address_semantics", "address_semantics must be 'view'");
  expect_refused(with(0, 0, "base"), "tensors[0].address_semantics", "address_semantics must be 'view'");
  expect_refused(with(0, 0, ""), "tensors[0].address_semantics", "address_semantics must be 'view'");
  expect_refused(with(-1, 0, "view"), "tensors[0].storage_offset", "storage_offset must be at least 0");
  expect_refused(with(0, -2, "view"), "tensors[0].byte_offset", "byte_offset must be at least 0");
  expect_refused(with(0, 3, "view"), "tensors[0].byte_offset", "item-aligned");
}

TEST(RuntimeInventory, AnotherLeaseGenerationIsRefused) {
  expect_refused(add_runtime([](Tensor&, Runtime& r, AllocationFacts&) { r.lease_generation = 8; }),
                 "tensors[0].lease_generation", "lease generation mismatch");
}

TEST(RuntimeInventory, OffsetsAreNeverAddedToTheAddress) {
  RuntimeInventory inventory(runtime_header());
  AllocationFacts facts = whole_allocation();
  facts.storage_offset = 8;
  facts.byte_offset = 16;
  facts.address_semantics = "view";
  ASSERT_TRUE(inventory.add(Tensor{}.row(), Runtime{}.row(), facts).ok());
  EXPECT_EQ(std::move(inventory).build()->fragment(0).place.address, 0x1000U);
}

TEST(BindingInventory, FactsAreChecked) {
  const auto placement = build_placement({Tensor{}}, {Fragment{}});
  const auto with = [&](const auto& change) {
    AllocationFacts facts;
    facts.is_contiguous = true;
    change(facts);
    BindingInventory inventory(binding_header(*placement));
    return inventory.add(Binding{}.row(), facts);
  };
  EXPECT_TRUE(with([](AllocationFacts&) {}).ok());
  EXPECT_TRUE(with([](AllocationFacts& f) { f.lease_generation = 7; }).ok());
  expect_refused(with([](AllocationFacts& f) { f.lease_generation = 8; }), "fragments[0].lease_generation",
                 "lease generation mismatch");
  expect_refused(with([](AllocationFacts& f) { f.is_contiguous = false; }), "fragments[0].is_contiguous",
                 "must be contiguous");
  expect_refused(with([](AllocationFacts& f) { f.byte_offset = 1; }), "fragments[0].address_semantics",
                 "address_semantics must be 'view'");
}

TEST(AllocationColumns, NameTheRowThatIsWrong) {
  const std::vector<std::uint32_t> tensor = {0, 0};
  const std::vector<std::int64_t> offsets = {0, 0, 2, 0};
  const std::vector<std::int64_t> shapes = {2, 4, 2, 4};
  const std::vector<std::uint64_t> nbytes = {16, 16};
  const BoxArrays boxes = {tensor, {offsets, {}, 2, 2}, {shapes, {}, 2, 2}, nbytes, {}, {}};
  const std::vector<std::int64_t> itemsizes = {2};
  const std::vector<std::uint8_t> contiguous = {1, 1};
  const std::vector<std::int64_t> strides = {4, 1, 4, 1};
  const std::vector<std::int64_t> zero = {0, 0};
  const AllocationArrays good = {contiguous, ListArray{strides, {}, 2, 2}, zero, zero, false};
  EXPECT_TRUE(check_allocations(good, boxes, itemsizes).ok());
  AllocationArrays bad = good;
  const std::vector<std::uint8_t> scattered = {1, 0};
  bad.is_contiguous = scattered;
  expect_refused(check_allocations(bad, boxes, itemsizes), "fragments[1].is_contiguous", "must be contiguous");
  bad = good;
  const std::vector<std::int64_t> odd = {0, 3};
  bad.byte_offset = odd;
  bad.view_addresses = true;
  expect_refused(check_allocations(bad, boxes, itemsizes), "fragments[1].byte_offset", "item-aligned");
  bad = good;
  bad.storage_offset = std::span(zero).first(1);
  expect_refused(check_allocations(bad, boxes, itemsizes), "storage_offset", "column has 1 rows, wanted 2");
}

}  // namespace
}  // namespace steelyard::placement
