// Sizes, durations, instants and ratios as people and scripts write them.
//
// Every parser is strict: no sign, no space, nothing before or after, exact spelling of the unit. A refusal is
// INVALID_ARGUMENT; its message quotes the text and says what is wrong and what was wanted.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace steelyard {

/// Bytes from `512`, `512B`, `10KB` (1000), `64MiB` (1024 * 1024), `1.5GiB`; the units are B KB MB GB TB PB and KiB MiB
/// GiB TiB PiB. A decimal is accepted where it gives whole bytes.
Result<std::uint64_t> parse_size(std::string_view text);

/// `64MiB`, `1536KiB`, `512B`: exact where at most four digits are needed for it; otherwise rounded to three
/// significant digits, `1.46KiB`. parse_size reads the exact forms back (but `16384PiB`, to which the last values of
/// the type are rounded).
std::string format_size(std::uint64_t bytes);

/// The sizes of one message: as format_size, but all of them in bytes where two that differ would read the same.
std::vector<std::string> format_sizes_apart(std::initializer_list<std::uint64_t> sizes);

/// "1 object", "3 objects".
std::string counted(std::uint64_t count, std::string_view noun);

/// Milliseconds from `500ms`, `10s`, `5m`, `2h`, `30d`; the unit is needed. A decimal is accepted where it gives whole
/// milliseconds. Never negative.
Result<std::int64_t> parse_duration_ms(std::string_view text);

/// The exact duration in the largest unit that divides it: `90s`, `1500ms`, `1d`. parse_duration_ms reads it back.
/// A negative duration is written with `-`.
std::string format_duration(std::int64_t duration_ms);

/// For messages: at most two units, rounded down: `350ms`, `12s`, `3m20s`, `2h5m`, `1d3h`. Negative ages count as 0.
std::string format_age(std::int64_t duration_ms);

/// `2026-11-30T02:51:41.123Z`. Instants outside of the years 0000 to 9999 are clamped to them.
std::string format_rfc3339(std::int64_t wall_ms);

/// Exactly the form that format_rfc3339 writes: UTC, three decimals, `Z`; days must exist; no leap seconds.
Result<std::int64_t> parse_rfc3339(std::string_view text);

/// Millionths, 1 to 999999, from a decimal between 0 and 1 (both excluded) with at most 6 places: `0.25`.
Result<std::uint64_t> parse_ratio_millionths(std::string_view text);

/// `0.25`: the shortest decimal for 1 to 999999 millionths. parse_ratio_millionths reads it back.
std::string format_ratio(std::uint64_t millionths);

}  // namespace steelyard
