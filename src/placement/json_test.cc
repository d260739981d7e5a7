#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "placement/test_samples.h"

namespace steelyard::placement {
namespace {

using samples::build_placement;
using samples::expect_refused;
using samples::Fragment;
using samples::Tensor;

std::string good() {
  Tensor tensor;
  tensor.layer_id = 3;
  Fragment fragment;
  fragment.aliases = {"a", "b"};
  return build_placement({tensor}, {fragment})->to_json();
}

/// The good text with one piece replaced.
std::string with(std::string_view piece, std::string_view replacement) {
  std::string text = good();
  const std::size_t at = text.find(piece);
  EXPECT_NE(at, std::string::npos) << piece;
  return text.replace(at, piece.size(), replacement);
}

auto read(std::string_view text) { return PlacementManifest::from_json(text); }

TEST(PlacementJson, ReadsWhatItWrites) {
  const auto manifest = read(good());
  ASSERT_TRUE(manifest.ok()) << manifest.status().to_string();
  EXPECT_EQ(manifest->to_json(), good());
  const auto empty = build_placement({}, {});
  EXPECT_EQ(*read(empty->to_json()), *empty);
}

TEST(PlacementJson, TakesOtherSpellingsOfTheSame) {
  EXPECT_TRUE(read(with(R"("model_id":"m")", "\n \"model_id\" :\t\"\\u006D\"\r\n")).ok());
  EXPECT_TRUE(read(with(R"("schema_version":1,)", "")).ok());
  EXPECT_TRUE(read(with(R"("shard_dims":[0])", R"("shard_dims":null)")).ok());
  EXPECT_TRUE(read(with(R"("partition_dim":0)", R"("partition_dim":null)")).ok());
  EXPECT_TRUE(read(with("[0,0]", "[-0,0]")).ok());
  EXPECT_TRUE(read(with(R"(["a","b"])", R"(["b","\u0061"])")).ok());
  // Other order of fields.
  const std::string text = with(R"("tp":0})", R"("tp":0})");
  std::string moved = text;
  const std::string model = R"("model_id":"m",)";
  moved.erase(moved.find(model), model.size());
  moved.insert(1, model);
  EXPECT_EQ(read(moved)->to_json(), good());
}

TEST(PlacementJson, OtherVersionsAreRefused) {
  for (const std::string_view version : {"2", "0", "18446744073709551615"}) {
    expect_refused(read(with(R"("schema_version":1)", std::string(R"("schema_version":)").append(version))),
                   "schema_version", "");
  }
  expect_refused(read(with(R"("schema_version":1)", R"("schema_version":2)")), "schema_version",
                 "unsupported schema_version 2, wanted 1");
  for (const std::string_view version : {"true", "1.0", "null", "\"1\""}) {
    expect_refused(read(with(R"("schema_version":1)", std::string(R"("schema_version":)").append(version))),
                   "schema_version", "schema_version must be an integer");
  }
}

TEST(PlacementJson, ALaterVersionIsCalledSoWhateverElseItHas) {
  expect_refused(read(R"({"fragments":[{"new":1}],"schema_version":7,"more":{}})"), "schema_version",
                 "unsupported schema_version 7");
}

TEST(PlacementJson, UnknownFieldsAreRefused) {
  expect_refused(read(with(R"("model_id":"m")", R"("model_id":"m","x":[{}])")), "",
                 "schema fields do not match contract: unknown field \"x\"");
  expect_refused(read(with(R"("dtype":"bf16")", R"("dtype":"bf16","x":1)")), "tensors[0]",
                 "schema fields do not match contract");
  expect_refused(read(with(R"("nbytes":16)", R"("nbytes":16,"x":1)")), "fragments[0]",
                 "schema fields do not match contract");
  expect_refused(read(with(R"("dp":0)", R"("dp":0,"x":1)")), "fragments[0].rank",
                 "schema fields do not match contract");
}

TEST(PlacementJson, EveryMissingFieldIsRefused) {
  for (const std::string_view field :
       {R"("model_id":"m",)", R"("revision":"r",)", R"("dtype":"bf16",)", R"("expert_id":null,)", R"("itemsize":2,)",
        R"("global_shape":[4,4],)", R"("layer_id":3,)", R"("layout_fingerprint":"f",)", R"("partition_dim":0,)",
        R"("shard_dims":[0],)", R"("aliases":["a","b"],)", R"("global_offset":[0,0],)", R"("local_shape":[2,4],)",
        R"("nbytes":16,)", R"("placement_fragment_id":"p0",)", R"("dp":0,)", R"("ep":0,)", R"("pp":0,)"}) {
    expect_refused(read(with(field, "")), "", "schema fields do not match contract: missing field");
  }
  for (const std::string_view field : {R"(,"tensor_id":"w")", R"(,"tp":0)"}) {
    expect_refused(read(with(field, "")), "", "schema fields do not match contract: missing field");
  }
  expect_refused(read("{}"), "", "schema fields do not match contract: missing field \"fragments\"");
  expect_refused(read(R"({"fragments":[],"model_id":"m","placement_id":"x","revision":"r"})"), "",
                 "missing field \"tensors\"");
  expect_refused(read(R"({"fragments":[],"model_id":"m","tensors":[],"revision":"r"})"), "",
                 "missing field \"placement_id\"");
}

TEST(PlacementJson, RepeatedFieldsAreRefused) {
  expect_refused(read(with(R"("model_id":"m")", R"("model_id":"m","model_id":"m")")), "", "duplicate JSON field");
  expect_refused(read(with(R"("dtype":"bf16")", R"("dtype":"bf16","d\u0074ype":"bf16")")), "tensors[0]",
                 "duplicate JSON field");
  expect_refused(read(with(R"("nbytes":16)", R"("nbytes":16,"nbytes":16)")), "fragments[0]", "duplicate JSON field");
  expect_refused(read(with(R"("dp":0)", R"("dp":0,"dp":0)")), "fragments[0].rank", "duplicate JSON field");
  expect_refused(read(with(R"("model_id":"m")", R"("model_id":"m","x":1,"x":1)")), "", "duplicate JSON field");
}

TEST(PlacementJson, NonFiniteNumbersAreRefused) {
  for (const std::string_view word : {"NaN", "Infinity", "-Infinity"}) {
    expect_refused(read(with(R"("nbytes":16)", std::string(R"("nbytes":)").append(word))), "", "non-finite");
    expect_refused(read(with(R"("model_id":"m")", std::string(R"("model_id":)").append(word))), "", "non-finite");
    expect_refused(read(with("[0,0]", "[0," + std::string(word) + "]")), "", "non-finite");
    expect_refused(read(with(R"("layer_id":3)", std::string(R"("layer_id":)").append(word))), "", "non-finite");
    expect_refused(read(with(R"("model_id":"m")", R"("model_id":"m","x":[{"y":)" + std::string(word) + "}]")), "",
                   "non-finite");
    expect_refused(read(word), "", "non-finite");
  }
}

TEST(PlacementJson, OnlyAnObjectIsADocument) {
  for (const std::string_view text : {"[]", "null", "1", "\"text\"", "true"}) {
    expect_refused(read(text), "", "placement JSON must be an object");
  }
  for (const std::string_view text : {"", " ", "{", "nul", "{} {}", "{\"a\"}", "{,}"}) {
    ASSERT_FALSE(read(text).ok()) << text;
    EXPECT_EQ(read(text).code(), Code::kInvalidArgument);
  }
}

TEST(PlacementJson, WrongContainersAreRefused) {
  expect_refused(read(with(R"("tensors":[)", R"("tensors":{},"x":[)")), "tensors",
                 "PlacementManifest tensors must be a sequence");
  expect_refused(read(R"({"fragments":"abc"})"), "fragments", "PlacementManifest fragments must be a sequence");
  expect_refused(read(R"({"fragments":[[]]})"), "fragments[0]",
                 "PlacementManifest fragments must contain PlacementFragment");
  expect_refused(read(R"({"tensors":[7]})"), "tensors[0]", "PlacementManifest tensors must contain TensorDescriptor");
  expect_refused(read(with(R"("global_shape":[4,4])", R"("global_shape":"44")")), "tensors[0].global_shape",
                 "global_shape must contain integers");
  expect_refused(read(with(R"("global_offset":[0,0])", R"("global_offset":{})")), "fragments[0].global_offset",
                 "global_offset must contain integers");
  expect_refused(read(with(R"(["a","b"])", R"("ab")")), "fragments[0].aliases", "aliases must be a sequence");
  expect_refused(read(with(R"(["a","b"])", R"(["a",1])")), "fragments[0].aliases[1]",
                 "aliases must be a non-empty string");
  expect_refused(read(with(R"({"dp":0,"ep":0,"pp":0,"tp":0})", "[0,0,0,0]")), "fragments[0].rank", "ParallelRank");
}

TEST(PlacementJson, WrongScalarsAreRefused) {
  expect_refused(read(with(R"("model_id":"m")", R"("model_id":null)")), "model_id",
                 "model_id must be a non-empty string");
  expect_refused(read(with(R"("model_id":"m")", R"("model_id":"")")), "model_id",
                 "model_id must be a non-empty string");
  expect_refused(read(with(R"("itemsize":2)", R"("itemsize":2.0)")), "tensors[0].itemsize",
                 "itemsize must be an integer");
  expect_refused(read(with(R"("itemsize":2)", R"("itemsize":2e0)")), "tensors[0].itemsize",
                 "itemsize must be an integer");
  expect_refused(read(with(R"("itemsize":2)", R"("itemsize":true)")), "tensors[0].itemsize",
                 "itemsize must be an integer");
  expect_refused(read(with("[2,4]", "[2,null]")), "fragments[0].local_shape[1]", "local_shape must be an integer");
  expect_refused(read(with("[2,4]", "[2,-4]")), "fragments[0].local_shape[1]", "local_shape must be at least 1");
  expect_refused(read(with(R"("nbytes":16)", R"("nbytes":-16)")), "fragments[0].nbytes", "nbytes must be at least 1");
}

TEST(PlacementJson, NumbersBeyondTheirBitsAreRefused) {
  expect_refused(read(with("[4,4]", "[9223372036854775808,4]")), "tensors[0].global_shape[0]", "must fit in 63 bits");
  expect_refused(read(with("[4,4]", "[-9223372036854775808,4]")), "tensors[0].global_shape[0]", "63 bits");
  expect_refused(read(with("[4,4]", "[9223372036854775807,4]")), "tensors[0].global_shape", "fit in 63 bits");
  expect_refused(read(with(R"("nbytes":16)", R"("nbytes":18446744073709551616)")), "fragments[0].nbytes",
                 "nbytes must fit in an unsigned 64-bit integer");
  expect_refused(read(with(R"("nbytes":16)", R"("nbytes":18446744073709551615)")), "fragments[0].nbytes",
                 "byte size mismatch");
  expect_refused(read(with(R"("layer_id":3)", R"("layer_id":)" + std::string(400, '9'))), "tensors[0].layer_id",
                 "must fit in 63 bits");
}

TEST(PlacementJson, LoneSurrogatesAndBadUnicodeAreRefused) {
  expect_refused(read(with(R"("p0")", R"("p\ud800")")), "", "surrogate");
  expect_refused(read(with(R"("p0")", R"("\udc00")")), "", "surrogate");
  expect_refused(read(with(R"("p0")", "\"\xFF\"")), "", "UTF-8");
}

TEST(PlacementJson, AlteredContentNoLongerHasItsId) {
  for (const auto& [from, to] : {std::pair(R"("bf16")", R"("f16")"), std::pair(R"("tp":0)", R"("tp":1)"),
                                 std::pair(R"("layer_id":3)", R"("layer_id":4)"), std::pair(R"("p0")", R"("p1")"),
                                 std::pair(R"("revision":"r")", R"("revision":"s")")}) {
    expect_refused(read(with(from, to)), "placement_id", "placement_id does not match canonical logical content");
  }
}

TEST(PlacementJson, RulesOfTheManifestHold) {
  expect_refused(read(with(R"("global_offset":[0,0])", R"("global_offset":[3,0])")), "fragments[0].local_shape[0]",
                 "out of bounds");
  expect_refused(read(with(R"("tensor_id":"w")", R"("tensor_id":"v")")), "fragments[0].tensor_id", "unknown tensor");
}

TEST(PlacementJson, DeepTextIsRefusedWithoutHarm) {
  const std::string deep = R"({"x":)" + std::string(100'000, '[') + std::string(100'000, ']') + "}";
  expect_refused(read(deep), "", "levels");
}

// Any text with one byte changed: a value that writes itself again, or an error.
RC_GTEST_PROP(PlacementJsonProperty, OneWrongByteNeverHarms, ()) {
  std::string text = good();
  text[*rc::gen::inRange<std::size_t>(0, text.size())] = *rc::gen::arbitrary<char>();
  const auto manifest = read(text);
  if (!manifest.ok()) {
    RC_ASSERT(manifest.code() == Code::kInvalidArgument);
    return;
  }
  RC_ASSERT(manifest->to_json() == good());
}

RC_GTEST_PROP(PlacementJsonProperty, EveryTextRoundTrips, ()) {
  std::string id = "x";
  for (const std::uint32_t code : *rc::gen::container<std::vector<std::uint32_t>>(rc::gen::inRange(0U, 0x80U))) {
    id += static_cast<char>(code);
  }
  for (const std::string& piece : *rc::gen::container<std::vector<std::string>>(rc::gen::elementOf(
           std::vector<std::string>{"\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80", "\\", "\"", "/"}))) {
    id += piece;
  }
  Fragment fragment;
  fragment.id = id;
  fragment.aliases = {id, "other"};
  const auto manifest = build_placement({Tensor{}}, {fragment});
  RC_ASSERT(manifest.ok());
  const std::string text = manifest->to_json();
  for (const char c : text) RC_ASSERT(c >= ' ' && c < 0x7F);
  const auto back = read(text);
  RC_ASSERT(back.ok());
  RC_ASSERT(*back == *manifest);
  RC_ASSERT(back->fragment(0).placement_fragment_id == id);
}

}  // namespace
}  // namespace steelyard::placement
