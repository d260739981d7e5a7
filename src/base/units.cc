#include "base/units.h"

#include <array>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <optional>
#include <set>
#include <span>

#include "base/check.h"
#include "base/utf8.h"

namespace steelyard {
namespace {

__extension__ using Wide = unsigned __int128;

struct Unit {
  std::string_view name;
  std::uint64_t factor;
};

constexpr std::uint64_t kKi = 1024;
constexpr std::array<Unit, 11> kSizeUnits = {{{"B", 1},
                                              {"KB", 1'000},
                                              {"MB", 1'000'000},
                                              {"GB", 1'000'000'000},
                                              {"TB", 1'000'000'000'000},
                                              {"PB", 1'000'000'000'000'000},
                                              {"KiB", kKi},
                                              {"MiB", kKi* kKi},
                                              {"GiB", kKi* kKi* kKi},
                                              {"TiB", kKi* kKi* kKi* kKi},
                                              {"PiB", kKi* kKi* kKi* kKi* kKi}}};
/// The powers of 1024 among them, and bytes.
constexpr std::array<Unit, 6> kBinaryUnits = {
    {kSizeUnits[0], kSizeUnits[6], kSizeUnits[7], kSizeUnits[8], kSizeUnits[9], kSizeUnits[10]}};
constexpr std::array<Unit, 5> kDurationUnits = {
    {{"ms", 1}, {"s", 1'000}, {"m", 60'000}, {"h", 3'600'000}, {"d", 86'400'000}}};

/// How a kind of quantity is spoken of in refusals.
struct Quantity {
  std::string_view noun;      ///< "size"
  std::string_view grain;     ///< "byte"
  std::string_view examples;  ///< for the hint
  std::span<const Unit> units;
  bool unit_needed;
  std::uint64_t max;
};

std::string unit_names(std::span<const Unit> units) {
  std::string names;
  for (const Unit& unit : units) names.append(names.empty() ? "" : " ").append(unit.name);
  return names;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::size_t leading_digits(std::string_view text) {
  std::size_t count = 0;
  while (count < text.size() && is_digit(text[count])) ++count;
  return count;
}

/// Decimal digits to a number; absent when it does not fit.
std::optional<std::uint64_t> digits_value(std::string_view digits) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

Result<std::uint64_t> parse_quantity(std::string_view text, const Quantity& kind) {
  const auto refuse = [&](const std::string& why) {
    return Status(Code::kInvalidArgument, std::string(kind.noun) + " " + in_quotes(text) + ": " + why,
                  "write it like " + std::string(kind.examples));
  };
  if (text.empty()) return refuse("it is empty");
  if (text[0] == '-' || text[0] == '+') return refuse("no sign is allowed");
  if (text.find_first_of(" \t\r\n\v\f") != std::string_view::npos) return refuse("no space is allowed");

  const std::string_view whole = text.substr(0, leading_digits(text));
  std::string_view rest = text.substr(whole.size());
  if (whole.empty()) return refuse("it must begin with a digit");
  std::string_view places;
  if (!rest.empty() && rest[0] == '.') {
    rest.remove_prefix(1);
    places = rest.substr(0, leading_digits(rest));
    rest.remove_prefix(places.size());
    if (places.empty()) return refuse("a digit must follow the decimal point");
  }

  if (rest.empty() && kind.unit_needed) return refuse("the unit is missing; units are " + unit_names(kind.units));
  std::uint64_t factor = rest.empty() ? 1 : 0;
  for (const Unit& unit : kind.units) {
    if (unit.name == rest) factor = unit.factor;
  }
  if (factor == 0) return refuse("unknown unit " + in_quotes(rest) + "; units are " + unit_names(kind.units));

  const std::string too_large = "it is larger than " + std::to_string(kind.max) + " " + std::string(kind.grain) + "s";
  const auto number = digits_value(whole);
  if (!number) return refuse(too_large);
  Wide value = Wide{*number} * factor;
  while (places.ends_with('0')) places.remove_suffix(1);
  if (!places.empty()) {
    if (places.size() > 18) return refuse("more than 18 decimal places are not read");
    Wide scale = 1;
    for (std::size_t i = 0; i < places.size(); ++i) scale *= 10;
    const Wide part = Wide{digits_value(places).value_or(0)} * factor;
    if (part % scale != 0) return refuse("it is not a whole number of " + std::string(kind.grain) + "s");
    value += part / scale;
  }
  if (value > kind.max) return refuse(too_large);
  return static_cast<std::uint64_t>(value);
}

Status bad_instant(std::string_view text, std::string_view why) {
  return Status(Code::kInvalidArgument, "instant " + in_quotes(text) + ": " + std::string(why),
                "write it like 2026-11-30T02:51:41.123Z");
}

}  // namespace

Result<std::uint64_t> parse_size(std::string_view text) {
  return parse_quantity(text, {.noun = "size",
                               .grain = "byte",
                               .examples = "4096, 512MB or 64MiB",
                               .units = kSizeUnits,
                               .unit_needed = false,
                               .max = UINT64_MAX});
}

std::string counted(std::uint64_t count, std::string_view noun) {
  return std::to_string(count) + " " + std::string(noun) + (count == 1 ? "" : "s");
}

Result<std::int64_t> parse_duration_ms(std::string_view text) {
  SY_ASSIGN_OR_RETURN(const std::uint64_t ms, parse_quantity(text, {.noun = "duration",
                                                                    .grain = "millisecond",
                                                                    .examples = "500ms, 10s, 5m, 2h or 30d",
                                                                    .units = kDurationUnits,
                                                                    .unit_needed = true,
                                                                    .max = INT64_MAX}));
  return static_cast<std::int64_t>(ms);
}

std::string format_size(std::uint64_t bytes) {
  if (bytes < kKi) return std::to_string(bytes) + "B";
  for (std::size_t i = kBinaryUnits.size() - 1; i > 0; --i) {
    const Unit& unit = kBinaryUnits[i];
    if (bytes % unit.factor != 0) continue;
    if (bytes / unit.factor < 10'000 || i + 1 == kBinaryUnits.size()) {
      return std::to_string(bytes / unit.factor) + std::string(unit.name);
    }
    break;
  }
  // The smallest unit in which the number, rounded to three digits, stays below 1000.
  for (std::size_t i = 1; i < kBinaryUnits.size(); ++i) {
    const Unit& unit = kBinaryUnits[i];
    const auto rounded = [&](std::uint64_t scale) {
      return static_cast<std::uint64_t>((Wide{bytes} * scale + unit.factor / 2) / unit.factor);
    };
    const bool last = i + 1 == kBinaryUnits.size();
    std::array<char, 48> text{};
    if (rounded(1000) < 1000) {
      std::snprintf(text.data(), text.size(), "0.%03llu", static_cast<unsigned long long>(rounded(1000)));
    } else if (rounded(100) < 1000) {
      const std::uint64_t number = rounded(100);
      std::snprintf(text.data(), text.size(), "%llu.%02llu", static_cast<unsigned long long>(number / 100),
                    static_cast<unsigned long long>(number % 100));
    } else if (rounded(10) < 1000) {
      const std::uint64_t number = rounded(10);
      std::snprintf(text.data(), text.size(), "%llu.%llu", static_cast<unsigned long long>(number / 10),
                    static_cast<unsigned long long>(number % 10));
    } else if (rounded(1) < 1000 || last) {
      std::snprintf(text.data(), text.size(), "%llu", static_cast<unsigned long long>(rounded(1)));
    } else {
      continue;
    }
    return text.data() + std::string(unit.name);
  }
  check_failed(__FILE__, __LINE__, "format_size", "no unit fits");
}

std::vector<std::string> format_sizes_apart(std::initializer_list<std::uint64_t> sizes) {
  std::vector<std::string> texts;
  std::set<std::string> told;
  for (const std::uint64_t size : sizes) told.insert(texts.emplace_back(format_size(size)));
  if (told.size() == std::set<std::uint64_t>(sizes).size()) return texts;
  texts.clear();
  for (const std::uint64_t size : sizes) texts.push_back(std::to_string(size) + "B");
  return texts;
}

std::string format_duration(std::int64_t duration_ms) {
  const bool negative = duration_ms < 0;
  const std::uint64_t magnitude =
      negative ? ~static_cast<std::uint64_t>(duration_ms) + 1 : static_cast<std::uint64_t>(duration_ms);
  if (magnitude == 0) return "0s";
  for (std::size_t i = kDurationUnits.size(); i > 0; --i) {
    const Unit& unit = kDurationUnits[i - 1];
    if (magnitude % unit.factor != 0) continue;
    return (negative ? "-" : "") + std::to_string(magnitude / unit.factor) + std::string(unit.name);
  }
  check_failed(__FILE__, __LINE__, "format_duration", "a millisecond divides every duration");
}

std::string format_age(std::int64_t duration_ms) {
  const std::uint64_t age = duration_ms < 0 ? 0 : static_cast<std::uint64_t>(duration_ms);
  if (age == 0) return "0s";
  for (std::size_t i = kDurationUnits.size(); i > 0; --i) {
    const Unit& unit = kDurationUnits[i - 1];
    if (age < unit.factor) continue;
    std::string text = std::to_string(age / unit.factor) + std::string(unit.name);
    if (unit.factor > 1'000) {
      const Unit& next = kDurationUnits[i - 2];
      const std::uint64_t rest = age % unit.factor / next.factor;
      if (rest != 0) text += std::to_string(rest) + std::string(next.name);
    }
    return text;
  }
  check_failed(__FILE__, __LINE__, "format_age", "an age that is not 0 has a unit");
}

std::string format_rfc3339(std::int64_t wall_ms) {
  using namespace std::chrono;
  constexpr std::int64_t kMsPerDay = 86'400'000;
  constexpr std::int64_t kFirst = sys_days(year{0} / January / 1).time_since_epoch().count() * kMsPerDay;
  constexpr std::int64_t kEnd = sys_days(year{10'000} / January / 1).time_since_epoch().count() * kMsPerDay;
  const std::int64_t instant = std::min(std::max(wall_ms, kFirst), kEnd - 1);
  const auto day = floor<days>(sys_time<milliseconds>(milliseconds(instant)));
  const year_month_day date(day);
  const auto in_day = static_cast<unsigned>(instant - day.time_since_epoch().count() * kMsPerDay);
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%04d-%02u-%02uT%02u:%02u:%02u.%03uZ", static_cast<int>(date.year()),
                static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()), in_day / 3'600'000,
                in_day / 60'000 % 60, in_day / 1'000 % 60, in_day % 1'000);
  return text.data();
}

Result<std::int64_t> parse_rfc3339(std::string_view text) {
  using namespace std::chrono;
  constexpr std::string_view kShape = "dddd-dd-ddTdd:dd:dd.dddZ";
  if (text.size() != kShape.size()) return bad_instant(text, "it must have the form YYYY-MM-DDThh:mm:ss.mmmZ");
  for (std::size_t i = 0; i < kShape.size(); ++i) {
    if (kShape[i] == 'd' ? !is_digit(text[i]) : text[i] != kShape[i]) {
      return bad_instant(text, "it must have the form YYYY-MM-DDThh:mm:ss.mmmZ");
    }
  }
  const auto number = [&](std::size_t at, std::size_t digits) {
    unsigned value = 0;
    for (const char c : text.substr(at, digits)) value = value * 10 + static_cast<unsigned>(c - '0');
    return value;
  };
  const year_month_day date(year{static_cast<int>(number(0, 4))}, month{number(5, 2)}, day{number(8, 2)});
  if (!date.ok()) return bad_instant(text, "there is no such day");
  const unsigned hour = number(11, 2);
  const unsigned minute = number(14, 2);
  const unsigned second = number(17, 2);
  if (hour > 23 || minute > 59 || second > 59) return bad_instant(text, "there is no such time of day");
  return sys_days(date).time_since_epoch().count() * std::int64_t{86'400'000} +
         ((hour * 60 + minute) * 60 + second) * std::int64_t{1000} + number(20, 3);
}

Result<std::uint64_t> parse_ratio_millionths(std::string_view text) {
  const auto refuse = [&](std::string_view why) {
    return Status(Code::kInvalidArgument, "ratio " + in_quotes(text) + ": " + std::string(why), "write it like 0.25");
  };
  constexpr std::string_view kWanted = "a decimal between 0 and 1 (both excluded) with at most 6 places is wanted";
  if (text.empty()) return refuse("it is empty");
  const std::string_view whole = text.substr(0, leading_digits(text));
  std::string_view places = text.substr(whole.size());
  if (whole.empty() || (whole.size() > 1 && whole[0] == '0')) return refuse(kWanted);
  if (!places.empty()) {
    if (places[0] != '.') return refuse(kWanted);
    places.remove_prefix(1);
    if (places.empty() || leading_digits(places) != places.size()) return refuse(kWanted);
  }
  if (places.size() > 6)
    return refuse("it has " + std::to_string(places.size()) + " decimal places, at most 6 are kept");
  std::string digits(places);
  digits.resize(6, '0');
  const std::uint64_t millionths = digits_value(digits).value_or(0);
  if (whole != "0" || millionths == 0) return refuse("it must be larger than 0 and smaller than 1");
  return millionths;
}

std::string format_ratio(std::uint64_t millionths) {
  SY_CHECK(millionths >= 1 && millionths <= 999'999, "a ratio is 1 to 999999 millionths");
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "0.%06u", static_cast<unsigned>(millionths));
  std::string ratio = text.data();
  ratio.erase(ratio.find_last_not_of('0') + 1);
  return ratio;
}

}  // namespace steelyard
