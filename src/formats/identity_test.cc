#include "formats/identity.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "hash/framed.h"

namespace steelyard::formats {
namespace {

Identity example() { return {{"default", "production", "llama-70b", "step-100"}, 7}; }

TEST(Identity, ManifestKeyVectors) {
  EXPECT_EQ(manifest_key(example()), "weights/production/llama-70b/step-100/7/manifest");
  EXPECT_EQ(manifest_key({{"default", "prod east", "family/model", "v1%candidate"}, 7}),
            "weights/prod%20east/family%2Fmodel/v1%25candidate/7/manifest");
}

TEST(Identity, GroupIdVector) {
  EXPECT_EQ(payload_group_id(example()), "weight:5dbbea14aa75c98a5b3fbb576a9c612d64fc6bc8f490f24a7ff017fcfe321b7d");
  EXPECT_EQ("weight:" + payload_group_digest(example()).hex(), payload_group_id(example()));
}

TEST(Identity, PayloadKeysHaveEightDigits) {
  EXPECT_EQ(payload_key(example(), 0), "weights/production/llama-70b/step-100/7/payload/00000000");
  EXPECT_EQ(payload_key(example(), 1234), "weights/production/llama-70b/step-100/7/payload/00001234");
  EXPECT_EQ(payload_key(example(), 99'999'999), "weights/production/llama-70b/step-100/7/payload/99999999");
}

TEST(Identity, PayloadKeysDigestIsFramedOverSortedKeys) {
  for (const std::uint32_t count : {0U, 1U, 11U, 1001U}) {
    std::set<std::string> keys;
    for (std::uint32_t i = 0; i < count; ++i) keys.insert(payload_key(example(), i));
    hash::FramedSha256 sha;
    for (const std::string& key : keys) sha.add(key);
    EXPECT_EQ(payload_keys_sha256(example(), count), sha.finish().hex()) << count;
  }
}

TEST(Identity, PayloadKeysDigestOfAMillionObjectsIsAMatterOfOnePass) {
  EXPECT_EQ(payload_keys_sha256(example(), 1U << 20).size(), 64U);
}

TEST(Identity, EveryFieldMovesTheGroup) {
  std::set<std::string> groups = {payload_group_id(example())};
  std::vector<Identity> others(5, example());
  others[0].lineage.tenant_id = "other";
  others[1].lineage.namespace_id = "other";
  others[2].lineage.resource_id = "other";
  others[3].lineage.revision = "other";
  others[4].weight_generation = 8;
  // Framing: moving a byte from one field to the next is another identity.
  others.push_back({{"default", "productionl", "lama-70b", "step-100"}, 7});
  for (const Identity& other : others) groups.insert(payload_group_id(other));
  EXPECT_EQ(groups.size(), others.size() + 1);
}

struct Spelling {
  std::string text;
  std::string encoded;
};

TEST(Identity, PercentEncodingTable) {
  const std::vector<Spelling> table = {
      {"", ""},
      {"a/b", "a%2Fb"},
      {"a//b", "a%2F%2Fb"},
      {"a/", "a%2F"},
      {"/a", "%2Fa"},
      {".", "."},
      {"..", ".."},
      {"%2F", "%252F"},
      {"%2f", "%252f"},
      {"refs/pr/1", "refs%2Fpr%2F1"},
      {"AZaz09-_.~", "AZaz09-_.~"},
      {" :+", "%20%3A%2B"},
      {"\xF0\x9F\x98\x80", "%F0%9F%98%80"},
      {std::string("\0\xFF", 2), "%00%FF"},
      {std::string(1024, '/'),
       [] {
         std::string out;
         for (int i = 0; i < 1024; ++i) out += "%2F";
         return out;
       }()},
  };
  for (const Spelling& row : table) {
    EXPECT_EQ(percent_encode(row.text), row.encoded);
    const auto back = percent_decode(row.encoded);
    ASSERT_TRUE(back.ok()) << back.status().to_string();
    EXPECT_EQ(*back, row.text);
  }
}

RC_GTEST_PROP(Identity, PercentEncodingRoundTripsEveryByteString, (const std::string& text)) {
  const auto back = percent_decode(percent_encode(text));
  RC_ASSERT(back.ok());
  RC_ASSERT(*back == text);
}

RC_GTEST_PROP(Identity, WhatDecodesIsTheEncodingOfItsMeaning, ()) {
  const auto encoded =
      *rc::gen::container<std::string>(rc::gen::elementOf(std::string("%%%0123456789ABCDEFabcdef2F/ ~")));
  const auto text = percent_decode(encoded);
  if (text.ok()) RC_ASSERT(percent_encode(*text) == encoded);
}

TEST(Identity, DecoderRefusesEverySecondSpelling) {
  for (const std::string_view bad : {"%", "%2", "a%2f", "%41", "%7E", "/", " ", "%GG", "%2", "a b", "\xC3\xA9"}) {
    const auto result = percent_decode(bad);
    ASSERT_FALSE(result.ok()) << bad;
    EXPECT_EQ(result.code(), Code::kInvalidArgument);
    EXPECT_NE(result.status().message().find("at byte"), std::string::npos) << result.status().message();
  }
}

TEST(Identity, LegalNames) {
  for (const std::string& name :
       {std::string("a/b"), std::string("a//b"), std::string("a/"), std::string("/"), std::string("%2F"),
        std::string("a b"), std::string("c:d"), std::string("..."), std::string("_x"), std::string("a@b#c"),
        std::string("\xF0\x9F\x98\x80"), std::string("refs/pr/1"), std::string(1024, 'x'), std::string("../x")}) {
    EXPECT_TRUE(validate(Identity{{"t", name, "r", "v"}, 1}).ok()) << name;
    EXPECT_TRUE(validate(Identity{{"t", "n", name, "v"}, 1}).ok()) << name;
    EXPECT_TRUE(validate(Identity{{"t", "n", "r", name}, 1}).ok()) << name;
  }
  EXPECT_TRUE(validate(Identity{{std::string(255, 't'), "n", "r", "v"}, INT64_MAX}).ok());
  EXPECT_TRUE(validate(Identity{{"a_b.", "n", "r", "v"}, 1}).ok());
}

struct Refusal {
  Identity identity;
  std::string field;
  std::string found;
};

TEST(Identity, EveryRefusalNamesFieldFoundAndWanted) {
  const std::string long_name(1025, 'x');
  std::vector<Refusal> table = {
      {{{"", "n", "r", "v"}, 1}, "tenant_id", "is empty"},
      {{{"_internal", "n", "r", "v"}, 1}, "tenant_id", "begins with \"_\""},
      {{{std::string(256, 't'), "n", "r", "v"}, 1}, "tenant_id", "has 256 bytes"},
      {{{"\xFF", "n", "r", "v"}, 1}, "tenant_id", "not valid UTF-8"},
      {{{"t", "n", "r", "v"}, 0}, "weight_generation", "is 0"},
      {{{"t", "n", "r", "v"}, -1}, "weight_generation", "is -1"},
      {{{"t", std::string(1024, '/'), "r", "v"}, 1}, "manifest key", "has 3095 bytes"},
  };
  const std::vector<std::pair<std::string, std::string>> bad_names = {{"", "is empty"},
                                                                      {long_name, "has 1025 bytes"},
                                                                      {".", "is \".\""},
                                                                      {"..", "is \"..\""},
                                                                      {"a\nb", "control"},
                                                                      {std::string("a\0b", 3), "control"},
                                                                      {"\x7F", "control"},
                                                                      {"\xC2\x85", "control"},
                                                                      {"\xC0\x80", "not valid UTF-8"},
                                                                      {"\xED\xA0\x80", "UTF-8"},
                                                                      {"\xF4\x90\x80\x80", "not valid UTF"}};
  for (const auto& [name, found] : bad_names) {
    table.push_back({{{"t", name, "r", "v"}, 1}, "namespace", found});
    table.push_back({{{"t", "n", name, "v"}, 1}, "resource_id", found});
    table.push_back({{{"t", "n", "r", name}, 1}, "revision", found});
  }
  for (const Refusal& row : table) {
    const Status status = validate(row.identity);
    ASSERT_FALSE(status.ok()) << row.field << " " << row.found;
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_EQ(status.message().rfind(row.field, 0), 0U) << status.message();
    EXPECT_NE(status.message().find(row.found), std::string::npos) << status.message();
    EXPECT_NE(status.message().find("wanted: "), std::string::npos) << status.message();
  }
}

TEST(Identity, KeyLimitCountsTheWholeEncodedKey) {
  Identity identity{{"t", std::string(990, '/'), "r", "v"}, 1};
  std::size_t bytes = manifest_key(identity).size();
  ASSERT_LT(bytes, 3000U);
  identity.lineage.resource_id = std::string(1 + 3000 - bytes, 'r');
  ASSERT_EQ(manifest_key(identity).size(), 3000U);
  EXPECT_TRUE(validate(identity).ok());
  identity.lineage.resource_id += 'r';
  EXPECT_FALSE(validate(identity).ok());
}

}  // namespace
}  // namespace steelyard::formats
