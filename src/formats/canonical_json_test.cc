#include "formats/canonical_json.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace steelyard::formats {
namespace {

std::string spelt(std::string_view text) {
  std::string out;
  CanonicalJsonWriter(out).string(text);
  return out;
}

std::string spelt_in_ascii(std::string_view text) {
  std::string out;
  CanonicalJsonWriter(out, CanonicalForm::kAscii).string(text);
  return out;
}

TEST(CanonicalAscii, DiffersOnlyFromDelOn) {
  for (int c = 0; c < 0x7F; ++c) {
    const std::string text(1, static_cast<char>(c));
    EXPECT_EQ(spelt_in_ascii(text), spelt(text)) << c;
  }
  EXPECT_EQ(spelt_in_ascii("a\x7F"
                           "b"),
            R"("a\u007fb")");
  EXPECT_EQ(spelt_in_ascii("\xC2\x80\xDF\xBF"), R"("\u0080\u07ff")");
  EXPECT_EQ(spelt_in_ascii("\xE0\xA0\x80\xEF\xBF\xBF"), R"("\u0800\uffff")");
  EXPECT_EQ(spelt_in_ascii("\xF0\x90\x80\x80\xF4\x8F\xBF\xBF"), R"("\ud800\udc00\udbff\udfff")");
}

TEST(CanonicalAscii, NullAndNumbers) {
  std::string out;
  CanonicalJsonWriter json(out, CanonicalForm::kAscii);
  json.begin_array();
  json.null();
  json.integer(std::int64_t{-1});
  json.null();
  json.end_array();
  EXPECT_EQ(out, "[null,-1,null]");
}

/// Every character, against a writer of its own.
TEST(CanonicalAscii, AgreesWithAnotherWriter) {
  for (std::uint32_t code = 1; code < 0x110000; code += code < 0x3000 ? 1 : 251) {
    if (code >= 0xD800 && code < 0xE000) continue;
    std::string text;
    if (code < 0x80) {
      text += static_cast<char>(code);
    } else {
      const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
      constexpr std::array<unsigned, 4> kLead = {0, 0xC0, 0xE0, 0xF0};
      text += static_cast<char>(kLead[static_cast<std::size_t>(more)] | code >> (6 * more));
      for (int i = more; i-- > 0;) text += static_cast<char>(0x80U | (code >> (6 * i) & 0x3FU));
    }
    EXPECT_EQ(spelt_in_ascii(text), nlohmann::json(text).dump(-1, ' ', true)) << code;
  }
}

TEST(CanonicalJson, EveryAsciiCharacterHasOneSpelling) {
  for (int c = 0; c < 0x80; ++c) {
    std::string wanted;
    switch (c) {
      case '\b':
        wanted = "\\b";
        break;
      case '\f':
        wanted = "\\f";
        break;
      case '\n':
        wanted = "\\n";
        break;
      case '\r':
        wanted = "\\r";
        break;
      case '\t':
        wanted = "\\t";
        break;
      case '"':
        wanted = "\\\"";
        break;
      case '\\':
        wanted = "\\\\";
        break;
      default:
        if (c < 0x20) {
          wanted = std::string("\\u00") + "01"[c / 16] + "0123456789abcdef"[c % 16];
        } else {
          wanted = std::string(1, static_cast<char>(c));
        }
    }
    EXPECT_EQ(spelt(std::string(1, static_cast<char>(c))), "\"" + wanted + "\"") << c;
  }
}

TEST(CanonicalJson, ValuesAndStructure) {
  std::string out;
  CanonicalJsonWriter json(out);
  json.begin_object();
  json.key("a");
  json.begin_array();
  json.integer(INT64_MIN);
  json.integer(UINT64_MAX);
  json.integer(std::uint32_t{0});
  json.begin_object();
  json.end_object();
  json.begin_array();
  json.end_array();
  json.end_array();
  json.field("b", std::string_view("\xC3\xA9"));
  json.field("\xC3\xA9", std::int64_t{-1});
  json.end_object();
  EXPECT_EQ(out, "{\"a\":[-9223372036854775808,18446744073709551615,0,{},[]],\"b\":\"\xC3\xA9\",\"\xC3\xA9\":-1}");
}

TEST(CanonicalJsonDeathTest, KeysOutOfOrderAreAProgrammersError) {
  std::string out;
  CanonicalJsonWriter json(out);
  json.begin_object();
  json.field("b", std::int64_t{1});
  EXPECT_DEATH(json.key("a"), "ascend");
  EXPECT_DEATH(json.key("b"), "ascend");
  EXPECT_DEATH(json.integer(std::int64_t{1}), "needs its key");
  EXPECT_DEATH(json.end_array(), "no array");
}

RC_GTEST_PROP(CanonicalJson, StringsReadBackAndAnotherParserAgrees, ()) {
  const auto parts = *rc::gen::container<std::vector<std::string>>(rc::gen::elementOf(
      std::vector<std::string>{"a", "\"", "\\", "/", "\n", "\x1F", std::string(1, '\0'), "\x7F", "\xC2\x80", "\xC3\xA9",
                               "\xE2\x80\xA8", "\xF4\x8F\xBF\xBF", "u0041", "\b", "\r"}));
  std::string text;
  for (const std::string& part : parts) text += part;
  const std::string json = spelt(text);
  CanonicalJsonReader reader(json);
  std::string_view back;
  RC_ASSERT(reader.string(back));
  RC_ASSERT(back == text);
  RC_ASSERT(reader.end());
  RC_ASSERT(nlohmann::json::parse(json).get<std::string>() == text);
}

RC_GTEST_PROP(CanonicalJson, IntegersReadBack, (std::int64_t number)) {
  std::string json;
  CanonicalJsonWriter(json).integer(number);
  CanonicalJsonReader reader(json);
  std::int64_t back = 0;
  RC_ASSERT(reader.integer(back));
  RC_ASSERT(back == number);
  RC_ASSERT(reader.end());
}

/// Texts over the alphabet of JSON: what the reader takes as a string or a number is spelt in the one way.
RC_GTEST_PROP(CanonicalJson, WhatIsAcceptedIsCanonical, ()) {
  const auto inner =
      *rc::gen::container<std::string>(rc::gen::elementOf(std::string("\\\\\\\\ub0011fn\"/-9.e \x01\x7F\xC3\xA9")));
  const std::string text = "\"" + inner + "\"";
  CanonicalJsonReader strings(text);
  std::string_view value;
  if (strings.string(value) && strings.end()) RC_ASSERT(spelt(value) == text);
  CanonicalJsonReader numbers(inner);
  std::int64_t number = 0;
  if (numbers.integer(number) && numbers.end()) RC_ASSERT(std::to_string(number) == inner);
}

TEST(CanonicalJson, IntegerEdges) {
  const auto signed_ok = [](std::string_view text) {
    std::int64_t out = 0;
    CanonicalJsonReader reader(text);
    return reader.integer(out) && reader.end();
  };
  EXPECT_TRUE(signed_ok("-9223372036854775808"));
  EXPECT_TRUE(signed_ok("9223372036854775807"));
  for (const std::string_view bad :
       {"-9223372036854775809", "9223372036854775808", "99999999999999999999", "", "-", "--1", "1x", "0x1", "00", "-0",
        "+1", " 1", "1 ", "1.", ".1", "1e1", "\"1\"", "null"}) {
    EXPECT_FALSE(signed_ok(bad)) << bad;
  }
}

TEST(CanonicalJson, ErrorsCarryThePath) {
  static constexpr std::array<std::string_view, 2> kOuter = {"list", "map"};
  static constexpr std::array<std::string_view, 1> kInner = {"n"};
  const auto error_of = [](std::string_view text) {
    CanonicalJsonReader json(text);
    std::uint64_t number = 0;
    std::string name;
    std::string_view value;
    if (json.begin_object(kOuter) && json.key("list") && json.begin_array()) {
      while (json.next_element()) {
        if (!(json.begin_object(kInner) && json.key("n") && json.integer(number) && json.end_object())) break;
      }
      if (json.key("map") && json.begin_map()) {
        while (json.next_entry(name) && json.string(value)) {
        }
      }
      if (json.end_object()) static_cast<void>(json.end());
    }
    return json.error();
  };
  EXPECT_EQ(error_of("{\"list\":[{\"n\":1}],\"map\":{\"k\":\"v\"}}"), "");
  EXPECT_EQ(error_of("{\"list\":[{\"n\":1},{\"n\":x}],\"map\":{}}"),
            "list[1].n: found byte \"x\" at byte 22; wanted an integer");
  EXPECT_EQ(error_of("{\"list\":[],\"map\":{\"k\":1}}"), "map[\"k\"]: found a number at byte 22; wanted a string");
  EXPECT_EQ(error_of("{\"list\":["), "list[0]: found the end of the text at byte 9; wanted an object");
  EXPECT_EQ(error_of(""), "the document: found the end of the text at byte 0; wanted an object");
}

}  // namespace
}  // namespace steelyard::formats
