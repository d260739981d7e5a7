#include "formats/ref.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>
#include <vector>

namespace steelyard::formats {
namespace {

struct Accepted {
  std::string text;
  Ref ref;
};

TEST(Ref, AcceptedSpellings) {
  const std::vector<Accepted> table = {
      {"llama", {"llama", std::nullopt, std::nullopt}},
      {"org/name", {"org/name", std::nullopt, std::nullopt}},
      {"a//b", {"a//b", std::nullopt, std::nullopt}},
      {"a/", {"a/", std::nullopt, std::nullopt}},
      {"llama@v1", {"llama", "v1", std::nullopt}},
      {"llama#7", {"llama", std::nullopt, 7}},
      {"llama@v1#7", {"llama", "v1", 7}},
      {"llama@refs/pr/1#9223372036854775807", {"llama", "refs/pr/1", INT64_MAX}},
      {"a%40b%23c%25@v%40#1", {"a@b#c%", "v@", 1}},
      {"a%2fb", {"a/b", std::nullopt, std::nullopt}},
      {"%6c%6C", {"ll", std::nullopt, std::nullopt}},
      {"%252F", {"%2F", std::nullopt, std::nullopt}},
      {"a b:c", {"a b:c", std::nullopt, std::nullopt}},
      {"\xF0\x9F\x98\x80@\xC3\xA9", {"\xF0\x9F\x98\x80", "\xC3\xA9", std::nullopt}},
      {"%F0%9F%98%80", {"\xF0\x9F\x98\x80", std::nullopt, std::nullopt}},
      {"a@7", {"a", "7", std::nullopt}},
      {std::string(1024, 'x'), {std::string(1024, 'x'), std::nullopt, std::nullopt}},
  };
  for (const Accepted& row : table) {
    const auto ref = parse_ref(row.text);
    ASSERT_TRUE(ref.ok()) << row.text << ": " << ref.status().to_string();
    EXPECT_EQ(*ref, row.ref) << row.text;
  }
}

struct Refused {
  std::string text;
  std::string found;
  std::string hint;
};

TEST(Ref, Refusals) {
  const std::vector<Refused> table = {
      {"", "resource_id is empty", ""},
      {"@v1", "resource_id is empty", ""},
      {"#1", "resource_id is empty", ""},
      {"@#1", "resource_id is empty", ""},
      {"a@", "revision is empty", ""},
      {"a@#1", "revision is empty", ""},
      {"a#", "generation is empty", "leave"},
      {"a@v#", "generation is empty", "leave"},
      {"a@b@c", "second \"@\"", "a%40b@c"},
      {"a@b@c#3", "second \"@\"", "a%40b@c#3"},
      {"a#1#2", "second \"#\"", "a%231#2"},
      {"a@v#1#2", "second \"#\"", "a@v%231#2"},
      {"a#1@v#2", "second \"#\"", "a%231@v#2"},
      {"a#b#c@d@e", "generation is \"c@d@e\"", "a%23b%23c%40d@e"},
      {"model#v2", "generation is \"v2\"", "model%23v2"},
      {"a#1@b", "generation is \"1@b\"", "a%231@b"},
      {"a#0", "generation is \"0\"", "begin at 1"},
      {"a#00", "generation is \"00\"", "begin at 1"},
      {"a#007", "leading zeros", "write #7"},
      {"a#-1", "generation is \"-1\"", "%23"},
      {"a#+1", "generation is \"+1\"", "%23"},
      {"a# 1", "generation is \" 1\"", "%23"},
      {"a#1 ", "generation is \"1 \"", "%23"},
      {"a#1.0", "generation is \"1.0\"", "%23"},
      {"a#%31", "generation is \"%31\"", "%23"},
      {"a#9223372036854775808", "generation is \"9223372036854775808\"", ""},
      {"a#99999999999999999999999", "generation is", ""},
      {"50%", "two hex digits", "%25"},
      {"a%2", "two hex digits", "%25"},
      {"a%zz", "holds \"%zz\"", "%25"},
      {"a@v%g1", "revision holds \"%g1\"", "%25"},
      {".", "is \".\"", ""},
      {"%2E%2E", "is \"..\"", ""},
      {"a@..", "revision is \"..\"", ""},
      {"a%00b", "control character", ""},
      {"a\nb", "control character", ""},
      {"a@%C2%85", "control character", ""},
      {"%FF", "not valid UTF-8", ""},
      {"\xFF", "not valid UTF-8", ""},
      {std::string(1025, 'x'), "has 1025 bytes", ""},
  };
  for (const Refused& row : table) {
    const auto ref = parse_ref(row.text);
    ASSERT_FALSE(ref.ok()) << row.text;
    EXPECT_EQ(ref.code(), Code::kInvalidArgument);
    EXPECT_EQ(ref.status().message().rfind("reference \"", 0), 0U) << ref.status().message();
    EXPECT_NE(ref.status().message().find(row.found), std::string::npos) << ref.status().message();
    EXPECT_NE(ref.status().hint().find(row.hint), std::string::npos) << ref.status().to_string();
  }
}

TEST(Ref, EveryHintedSpellingParses) {
  for (const std::string text : {"a@b@c", "a@b@c#3", "a#1#2", "a#1@v#2", "a#b#c@d@e", "model#v2", "a#1@b"}) {
    const auto refused = parse_ref(text);
    ASSERT_FALSE(refused.ok());
    const std::string hint = refused.status().hint();
    const std::string spelling = hint.substr(hint.rfind(": ") + 2);
    EXPECT_TRUE(parse_ref(spelling).ok()) << spelling;
  }
}

TEST(Ref, PrintedFormIsCompleteAndEscaped) {
  EXPECT_EQ(format_ref({{"t", "n", "org/name", "main"}, 3}), "org/name@main#3");
  EXPECT_EQ(format_ref({{"t", "n", "a@b", "50%#1"}, 1}), "a%40b@50%25%231#1");
  EXPECT_EQ(format_ref({{"t", "n", "x\x7F\n", "\xC2\x9F"}, 1}), "x%7F%0A@%C2%9F#1");
}

RC_GTEST_PROP(Ref, FormatThenParseGivesTheIdentity, ()) {
  const auto name = rc::gen::suchThat(
      rc::gen::map(rc::gen::container<std::vector<std::string>>(rc::gen::elementOf(std::vector<std::string>{
                       "a", "@", "#", "%", "/", "%2F", "%4", ".", " ", "7", "\xC3\xA9", "\xF0\x9F\x98\x80", ":"})),
                   [](const std::vector<std::string>& parts) {
                     std::string out;
                     for (const std::string& part : parts) out += part;
                     return out;
                   }),
      [](const std::string& text) { return validate_name("x", text).ok(); });
  const std::string resource = *name;
  const std::string revision = *name;
  const std::int64_t generation = *rc::gen::positive<std::int64_t>();
  const auto ref = parse_ref(format_ref({{"t", "n", resource, revision}, generation}));
  RC_ASSERT(ref.ok());
  RC_ASSERT(ref->resource_id == resource);
  RC_ASSERT(ref->revision == revision);
  RC_ASSERT(ref->weight_generation == generation);
}

RC_GTEST_PROP(Ref, WhatParsesIsStableUnderPrinting, (const std::string& text)) {
  const auto ref = parse_ref(text);
  if (!ref.ok() || !ref->revision || !ref->weight_generation) return;
  const auto again = parse_ref(format_ref({{"t", "n", ref->resource_id, *ref->revision}, *ref->weight_generation}));
  RC_ASSERT(again.ok());
  RC_ASSERT(*again == *ref);
}

}  // namespace
}  // namespace steelyard::formats
