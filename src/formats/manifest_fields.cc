#include "formats/manifest_fields.h"

#include <chrono>

namespace steelyard::formats::manifest_fields {
namespace {

constexpr std::int64_t kMsPerDay = 86'400'000;

void append_padded(std::int64_t value, std::size_t digits, std::string& out) {
  const std::string text = std::to_string(value);
  out.append(digits - text.size(), '0').append(text);
}

std::optional<unsigned> digits_at(std::string_view text, std::size_t at, std::size_t count) {
  unsigned value = 0;
  for (const char c : text.substr(at, count)) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + static_cast<unsigned>(c - '0');
  }
  return value;
}

}  // namespace

std::string format_time(std::int64_t ms) {
  const std::chrono::sys_days day{std::chrono::days(ms / kMsPerDay)};
  const std::chrono::year_month_day date{day};
  const std::int64_t rest = ms % kMsPerDay;
  std::string out;
  append_padded(int{date.year()}, 4, out);
  out += '-';
  append_padded(unsigned{date.month()}, 2, out);
  out += '-';
  append_padded(unsigned{date.day()}, 2, out);
  out += 'T';
  append_padded(rest / 3'600'000, 2, out);
  out += ':';
  append_padded(rest / 60'000 % 60, 2, out);
  out += ':';
  append_padded(rest / 1000 % 60, 2, out);
  out += '.';
  append_padded(rest % 1000, 3, out);
  out += 'Z';
  return out;
}

std::optional<std::int64_t> parse_time(std::string_view text) {
  constexpr std::string_view kForm = "0000-00-00T00:00:00.000Z";
  if (text.size() != kForm.size()) return std::nullopt;
  const auto year = digits_at(text, 0, 4);
  const auto month = digits_at(text, 5, 2);
  const auto day = digits_at(text, 8, 2);
  const auto hour = digits_at(text, 11, 2);
  const auto minute = digits_at(text, 14, 2);
  const auto second = digits_at(text, 17, 2);
  const auto milli = digits_at(text, 20, 3);
  if (!year || !month || !day || !hour || !minute || !second || !milli) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(static_cast<int>(*year)), std::chrono::month(*month),
                                         std::chrono::day(*day)};
  if (!date.ok()) return std::nullopt;
  const std::int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
  const std::int64_t ms = days * kMsPerDay + *hour * 3'600'000LL + *minute * 60'000LL + *second * 1000LL + *milli;
  // Hours, minutes, seconds beyond their range, a leap second and wrong separators all fail here.
  if (ms < 0 || ms > kCreatedAtMsMax || format_time(ms) != text) return std::nullopt;
  return ms;
}

}  // namespace steelyard::formats::manifest_fields
