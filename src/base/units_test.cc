#include "base/units.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/limits.h"

namespace steelyard {
namespace {

using limits::kGiB;
using limits::kKiB;
using limits::kMiB;
using testing::HasSubstr;

template <typename T>
std::string refusal(const Result<T>& result) {
  if (result.ok()) return "accepted";
  EXPECT_EQ(result.code(), Code::kInvalidArgument);
  EXPECT_FALSE(result.status().hint().empty());
  return result.status().message();
}

TEST(ParseSize, EveryUnit) {
  const std::pair<const char*, std::uint64_t> cases[] = {
      {"0", 0},
      {"17", 17},
      {"17B", 17},
      {"2KB", 2'000},
      {"2MB", 2'000'000},
      {"2GB", 2'000'000'000},
      {"2TB", 2'000'000'000'000},
      {"2PB", 2'000'000'000'000'000},
      {"2KiB", 2 * kKiB},
      {"2MiB", 2 * kMiB},
      {"2GiB", 2 * kGiB},
      {"2TiB", 2 * kGiB * kKiB},
      {"2PiB", 2 * kGiB * kMiB},
      {"007", 7},
      {"18446744073709551615", UINT64_MAX},
      {"1.5KiB", 1536},
      {"0.5KB", 500},
      {"1.0B", 1},
      {"0.0009765625KiB", 1},
      {"1.000000000000000000000000KiB", 1024},
  };
  for (const auto& [text, bytes] : cases) {
    const auto parsed = parse_size(text);
    ASSERT_TRUE(parsed.ok()) << text << ": " << parsed.status().to_string();
    EXPECT_EQ(*parsed, bytes) << text;
  }
}

TEST(ParseSize, RefusalsNameTheirCause) {
  EXPECT_THAT(refusal(parse_size("")), HasSubstr("empty"));
  EXPECT_THAT(refusal(parse_size("-1")), HasSubstr("sign"));
  EXPECT_THAT(refusal(parse_size("+1")), HasSubstr("sign"));
  for (const char* text : {" 1", "1 ", "1 KiB", "1\t", "1\nB"}) {
    EXPECT_THAT(refusal(parse_size(text)), HasSubstr("no space"));
  }
  for (const char* text : {"1kb", "1kib", "1K", "1M", "1EiB", "1KiBB", "1e3", "0x10", "1,5KB", "1..5KB"}) {
    EXPECT_NE(refusal(parse_size(text)), "accepted") << text;
  }
  EXPECT_THAT(refusal(parse_size("1kib")),
              HasSubstr("unknown unit \"kib\"; units are B KB MB GB TB PB KiB MiB GiB TiB PiB"));
  EXPECT_THAT(refusal(parse_size("MiB")), HasSubstr("begin with a digit"));
  EXPECT_THAT(refusal(parse_size(".5KiB")), HasSubstr("begin with a digit"));
  EXPECT_THAT(refusal(parse_size("1.KiB")), HasSubstr("digit must follow"));
  EXPECT_THAT(refusal(parse_size("1.5")), HasSubstr("not a whole number of bytes"));
  EXPECT_THAT(refusal(parse_size("0.0001KiB")), HasSubstr("not a whole number of bytes"));
  EXPECT_THAT(refusal(parse_size("18446744073709551616")), HasSubstr("larger than 18446744073709551615 bytes"));
  EXPECT_THAT(refusal(parse_size("16384PiB")), HasSubstr("larger than"));
  EXPECT_THAT(refusal(parse_size("99999999999999999999999999PiB")), HasSubstr("larger than"));
  EXPECT_THAT(refusal(parse_size("0.0000000000000000001PiB")), HasSubstr("18 decimal places"));
  EXPECT_THAT(refusal(parse_size(std::string_view("1\0B", 3))), HasSubstr("\"1\\x00B\""));
}

TEST(ParseSize, LargestOfEachUnitAndOneMore) {
  EXPECT_EQ(*parse_size("16383PiB"), UINT64_MAX / (kGiB * kMiB) * (kGiB * kMiB));
  EXPECT_EQ(*parse_size("18446744073709551KB"), 18446744073709551000ULL);
  EXPECT_FALSE(parse_size("18446744073709552KB").ok());
}

TEST(FormatSize, ExactOrThreeDigits) {
  const std::pair<std::uint64_t, const char*> cases[] = {
      {0, "0B"},
      {1, "1B"},
      {1023, "1023B"},
      {kKiB, "1KiB"},
      {1536, "1.50KiB"},
      {1500, "1.46KiB"},
      {64 * kMiB, "64MiB"},
      {1536 * kKiB, "1536KiB"},
      {9999 * kKiB, "9999KiB"},
      {65'552 * kKiB, "64.0MiB"},
      {49'704'780 * kKiB, "47.4GiB"},
      {kGiB * kMiB, "1PiB"},
      {kMiB - 1, "1.00MiB"},
      {1000 * kKiB + 1, "0.977MiB"},
      {1025, "1.00KiB"},
      {10 * kKiB + 512, "10.5KiB"},
      {123 * kKiB + 1, "123KiB"},
      {999 * kKiB + 1, "999KiB"},
      {5 * kGiB / 2 + 1, "2.50GiB"},
      {UINT64_MAX, "16384PiB"},
  };
  for (const auto& [bytes, text] : cases) EXPECT_EQ(format_size(bytes), text) << bytes;
}

TEST(SizesApart, ThoseThatWouldReadTheSameAreInBytes) {
  using Texts = std::vector<std::string>;
  EXPECT_EQ(format_sizes_apart({41'943'041, 41'943'040}), (Texts{"40.0MiB", "40MiB"}));
  EXPECT_EQ(format_sizes_apart({41'943'042, 41'943'041}), (Texts{"41943042B", "41943041B"}));
  EXPECT_EQ(format_sizes_apart({41'943'042, 41'943'041, 1024}), (Texts{"41943042B", "41943041B", "1024B"}));
  EXPECT_EQ(format_sizes_apart({41'943'041, 41'943'041}), (Texts{"40.0MiB", "40.0MiB"})) << "they are the same";
}

TEST(FormatSize, WholePowersReadBack) {
  for (std::uint64_t unit = 1; unit <= kGiB * kMiB; unit *= kKiB) {
    for (const std::uint64_t count : {1, 3, 512, 1000, 1023, 1025, 9999}) {
      if (unit == 1 && count >= 1024) continue;
      EXPECT_EQ(*parse_size(format_size(count * unit)), count * unit);
    }
  }
}

TEST(ParseDuration, EveryUnit) {
  const std::pair<const char*, std::int64_t> cases[] = {{"0s", 0},
                                                        {"500ms", 500},
                                                        {"10s", 10'000},
                                                        {"5m", 300'000},
                                                        {"2h", 7'200'000},
                                                        {"30d", 2'592'000'000},
                                                        {"1.5s", 1'500},
                                                        {"0.001s", 1},
                                                        {"0.5d", 43'200'000},
                                                        {"9223372036854775807ms", INT64_MAX}};
  for (const auto& [text, ms] : cases) {
    const auto parsed = parse_duration_ms(text);
    ASSERT_TRUE(parsed.ok()) << text << ": " << parsed.status().to_string();
    EXPECT_EQ(*parsed, ms) << text;
  }
}

TEST(ParseDuration, RefusalsNameTheirCause) {
  EXPECT_THAT(refusal(parse_duration_ms("")), HasSubstr("empty"));
  EXPECT_THAT(refusal(parse_duration_ms("10")), HasSubstr("unit is missing; units are ms s m h d"));
  EXPECT_THAT(refusal(parse_duration_ms("0")), HasSubstr("unit is missing"));
  EXPECT_THAT(refusal(parse_duration_ms("-5s")), HasSubstr("sign"));
  EXPECT_THAT(refusal(parse_duration_ms("5 s")), HasSubstr("space"));
  EXPECT_THAT(refusal(parse_duration_ms("5sec")), HasSubstr("unknown unit \"sec\""));
  EXPECT_THAT(refusal(parse_duration_ms("1h30m")), HasSubstr("unknown unit"));
  EXPECT_THAT(refusal(parse_duration_ms("0.0005s")), HasSubstr("whole number of milliseconds"));
  EXPECT_THAT(refusal(parse_duration_ms("9223372036854775808ms")), HasSubstr("larger than 9223372036854775807"));
  EXPECT_THAT(refusal(parse_duration_ms("106751991168d")), HasSubstr("larger than"));
}

TEST(FormatDuration, ExactAndReadsBack) {
  EXPECT_EQ(format_duration(0), "0s");
  EXPECT_EQ(format_duration(500), "500ms");
  EXPECT_EQ(format_duration(90'000), "90s");
  EXPECT_EQ(format_duration(86'400'000), "1d");
  EXPECT_EQ(format_duration(-1'500), "-1500ms");
  EXPECT_EQ(format_duration(INT64_MIN), "-9223372036854775808ms");
  for (const std::int64_t ms : {1LL, 999LL, 1'000LL, 61'000LL, 3'600'000LL, 5'400'000LL, INT64_MAX + 0LL}) {
    EXPECT_EQ(*parse_duration_ms(format_duration(ms)), ms);
  }
}

TEST(FormatAge, TwoUnitsRoundedDown) {
  const std::pair<std::int64_t, const char*> cases[] = {
      {-5, "0s"},      {0, "0s"},           {350, "350ms"},       {1'999, "1s"},         {200'000, "3m20s"},
      {180'999, "3m"}, {7'500'000, "2h5m"}, {97'200'000, "1d3h"}, {86'399'999, "23h59m"}};
  for (const auto& [ms, text] : cases) EXPECT_EQ(format_age(ms), text) << ms;
}

TEST(Rfc3339, KnownInstants) {
  const std::pair<std::int64_t, const char*> cases[] = {
      {0, "1970-01-01T00:00:00.000Z"},
      {-1, "1969-12-31T23:59:59.999Z"},
      {951'782'400'000, "2000-02-29T00:00:00.000Z"},
      {1'796'007'101'123, "2026-11-30T02:51:41.123Z"},
      {253'402'300'799'999, "9999-12-31T23:59:59.999Z"},
      {-62'167'219'200'000, "0000-01-01T00:00:00.000Z"},
  };
  for (const auto& [ms, text] : cases) {
    EXPECT_EQ(format_rfc3339(ms), text);
    const auto parsed = parse_rfc3339(text);
    ASSERT_TRUE(parsed.ok()) << parsed.status().to_string();
    EXPECT_EQ(*parsed, ms);
  }
  EXPECT_EQ(format_rfc3339(INT64_MAX), "9999-12-31T23:59:59.999Z");
  EXPECT_EQ(format_rfc3339(INT64_MIN), "0000-01-01T00:00:00.000Z");
}

TEST(Rfc3339, ReadsBackOverTheWholeRange) {
  for (std::int64_t ms = -62'167'219'200'000; ms < 253'402'300'800'000; ms += 77'777'777'777) {
    ASSERT_EQ(*parse_rfc3339(format_rfc3339(ms)), ms);
  }
}

TEST(Rfc3339, StrictForm) {
  for (const char* text :
       {"", "2026-11-30", "2026-11-30T02:51:41Z", "2026-11-30T02:51:41.12Z", "2026-11-30T02:51:41.1234Z",
        "2026-11-30t02:51:41.123Z", "2026-11-30T02:51:41.123z", "2026-11-30 02:51:41.123Z", "2026-11-30T02:51:41,123Z",
        "2026-11-30T02:51:41.123+00:00", "2026-1a-30T02:51:41.123Z", " 2026-11-30T02:51:41.123Z"}) {
    EXPECT_THAT(refusal(parse_rfc3339(text)), HasSubstr("YYYY-MM-DDThh:mm:ss.mmmZ")) << text;
  }
  for (const char* text : {"2026-02-29T00:00:00.000Z", "1900-02-29T00:00:00.000Z", "2026-13-01T00:00:00.000Z",
                           "2026-00-01T00:00:00.000Z", "2026-04-31T00:00:00.000Z", "2026-04-00T00:00:00.000Z"}) {
    EXPECT_THAT(refusal(parse_rfc3339(text)), HasSubstr("no such day")) << text;
  }
  for (const char* text : {"2026-04-01T24:00:00.000Z", "2026-04-01T23:60:00.000Z", "2026-04-01T23:59:60.000Z"}) {
    EXPECT_THAT(refusal(parse_rfc3339(text)), HasSubstr("time of day")) << text;
  }
}

TEST(Ratio, BothWays) {
  const std::pair<const char*, std::uint64_t> cases[] = {
      {"0.5", 500'000}, {"0.25", 250'000}, {"0.000001", 1}, {"0.999999", 999'999}};
  for (const auto& [text, millionths] : cases) {
    EXPECT_EQ(*parse_ratio_millionths(text), millionths);
    EXPECT_EQ(format_ratio(millionths), text);
  }
  EXPECT_EQ(*parse_ratio_millionths("0.500000"), 500'000U);
}

TEST(Ratio, Refusals) {
  for (const char* text : {"0", "1", "0.0", "1.0", "0.000000", "1.5", "2"}) {
    EXPECT_THAT(refusal(parse_ratio_millionths(text)), HasSubstr("larger than 0 and smaller than 1")) << text;
  }
  for (const char* text : {"-0.5", "+0.5", ".5", "0.", "0,5", "50%", "0.5 ", " 0.5", "00.5", "5e-1", "nan", "0.5.1"}) {
    EXPECT_THAT(refusal(parse_ratio_millionths(text)), HasSubstr("decimal between 0 and 1")) << text;
  }
  EXPECT_THAT(refusal(parse_ratio_millionths("")), HasSubstr("empty"));
  EXPECT_THAT(refusal(parse_ratio_millionths("0.0000001")), HasSubstr("7 decimal places"));
  EXPECT_THAT(refusal(parse_ratio_millionths("0.5000000")), HasSubstr("7 decimal places"));
}

TEST(Counted, OneIsNoPlural) {
  EXPECT_EQ(counted(1, "file"), "1 file");
  EXPECT_EQ(counted(0, "file"), "0 files");
  EXPECT_EQ(counted(2, "object"), "2 objects");
}

}  // namespace
}  // namespace steelyard
