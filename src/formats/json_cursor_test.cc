#include "formats/json_cursor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <nlohmann/json.hpp>

namespace steelyard::formats {
namespace {

using ::testing::HasSubstr;

Status skip_all(std::string_view text) {
  JsonCursor cursor(text);
  SY_RETURN_IF_ERROR(cursor.skip_value());
  return cursor.expect_end();
}

TEST(JsonCursor, PassesWhatIsJsonAndRefusesTheRest) {
  for (const char* text :
       {"null", " [ ] ", "{}", "[1,-2,0,-0,1.5,2e10,3E-2]", R"({"a":[{"b":{}},true,false],"c":"\u0041\n\/"})",
        R"("\ud83d\ude00")", "\"\xc3\xa9\"", "\t\r\n1\n"}) {
    EXPECT_TRUE(skip_all(text).ok()) << text << ": " << skip_all(text).to_string();
  }
  for (const char* text : {"",
                           "nul",
                           "[",
                           "[1",
                           "[1,]",
                           "[,1]",
                           "{,}",
                           "{\"a\"}",
                           "{\"a\":}",
                           "{\"a\":1,}",
                           "{a:1}",
                           "[1}",
                           "01",
                           "-",
                           "1.",
                           ".5",
                           "1e",
                           "+1",
                           "NaN",
                           "Infinity",
                           "1 2",
                           "\"a",
                           "\"\\x\"",
                           "\"\\u12g4\"",
                           "\"\\ud800\"",
                           "\"\\ud800\\u0041\"",
                           "\"\\udc00\"",
                           "\"\n\"",
                           "\"\xff\"",
                           "\"\xc0\x80\"",
                           "\"\xed\xa0\x80\"",
                           "'a'",
                           "[1]]",
                           "\v1",
                           "true1"}) {
    EXPECT_EQ(skip_all(text).code(), Code::kCorrupt) << text;
  }
}

TEST(JsonCursor, DepthIsBounded) {
  EXPECT_TRUE(skip_all(std::string(128, '[') + std::string(128, ']')).ok());
  EXPECT_THAT(skip_all(std::string(129, '[') + std::string(129, ']')).message(), HasSubstr("more than 128 levels"));
}

TEST(JsonCursor, ErrorsKnowTheirPosition) {
  EXPECT_EQ(skip_all("[1, 2 3]").message(), "bad JSON at byte 6: wanted ',', found '3'");
  EXPECT_EQ(skip_all("[1, 2").message(), "bad JSON at byte 5: wanted ',', found the end of the text");
}

TEST(JsonCursor, IntegersToTheLimitOf64Bits) {
  EXPECT_EQ(*JsonCursor("18446744073709551615").unsigned_integer(), UINT64_MAX);
  EXPECT_EQ(*JsonCursor(" 0").unsigned_integer(), 0U);
  for (const char* text :
       {"18446744073709551616", "99999999999999999999", "-1", "1.0", "1e3", "00", "", "x", "\"1\""}) {
    EXPECT_EQ(JsonCursor(text).unsigned_integer().code(), Code::kCorrupt) << text;
  }
}

TEST(JsonCursor, StringsWithoutEscapesAreViewsOfTheText) {
  const std::string text = "\"plain\"";
  std::string scratch;
  JsonCursor cursor(text);
  const auto view = cursor.string(scratch);
  ASSERT_TRUE(view.ok());
  EXPECT_EQ(view->data(), text.data() + 1);
}

/// Any string that another writer escapes, in both of its ways, comes back.
TEST(JsonCursorProperty, StringsRoundTrip) {
  EXPECT_TRUE(rc::check([] {
    std::string text;
    for (const int code : *rc::gen::container<std::vector<int>>(rc::gen::oneOf(
             rc::gen::inRange(0, 0x80), rc::gen::inRange(0x80, 0xD800), rc::gen::inRange(0xE000, 0x110000)))) {
      const auto unit = [&](int byte) { text.push_back(static_cast<char>(byte)); };
      if (code < 0x80) {
        unit(code);
      } else if (code < 0x800) {
        unit(0xC0 | (code >> 6)), unit(0x80 | (code & 0x3F));
      } else if (code < 0x10000) {
        unit(0xE0 | (code >> 12)), unit(0x80 | ((code >> 6) & 0x3F)), unit(0x80 | (code & 0x3F));
      } else {
        unit(0xF0 | (code >> 18)), unit(0x80 | ((code >> 12) & 0x3F)), unit(0x80 | ((code >> 6) & 0x3F)),
            unit(0x80 | (code & 0x3F));
      }
    }
    for (const bool ascii : {false, true}) {
      const std::string written = nlohmann::json(text).dump(-1, ' ', ascii);
      JsonCursor cursor(written);
      std::string scratch;
      const auto read = cursor.string(scratch);
      RC_ASSERT(read.ok());
      RC_ASSERT(*read == text);
      RC_ASSERT(cursor.expect_end().ok());
    }
  }));
}

TEST(JsonCursor, ANumberSaysWhatItIs) {
  const auto number = [](std::string_view text) {
    JsonCursor cursor(text);
    return cursor.number().value();
  };
  EXPECT_TRUE(number("0").integral);
  EXPECT_EQ(number("18446744073709551615").magnitude, UINT64_MAX);
  EXPECT_TRUE(number("18446744073709551615").fits);
  EXPECT_FALSE(number("18446744073709551616").fits);
  EXPECT_TRUE(number("18446744073709551616").integral);
  EXPECT_TRUE(number("-17").negative);
  EXPECT_EQ(number("-17,").magnitude, 17U);
  EXPECT_EQ(number(" -17 ").text, "-17");
  for (const std::string_view text : {"1.0", "1e2", "-1E-2", "1.5e+3"}) {
    EXPECT_FALSE(number(text).integral) << text;
    EXPECT_FALSE(number(text).fits) << text;
    EXPECT_EQ(number(text).text, text);
  }
  for (const std::string_view text : {"", "-", "01", "1.", ".5", "1e", "+1", "x", "NaN", "-Infinity"}) {
    JsonCursor cursor(text);
    EXPECT_FALSE(cursor.number().ok()) << text;
  }
}

TEST(JsonCursor, TakesAWordWhole) {
  JsonCursor cursor(" null,nul");
  EXPECT_FALSE(cursor.take_word("true"));
  EXPECT_TRUE(cursor.take_word("null"));
  EXPECT_EQ(cursor.rest(), ",nul");
  EXPECT_TRUE(cursor.take(','));
  EXPECT_FALSE(cursor.take_word("null"));
}

/// A text with one byte changed is accepted exactly when another strict parser accepts it.
TEST(JsonCursorProperty, AgreesWithAnotherParser) {
  const std::string text = R"({"a\u00e9":[1,-2.5e3,true,null,"x\n"],"b":{"c":[[]]}})";
  for (std::size_t at = 0; at < text.size(); ++at) {
    for (int byte = 0; byte < 256; ++byte) {
      std::string changed = text;
      changed[at] = static_cast<char>(byte);
      EXPECT_EQ(skip_all(changed).ok(), nlohmann::json::accept(changed)) << changed;
    }
  }
}

}  // namespace
}  // namespace steelyard::formats
