#include "base/utf8.h"

#include <gtest/gtest.h>

namespace steelyard {
namespace {

TEST(Utf8, EveryFaultIsFoundAtEveryPlace) {
  const std::string_view bad[] = {
      "\x80",              // a continuation without its lead
      "\xC0\xAF",          // two bytes where one would do
      "\xE0\x9F\xBF",      // three where two would do
      "\xF0\x8F\xBF\xBF",  // four where three would do
      "\xED\xA0\x80",      // a surrogate
      "\xF4\x90\x80\x80",  // above U+10FFFF
      "\xFF",
      "\xC3",
      "\xE2\x82",
      "\xC1\xBF",
      "\xF5\x80\x80\x80",
      "\xED\xBF\xBF",
      "\xF0\x9F\x98",
  };
  for (std::size_t before = 0; before < 20; ++before) {
    for (std::size_t after = 0; after < 12; ++after) {
      const auto framed = [&](std::string_view middle) {
        return std::string(before, 'a').append(middle).append(after, 'z');
      };
      for (const std::string_view text : {"", "\x7F", "\u00e9", "\u20ac", "\U0001f600", "\U0010ffff"}) {
        EXPECT_TRUE(is_valid_utf8(framed(text))) << before << " " << after << " " << text;
      }
      for (const std::string_view text : bad) {
        EXPECT_FALSE(is_valid_utf8(framed(text))) << before << " " << after << " " << printable(text);
      }
    }
  }
}

TEST(Utf8, ControlCharacters) {
  for (const std::string_view text : {std::string_view("a\0b", 3), std::string_view("\x1f"), std::string_view("a\x7f"),
                                      std::string_view("\u0080"), std::string_view("\u009f")}) {
    EXPECT_TRUE(has_control_character(text)) << printable(text);
  }
  for (const std::string_view text : {"", " ", "~", "\u00a0", "\u2028"}) EXPECT_FALSE(has_control_character(text));
}

TEST(Utf8, PrintableShowsWhatATerminalMustNotGet) {
  EXPECT_EQ(printable("caf\u00e9 \U0001f600"), "caf\u00e9 \U0001f600");
  EXPECT_EQ(printable(std::string_view("a\0\n\x1b[0m", 7)), "a\\x00\\x0a\\x1b[0m");
  EXPECT_EQ(printable("\xff\u0085"), "\\xff\\xc2\\x85");
}

TEST(Utf8, QuotedTextIsShortEnoughToRead) {
  EXPECT_EQ(in_quotes(""), "\"\"");
  EXPECT_EQ(in_quotes("a\nb"), "\"a\\x0ab\"");
  EXPECT_EQ(in_quotes(std::string(kQuotedBytesMax, 'a')), "\"" + std::string(kQuotedBytesMax, 'a') + "\"");
  EXPECT_EQ(in_quotes(std::string(kQuotedBytesMax + 1, 'a')),
            "\"" + std::string(kQuotedBytesMax, 'a') + "…\" (" + std::to_string(kQuotedBytesMax + 1) + " bytes)");
  // The cut is between characters.
  EXPECT_EQ(in_quotes(std::string(kQuotedBytesMax - 1, 'a') + "€uro"),
            "\"" + std::string(kQuotedBytesMax - 1, 'a') + "…\" (" + std::to_string(kQuotedBytesMax + 5) + " bytes)");
  const std::string no_text(kQuotedBytesMax + 10, '\x80');
  EXPECT_EQ(in_quotes(no_text).size(), 4 * kQuotedBytesMax + std::string_view("\"…\" (210 bytes)").size());
}

TEST(Utf8, AWordOfAShellIsQuotedWhereItMustBe) {
  EXPECT_EQ(shell_word("org/m@main#1"), "org/m@main#1");
  EXPECT_EQ(shell_word("/data/a b"), "'/data/a b'");
  EXPECT_EQ(shell_word("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_word("#1"), "'#1'");
  EXPECT_EQ(shell_word("$HOME"), "'$HOME'");
  EXPECT_EQ(shell_word("~"), "'~'");
  EXPECT_EQ(shell_word(""), "''");
  EXPECT_EQ(shell_word("a\nb"), "'a\\x0ab'");
}

}  // namespace
}  // namespace steelyard
