#include "placement/identity.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "hash/sha256.h"
#include "placement/project.h"
#include "placement/test_samples.h"

namespace steelyard::placement {
namespace {

using samples::build_placement;
using samples::expect_refused;
using samples::Fragment;
using samples::Tensor;

constexpr std::string_view kId = "sha256:4be6b21a77dd50df576261ad8fa9739925efa5b12b6ab601005032a5f50e4e75";

TEST(PlacementIdentity, VectorOfOneFragment) {
  const auto manifest = build_placement({Tensor{}}, {Fragment{}});
  ASSERT_TRUE(manifest.ok()) << manifest.status().to_string();
  EXPECT_EQ(manifest->placement_id(), kId);
  EXPECT_EQ(manifest->digest(), "b129e63182fc69f727976cab4ec843f8ffaeee8f946d26c5a39e1b6781f43bc4");
}

TEST(PlacementIdentity, VectorOfALogicalFragmentId) {
  EXPECT_EQ(logical_fragment_id(Fragment{}.row()),
            "logical:e8728ff64abb831aab937ef5e99ae32ab406cd101c66079f4cbc08832e0bbbf9");
}

TEST(PlacementIdentity, VectorOfTheEmptyPlacement) {
  const auto manifest = build_placement({}, {});
  ASSERT_TRUE(manifest.ok());
  EXPECT_EQ(manifest->placement_id(), "sha256:65e60da33f39b251b1b47dfc71795c890e90c56bbab9c16ff7ab2414dcd15fd1");
}

TEST(PlacementIdentity, TheDocumentsSpeltOut) {
  Tensor tensor;
  tensor.layer_id = 3;
  Fragment fragment;
  fragment.rank = {1, 2, 3, 4};
  fragment.aliases = {"b", "a"};
  const auto manifest = build_placement({tensor}, {fragment});
  ASSERT_TRUE(manifest.ok());
  const std::string head =
      R"({"fragments":[{"aliases":["a","b"],"global_offset":[0,0],"local_shape":[2,4],"nbytes":16,)"
      R"("placement_fragment_id":"p0","rank":{"dp":1,"ep":4,"pp":3,"tp":2},"tensor_id":"w"}],"model_id":"m",)";
  const std::string tail =
      R"("tensors":[{"dtype":"bf16","expert_id":null,"global_shape":[4,4],"itemsize":2,"layer_id":3,)"
      R"("layout_fingerprint":"f","partition_dim":0,"shard_dims":[0],"tensor_id":"w"}]})";
  const std::string id = "sha256:" + hash::sha256_hex(head + R"("revision":"r","schema":"weight-placement",)" + tail);
  EXPECT_EQ(manifest->placement_id(), id);
  EXPECT_EQ(manifest->digest(), hash::sha256_hex(head + R"("placement_id":")" + id + R"(","revision":"r",)" + tail));
  EXPECT_EQ(manifest->layout_digest(), hash::sha256_hex(head + R"("schema":"weight-layout",)" + tail));
  EXPECT_EQ(manifest->to_json(), head + R"("placement_id":")" + id + R"(","revision":"r","schema_version":1,)" + tail);
}

TEST(PlacementIdentity, NothingButTheRevisionIsLeftOutOfTheLayoutDigest) {
  const auto one = [](std::string_view model, std::string_view revision, const Fragment& fragment) {
    PlacementBuilder builder(model, revision);
    EXPECT_TRUE(builder.add_tensor(Tensor{}.row()).ok());
    EXPECT_TRUE(builder.add_fragment(fragment.row()).ok());
    return std::move(builder).build().value();
  };
  Fragment other;
  other.rank.tp = 1;
  const PlacementManifest base = one("m", "r", {});
  EXPECT_EQ(one("m", "later", {}).layout_digest(), base.layout_digest());
  EXPECT_NE(one("m", "later", {}).placement_id(), base.placement_id());
  EXPECT_FALSE(one("m", "later", {}) == base);
  EXPECT_NE(one("n", "r", {}).layout_digest(), base.layout_digest());
  EXPECT_NE(one("m", "r", other).layout_digest(), base.layout_digest());
}

TEST(PlacementIdentity, AGivenIdMustBeTheDerivedOne) {
  EXPECT_TRUE(build_placement({Tensor{}}, {Fragment{}}, kId).ok());
  Fragment other;
  other.rank.tp = 1;
  expect_refused(build_placement({Tensor{}}, {other}, kId), "placement_id",
                 "placement_id does not match canonical logical content");
}

TEST(PlacementIdentity, EquivalentDescriptorsAreTheSamePlacement) {
  Tensor by_shard_dims;
  by_shard_dims.partition_dim.reset();
  by_shard_dims.shard_dims = {0};
  Tensor by_both = by_shard_dims;
  by_both.partition_dim = 0;
  for (const Tensor& tensor : {by_shard_dims, by_both}) {
    const auto manifest = build_placement({tensor}, {Fragment{}});
    ASSERT_TRUE(manifest.ok());
    EXPECT_EQ(manifest->placement_id(), kId);
    EXPECT_EQ(manifest->tensors().partition_dim(0), 0);
  }
}

TEST(PlacementIdentity, TextsAreSpeltInAscii) {
  Fragment fragment;
  fragment.id = std::string("\"\\/\b\f\n\r\t\x01\x7F \xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80") + std::string(1, '\0');
  const auto manifest = build_placement({Tensor{}}, {fragment});
  ASSERT_TRUE(manifest.ok()) << manifest.status().to_string();
  EXPECT_THAT(manifest->to_json(),
              ::testing::HasSubstr(
                  R"("placement_fragment_id":"\"\\/\b\f\n\r\t\u0001\u007f \u00e9 \u20ac \ud83d\ude00\u0000")"));
}

TEST(PlacementIdentity, SortsByCodePointNotByUtf16) {
  // U+FFFD before U+10000, although its first UTF-16 unit is larger.
  std::vector<Tensor> tensors(2);
  tensors[0].id = "\xF0\x90\x80\x80";
  tensors[1].id = "\xEF\xBF\xBD";
  const auto manifest = build_placement(tensors, {});
  ASSERT_TRUE(manifest.ok());
  EXPECT_EQ(manifest->tensors().tensor_id(0), "\xEF\xBF\xBD");
}

// More rows than a buffer of the digest holds, so that pieces meet.
TEST(PlacementIdentity, LongDocumentsAreDigestedWhole) {
  std::vector<Tensor> tensors;
  std::vector<Fragment> fragments;
  for (int i = 0; i < 3000; ++i) {
    Tensor tensor;
    tensor.id = "tensor-" + std::to_string(i) + std::string(40, 'x');
    Fragment fragment;
    fragment.tensor = tensor.id;
    fragment.id = "fragment-" + std::to_string(i) + std::string(40, 'y');
    tensors.push_back(tensor);
    fragments.push_back(fragment);
  }
  const auto manifest = build_placement(tensors, fragments);
  ASSERT_TRUE(manifest.ok());
  std::string text = manifest->to_json();
  ASSERT_GT(text.size(), 3 * 256 * 1024U);
  const auto cut = [&](std::string_view piece, std::string_view replacement) {
    const std::size_t at = text.find(piece);
    ASSERT_NE(at, std::string::npos);
    text.replace(at, piece.size(), replacement);
  };
  cut(R"("schema_version":1,)", "");
  EXPECT_EQ(hash::sha256_hex(text), manifest->digest());
  cut(R"("placement_id":")" + manifest->placement_id() + R"(",)", "");
  std::string layout = text;
  cut(R"("revision":"r",)", R"("revision":"r","schema":"weight-placement",)");
  EXPECT_EQ("sha256:" + hash::sha256_hex(text), manifest->placement_id());
  text = layout;
  cut(R"("revision":"r",)", R"("schema":"weight-layout",)");
  EXPECT_EQ(hash::sha256_hex(text), manifest->layout_digest());
}

}  // namespace
}  // namespace steelyard::placement
