#include "cli/output.h"

#include <gtest/gtest.h>

#include "cli/exit_code.h"
#include "cli/json.h"
#include "cli/suggest.h"

namespace steelyard::cli {
namespace {

Terminal wide(std::size_t columns) {
  Terminal on;
  on.columns_known = true;
  on.out = true;
  on.columns = columns;
  return on;
}

TEST(Table, AlignsAndLeavesNoTrailingSpaces) {
  Table table({{"NAME"}, {"SIZE", true}, {"X"}});
  table.add({"a", "1", ""});
  table.add({"é longer", "1000", "y"});
  EXPECT_EQ(table.render(Terminal{}), "NAME      SIZE  X\na            1\né longer  1000  y\n");
}

TEST(Table, TheWidestColumnGivesWayOnATerminalOnly) {
  Table table({{"REF"}, {"STATE"}});
  table.add({std::string(50, 'r'), "READY"});
  EXPECT_EQ(table.render(wide(30)), "REF                      STATE\n" + std::string(22, 'r') + "…  READY\n");
  EXPECT_NE(table.render(Terminal{}).find(std::string(50, 'r')), std::string::npos);
  Terminal unknown;
  unknown.out = true;
  EXPECT_NE(table.render(unknown).find(std::string(50, 'r')), std::string::npos) << "it does not know its width";
}

TEST(Table, WhatNobodyCopiesIsCutFirst) {
  Table table({{"REF"}, {.heading = "HOLDER", .first_to_cut = true}});
  table.add({std::string(20, 'r'), std::string(15, 'h')});
  EXPECT_NE(table.render(wide(30)).find(std::string(20, 'r') + "  hhhhhhh…\n"), std::string::npos);
  EXPECT_NE(table.render(wide(20)).find("rrrrrrrrr…  hhhhhhh…\n"), std::string::npos);
}

TEST(Shortened, CountsCodePoints) {
  EXPECT_EQ(shortened("éééé", 4), "éééé");
  EXPECT_EQ(shortened("ééééé", 4), "ééé…");
}

TEST(Json, KeepsTheOrderAndEscapes) {
  Json json;
  json.begin_object()
      .key("b")
      .string("q\"\\\n\x01é")
      .key("a")
      .begin_array()
      .integer(1)
      .null()
      .boolean(true)
      .end_array();
  json.key("o").begin_object().end_object().key("s").seconds(1.5).key("n").string_or_null("").end_object();
  EXPECT_EQ(json.text(), "{\"b\":\"q\\\"\\\\\\n\\u0001é\",\"a\":[1,null,true],\"o\":{},\"s\":1.500,\"n\":null}");
}

TEST(Json, BytesThatAreNotUtf8BecomeText) {
  Json json;
  json.string("a\xff");
  EXPECT_EQ(json.text(), "\"a\\\\xff\"");
}

TEST(Nearest, FindsWhatWasMeant) {
  const std::vector<std::string_view> known = {"import", "inspect", "list", "cold.path"};
  EXPECT_EQ(nearest("imprt", known), "import");
  EXPECT_EQ(nearest("ipmort", known), "import");
  EXPECT_EQ(nearest("lsit", known), "list");
  EXPECT_EQ(nearest("path", known), "cold.path");
  EXPECT_EQ(nearest("insp", known), "inspect");
  EXPECT_EQ(nearest("zzzzzz", known), "");
  EXPECT_EQ(nearest("", known), "");
}

TEST(ExitCode, OneForEachCode) {
  EXPECT_EQ(exit_code_of(Code::kOk), 0);
  EXPECT_EQ(exit_code_of(Code::kInternal), 1);
  EXPECT_EQ(exit_code_of(Code::kInvalidArgument), 2);
  EXPECT_EQ(exit_code_of(Code::kNotFound), 3);
  EXPECT_EQ(exit_code_of(Code::kConflict), 4);
  EXPECT_EQ(exit_code_of(Code::kCorrupt), 5);
  EXPECT_EQ(exit_code_of(Code::kBusy), 6);
  EXPECT_EQ(exit_code_of(Code::kStaleGeneration), 7);
  EXPECT_EQ(exit_code_of(Code::kGenerationExhausted), 7);
  EXPECT_EQ(exit_code_of(Code::kNoSpace), 8);
  EXPECT_EQ(exit_code_of(Code::kUnauthorized), 9);
  EXPECT_EQ(exit_code_of(Code::kUnavailable), 10);
  EXPECT_EQ(exit_code_of(Code::kDurabilityFailed), 10);
  EXPECT_EQ(exit_code_of(Code::kUnknownOutcome), 10);
  EXPECT_EQ(exit_code_of(Code::kNotReady), 11);
  EXPECT_EQ(exit_code_of(Code::kLeaseExpired), 12);
  EXPECT_EQ(exit_code_of(Code::kPolicyUnsatisfiable), 13);
}

}  // namespace
}  // namespace steelyard::cli
