// What is refused of one row alone, and at which path.
#include <gtest/gtest.h>

#include "placement/test_samples.h"
#include "placement/validate.h"

namespace steelyard::placement {
namespace {

using samples::Binding;
using samples::expect_refused;
using samples::Fragment;
using samples::Place;
using samples::Runtime;
using samples::Tensor;

constexpr std::int64_t kMax = INT64_MAX;

template <typename Change>
Status tensor_with(const Change& change) {
  Tensor tensor;
  change(tensor);
  const TensorDescriptorRow row = tensor.row();
  return check_tensor(row, Path());
}
template <typename Change>
Status fragment_with(const Change& change) {
  Fragment fragment;
  change(fragment);
  return check_fragment(fragment.row(), Path());
}
template <typename Change>
Status runtime_with(const Change& change) {
  Runtime fragment;
  change(fragment);
  return check_fragment(fragment.row(), Path());
}

TEST(TensorRow, TheSampleIsGood) { EXPECT_TRUE(check_tensor(Tensor{}.row(), Path()).ok()); }

TEST(TensorRow, EmptyTextsAreRefused) {
  expect_refused(tensor_with([](Tensor& t) { t.id = ""; }), "tensor_id", "tensor_id must be a non-empty string");
  expect_refused(tensor_with([](Tensor& t) { t.dtype = ""; }), "dtype", "dtype must be a non-empty string");
  expect_refused(tensor_with([](Tensor& t) { t.fingerprint = ""; }), "layout_fingerprint",
                 "layout_fingerprint must be a non-empty string");
}

TEST(TensorRow, TextsThatAreNoUnicodeAreRefused) {
  expect_refused(tensor_with([](Tensor& t) { t.id = "a\xED\xA0\x80"; }), "tensor_id", "must be valid Unicode");
  expect_refused(tensor_with([](Tensor& t) { t.dtype = "\xFF"; }), "dtype", "must be valid Unicode");
}

TEST(TensorRow, AnEmptyShapeIsRefused) {
  expect_refused(tensor_with([](Tensor& t) { t.shape = {}, t.partition_dim.reset(); }), "global_shape",
                 "global_shape must not be empty");
}

TEST(TensorRow, ExtentsBelowOneAreRefused) {
  expect_refused(tensor_with([](Tensor& t) {
                   t.shape = {4, 0};
                 }),
                 "global_shape[1]", "global_shape must be at least 1");
  expect_refused(tensor_with([](Tensor& t) {
                   t.shape = {-1, 4};
                 }),
                 "global_shape[0]", "global_shape must be at least 1");
}

TEST(TensorRow, AnItemsizeBelowOneIsRefused) {
  expect_refused(tensor_with([](Tensor& t) { t.itemsize = 0; }), "itemsize", "itemsize must be at least 1");
}

TEST(TensorRow, BytesEndAt63Bits) {
  EXPECT_TRUE(tensor_with([](Tensor& t) { t.shape = {kMax}, t.itemsize = 1; }).ok());
  EXPECT_TRUE(tensor_with([](Tensor& t) { t.shape = {1, 1}, t.itemsize = kMax; }).ok());
  expect_refused(tensor_with([](Tensor& t) { t.shape = {kMax}, t.itemsize = 2; }), "global_shape", "fit in 63 bits");
  expect_refused(tensor_with([](Tensor& t) {
                   t.shape = {std::int64_t{1} << 32, std::int64_t{1} << 31};
                 }),
                 "global_shape", "fit in 63 bits");
}

TEST(TensorRow, PartitionDimOutOfRangeIsRefused) {
  for (const std::int64_t dim : {std::int64_t{2}, std::int64_t{-1}, kMax}) {
    expect_refused(tensor_with([&](Tensor& t) { t.partition_dim = dim; }), "partition_dim",
                   "partition_dim is out of range");
  }
}

TEST(TensorRow, BadShardDimsAreRefused) {
  const auto with = [](std::vector<std::int64_t> dims) {
    return tensor_with([&](Tensor& t) { t.partition_dim.reset(), t.shard_dims = dims; });
  };
  EXPECT_TRUE(with({}).ok());
  EXPECT_TRUE(with({0, 1}).ok());
  expect_refused(with({1, 0}), "shard_dims", "shard_dims must be sorted");
  expect_refused(with({1, 1}), "shard_dims", "shard_dims must not contain duplicates");
  expect_refused(with({0, 2}), "shard_dims", "out-of-range dimension");
  expect_refused(with({-1}), "shard_dims", "out-of-range dimension");
}

TEST(TensorRow, PartitionDimAndShardDimsMustAgree) {
  for (const std::vector<std::int64_t>& dims : {std::vector<std::int64_t>{}, {1}, {0, 1}}) {
    expect_refused(tensor_with([&](Tensor& t) { t.shard_dims = dims; }), "partition_dim",
                   "partition_dim conflicts with shard_dims");
  }
  EXPECT_TRUE(tensor_with([](Tensor& t) { t.shard_dims = {0}; }).ok());
}

TEST(TensorRow, NegativeLayersAndExpertsAreRefused) {
  EXPECT_TRUE(tensor_with([](Tensor& t) { t.layer_id = 0, t.expert_id = kMax; }).ok());
  expect_refused(tensor_with([](Tensor& t) { t.layer_id = -1; }), "layer_id", "layer_id must be at least 0");
  expect_refused(tensor_with([](Tensor& t) { t.expert_id = -1; }), "expert_id", "expert_id must be at least 0");
}

TEST(FragmentRow, EmptyTextsAreRefused) {
  expect_refused(fragment_with([](Fragment& f) { f.id = ""; }), "placement_fragment_id",
                 "placement_fragment_id must be a non-empty string");
  expect_refused(fragment_with([](Fragment& f) { f.tensor = ""; }), "tensor_id",
                 "tensor_id must be a non-empty string");
  expect_refused(fragment_with([](Fragment& f) {
                   f.aliases = {"a", ""};
                 }),
                 "aliases[1]", "aliases must be a non-empty string");
}

TEST(FragmentRow, RepeatedAliasesAreRefused) {
  expect_refused(fragment_with([](Fragment& f) {
                   f.aliases = {"b", "a", "b"};
                 }),
                 "aliases", "aliases must not contain duplicates");
}

TEST(FragmentRow, NumbersBelowTheirMinimumAreRefused) {
  expect_refused(fragment_with([](Fragment& f) {
                   f.offset = {0, -1};
                 }),
                 "global_offset[1]", "global_offset must be at least 0");
  expect_refused(fragment_with([](Fragment& f) {
                   f.shape = {0, 4};
                 }),
                 "local_shape[0]", "local_shape must be at least 1");
  expect_refused(fragment_with([](Fragment& f) { f.nbytes = 0; }), "nbytes", "nbytes must be at least 1");
  expect_refused(fragment_with([](Fragment& f) { f.rank.dp = -1; }), "rank.dp", "dp must be at least 0");
  expect_refused(fragment_with([](Fragment& f) { f.rank.tp = -1; }), "rank.tp", "tp must be at least 0");
  expect_refused(fragment_with([](Fragment& f) { f.rank.pp = -1; }), "rank.pp", "pp must be at least 0");
  expect_refused(fragment_with([](Fragment& f) { f.rank.ep = -1; }), "rank.ep", "ep must be at least 0");
}

TEST(FragmentRow, BoxesEndAt63Bits) {
  EXPECT_TRUE(fragment_with([](Fragment& f) { f.offset = {kMax - 1, 0}, f.shape = {1, kMax}; }).ok());
  expect_refused(fragment_with([](Fragment& f) {
                   f.offset = {kMax, 0}, f.shape = {1, 1};
                 }),
                 "local_shape[0]", "fit in 63 bits");
  expect_refused(fragment_with([](Fragment& f) { f.shape = {kMax, 2}; }), "local_shape", "must fit in 63 bits");
}

TEST(RuntimeRow, TheSampleIsGood) { EXPECT_TRUE(check_fragment(Runtime{}.row(), Path()).ok()); }

TEST(RuntimeRow, TheNullAddressIsRefused) {
  expect_refused(runtime_with([](Runtime& f) { f.place.address = 0; }), "address", "address must be at least 1");
}

TEST(RuntimeRow, AddressRangesEndAt64Bits) {
  EXPECT_TRUE(runtime_with([](Runtime& f) { f.place.address = UINT64_MAX - 16; }).ok());
  expect_refused(runtime_with([](Runtime& f) { f.place.address = UINT64_MAX - 15; }), "",
                 "address range must fit in an unsigned 64-bit integer");
}

TEST(RuntimeRow, EmptyTextsAreRefused) {
  expect_refused(runtime_with([](Runtime& f) { f.id = ""; }), "fragment_id", "fragment_id must be a non-empty string");
  expect_refused(runtime_with([](Runtime& f) { f.place.worker = ""; }), "worker_id",
                 "worker_id must be a non-empty string");
  expect_refused(runtime_with([](Runtime& f) { f.place.endpoint = ""; }), "endpoint",
                 "endpoint must be a non-empty string");
  expect_refused(runtime_with([](Runtime& f) { f.place.device = ""; }), "device", "device must be a non-empty string");
  expect_refused(runtime_with([](Runtime& f) { f.placement_id = ""; }), "placement_fragment_id",
                 "placement_fragment_id must be a non-empty string");
}

TEST(BindingRow, WhatIsWrongIsRefused) {
  const auto with = [](const auto& change) {
    Binding fragment;
    change(fragment);
    return check_fragment(fragment.row(), Path());
  };
  EXPECT_TRUE(with([](Binding&) {}).ok());
  expect_refused(with([](Binding& f) { f.placement_id = ""; }), "placement_fragment_id", "must be a non-empty string");
  expect_refused(with([](Binding& f) { f.id = ""; }), "fragment_id", "must be a non-empty string");
  expect_refused(with([](Binding& f) { f.nbytes = 0; }), "nbytes", "nbytes must be at least 1");
  expect_refused(with([](Binding& f) { f.place.address = 0; }), "address", "address must be at least 1");
  expect_refused(with([](Binding& f) { f.nbytes = UINT64_MAX; }), "", "address range must fit");
}

TEST(Digest, OnlyLowerCaseHexOf64Digits) {
  EXPECT_TRUE(check_digest(std::string(64, 'a'), Path("placement_digest")).ok());
  for (const std::string& bad : {std::string(63, 'a'), std::string(65, 'a'), std::string(64, 'A'), std::string(64, 'g'),
                                 "sha256:" + std::string(57, 'a')}) {
    expect_refused(check_digest(bad, Path("placement_digest")), "placement_digest",
                   "placement_digest must be a lowercase SHA-256 digest");
  }
}

TEST(Paths, AreSpeltFromTheOutsideIn) {
  const Path fragments("fragments");
  const Path fragment(&fragments, 17);
  const Path shape(&fragment, "local_shape");
  const Path second(&shape, 1);
  EXPECT_EQ(second.text(), "fragments[17].local_shape[1]");
  EXPECT_EQ(second.name(), "local_shape");
  EXPECT_EQ(Path().text(), "");
  const Path root;
  EXPECT_EQ(Path(&root, "model_id").text(), "model_id");
}

TEST(Messages, LongAndUnprintableTextsAreShownShort) {
  expect_refused(check_text(std::string(1000, 'x') + "\xFF", Path("tensor_id")), "tensor_id", "...\" (1001 bytes)");
  EXPECT_EQ(shown(std::string_view("a\nb")).find('\n'), std::string::npos);
}

TEST(Descriptors, CanonicalFormAndEquality) {
  Tensor a;
  Tensor b;
  b.partition_dim.reset();
  b.shard_dims = {0};
  EXPECT_TRUE(same_descriptor(a.row(), b.row()));
  b.id = "v";
  EXPECT_FALSE(same_descriptor(a.row(), b.row()));
  EXPECT_TRUE(same_but_for_id(a.row(), b.row()));
  const auto differs = [](const auto& change) {
    const Tensor base;
    Tensor other;
    change(other);
    return !same_descriptor(base.row(), other.row());
  };
  EXPECT_TRUE(differs([](Tensor& t) { t.shape = {4, 5}; }));
  EXPECT_TRUE(differs([](Tensor& t) { t.dtype = "f16"; }));
  EXPECT_TRUE(differs([](Tensor& t) { t.itemsize = 4; }));
  EXPECT_TRUE(differs([](Tensor& t) { t.partition_dim = 1; }));
  EXPECT_TRUE(differs([](Tensor& t) { t.fingerprint = "g"; }));
  EXPECT_TRUE(differs([](Tensor& t) { t.layer_id = 0; }));
  EXPECT_TRUE(differs([](Tensor& t) { t.expert_id = 0; }));
  Tensor two;
  two.partition_dim.reset();
  two.shard_dims = {0, 1};
  const TensorDescriptorRow row = two.row();
  EXPECT_EQ(canonical(row).partition_dim, std::nullopt);
}

}  // namespace
}  // namespace steelyard::placement
