#include "cli/settings.h"

#include <algorithm>

#include "base/limits.h"
#include "base/units.h"
#include "base/utf8.h"

namespace steelyard::cli {
namespace {

using enum SettingType;
using limits::kGiB;
using limits::kMiB;

constexpr std::uint64_t kPiB = kGiB * 1024 * 1024;
constexpr std::uint64_t kSecond = 1000;
constexpr std::uint64_t kHour = 3600 * kSecond;
constexpr std::uint64_t kDay = 24 * kHour;

// One row a setting. docs/settings.md is generated from it; a test compares them.
constexpr SettingSpec kTable[] = {
    {.name = "store",
     .type = kPath,
     .fallback_words = "`$XDG_DATA_HOME/steelyard`, else `~/.local/share/steelyard`",
     .placeholder = "DIR",
     .help = "the store's folder",
     .front = true},
    {.name = "namespace",
     .type = kText,
     .fallback = "default",
     .placeholder = "NS",
     .help = "the namespace of every identity",
     .short_flag = 'n',
     .front = true},
    {.name = "tenant",
     .type = kText,
     .fallback = "default",
     .placeholder = "T",
     .help = "the tenant of every identity",
     .front = true},
    {.name = "json", .type = kBool, .fallback = "false", .help = "one JSON document on stdout", .front = true},
    {.name = "quiet",
     .type = kBool,
     .fallback = "false",
     .help = "only the essential on stdout: refs or paths, one a line",
     .short_flag = 'q',
     .front = true},
    {.name = "progress",
     .type = kChoice,
     .fallback = "auto",
     .choices = "auto|plain|json|none",
     .help = "progress on stderr: auto is a bar on a terminal and a line every few seconds elsewhere",
     .front = true},
    {.name = "io_memory",
     .type = kSize,
     .min = limits::kIoMemoryMin,
     .max = limits::kIoMemoryMax,
     .fallback = "256MiB",
     .placeholder = "SIZE",
     .help = "the budget of the I/O buffers of one command; lowered to what the cgroup allows",
     .front = true},
    {.name = "jobs",
     .type = kCount,
     .min = 1,
     .max = 256,
     .fallback_words = "the number of cores",
     .placeholder = "N",
     .help = "worker threads",
     .front = true},
    {.name = "yes",
     .type = kBool,
     .fallback = "false",
     .help = "do not ask before a destructive verb",
     .short_flag = 'y',
     .front = true},
    {.name = "log_level",
     .type = kChoice,
     .fallback = "warn",
     .choices = "trace|debug|info|warn|error",
     .help = "messages below this level are dropped; the others go to stderr",
     .front = true},
    {.name = "chunk_size",
     .type = kSize,
     .min = limits::kChunkBytesMin,
     .max = limits::kChunkBytesMax,
     .step = kMiB,
     .fallback = "64MiB",
     .placeholder = "SIZE",
     .help = "size of the objects that an import cuts files into; unless it is given, a new generation takes that of "
             "the one before"},
    {.name = "header_limit",
     .type = kSize,
     .min = 8,
     .max = kGiB,
     .fallback = "100MB",
     .placeholder = "SIZE",
     .help = "the largest safetensors header that is read"},
    {.name = "cold.path",
     .type = kPath,
     .fallback_words = "inside the store",
     .placeholder = "DIR",
     .help = "the folder of the cold tier: a local disk or a mounted shared volume"},
    {.name = "cold.medium",
     .type = kChoice,
     .fallback = "disk",
     .choices = "disk|dfs|nof",
     .help = "what the cold tier's folder lies on"},
    {.name = "cold.reserve_free",
     .type = kSize,
     .min = 0,
     .max = kPiB,
     .fallback_words = "the larger of 5 % and 10GiB, never more than half of the filesystem",
     .placeholder = "SIZE",
     .help = "free space of the cold tier's filesystem that an import leaves alone"},
    {.name = "hot.path",
     .type = kPath,
     .fallback = "/dev/shm",
     .placeholder = "DIR",
     .help = "the tmpfs of the hot tier"},
    {.name = "hot.capacity",
     .type = kSize,
     .min = kMiB,
     .max = kPiB,
     .fallback_words = "half of the filesystem of hot.path",
     .placeholder = "SIZE",
     .help = "bytes that the hot tier may hold"},
    {.name = "hot.high_watermark",
     .type = kRatio,
     .min = 1,
     .max = 999'999,
     .fallback = "0.9",
     .placeholder = "RATIO",
     .help = "share of hot.capacity at which room is made"},
    {.name = "hot.low_watermark",
     .type = kRatio,
     .min = 1,
     .max = 999'999,
     .fallback = "0.8",
     .placeholder = "RATIO",
     .help = "share of hot.capacity down to which room is made"},
    {.name = "lease.ttl",
     .type = kDuration,
     .min = static_cast<std::uint64_t>(limits::kLeaseTtlMsMin),
     .max = static_cast<std::uint64_t>(limits::kLeaseTtlMsMax),
     .fallback = "30s",
     .placeholder = "D",
     .help = "time to live of a lease; the program's own are renewed at a third of it"},
    {.name = "import.writer_ttl",
     .type = kDuration,
     .min = 2 * kSecond,
     .max = kHour,
     .fallback = "1m",
     .placeholder = "D",
     .help = "after this time without a sign of life an import may be taken over by another writer"},
    {.name = "import.abandon_after",
     .type = kDuration,
     .min = 2 * kSecond,
     .max = 30 * kDay,
     .fallback = "1d",
     .placeholder = "D",
     .help = "an unfinished import without a sign of life for this long is aborted by `reconcile`"},
    {.name = "policy.prefer",
     .type = kChoice,
     .fallback = "cold",
     .choices = "hot|cold|mixed",
     .help = "where an imported revision should be; recorded with it, and what `import --residency` defaults to"},
    {.name = "policy.ratio",
     .type = kRatio,
     .min = 1,
     .max = 999'999,
     .fallback_words = "none",
     .placeholder = "RATIO",
     .help = "the hot share of a revision that prefers mixed; recorded with it"},
    {.name = "policy.mode",
     .type = kChoice,
     .fallback = "manual",
     .choices = "pinned|manual|auto",
     .help = "who may move a revision between the tiers; recorded with it"},
    {.name = "policy.cooldown",
     .type = kDuration,
     .min = 0,
     .max = 30 * kDay,
     .fallback = "5m",
     .placeholder = "D",
     .help = "the shortest time between two automatic moves of a revision"},
    {.name = "log.snapshot_every",
     .type = kCount,
     .min = 0,
     .max = 1'000'000'000,
     .fallback = "10000",
     .placeholder = "N",
     .help = "log entries after which a snapshot of the catalog is saved and copied to the cold tier; 0: never"},
    {.name = "gc.grace",
     .type = kDuration,
     .min = 0,
     .max = 30 * kDay,
     .fallback = "1h",
     .placeholder = "D",
     .help = "content that nothing refers to is kept for this long after its last name went, and temporary files after "
             "the last "
             "write, then freed by `gc`"},
    {.name = "weight_management_oplog_capability_confirmed",
     .type = kBool,
     .fallback = "false",
     .help = "the operator's word that every standby of a replicated log understands weight entries"},
};

std::vector<std::string> choices_of(std::string_view choices) {
  std::vector<std::string> names;
  while (!choices.empty()) {
    const std::size_t end = choices.find('|');
    names.emplace_back(choices.substr(0, end));
    choices = end == std::string_view::npos ? std::string_view() : choices.substr(end + 1);
  }
  return names;
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return out;
}

/// A bound as people write it.
std::string bound(const SettingSpec& spec, std::uint64_t value) {
  switch (spec.type) {
    case kSize:
      return format_size(value);
    case kDuration:
      return value == 0 ? "0s" : format_duration(static_cast<std::int64_t>(value));
    case kRatio:
      return format_ratio(value);
    default:
      return std::to_string(value);
  }
}

Result<std::uint64_t> parse_count(std::string_view text) {
  if (text.empty() || text.size() > 19 || text.find_first_not_of("0123456789") != std::string_view::npos) {
    return Status(Code::kInvalidArgument, in_quotes(text) + " is not a whole number");
  }
  std::uint64_t number = 0;
  for (char c : text) number = number * 10 + static_cast<std::uint64_t>(c - '0');
  return number;
}

Result<std::uint64_t> parse_number(const SettingSpec& spec, std::string_view text) {
  switch (spec.type) {
    case kSize:
      return parse_size(text);
    case kDuration: {
      SY_ASSIGN_OR_RETURN(std::int64_t duration_ms, parse_duration_ms(text));
      return static_cast<std::uint64_t>(duration_ms);
    }
    case kRatio:
      return parse_ratio_millionths(text);
    default:
      return parse_count(text);
  }
}

}  // namespace

std::span<const SettingSpec> settings_table() { return kTable; }

const SettingSpec* find_setting(std::string_view name) {
  for (const SettingSpec& spec : kTable) {
    if (spec.name == name) return &spec;
  }
  return nullptr;
}

std::string flag_of(const SettingSpec& spec) {
  std::string flag = "--";
  for (char c : spec.name) flag.push_back(c == '.' || c == '_' ? '-' : c);
  return flag;
}

std::string environment_of(const SettingSpec& spec) {
  std::string name = "STEELYARD_";
  for (char c : spec.name) {
    name.push_back(c == '.' ? '_' : c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c);
  }
  return name;
}

std::string wanted_of(const SettingSpec& spec) {
  const std::string range = bound(spec, spec.min) + " to " + bound(spec, spec.max);
  switch (spec.type) {
    case kPath:
      return "a path";
    case kText:
      return "a name";
    case kSize:
      return (spec.step > 1 ? "a multiple of " + format_size(spec.step) + " from " : "a size from ") + range;
    case kDuration:
      return "a duration from " + range;
    case kCount:
      return "a whole number from " + range;
    case kRatio:
      return "a ratio from " + range;
    case kBool:
      return "true or false (or 1, yes, on, 0, no, off)";
    case kChoice:
      return listed(spec.choices);
  }
  return {};
}

std::optional<std::string> find_choice(std::string_view choices, std::string_view text) {
  for (const std::string& choice : choices_of(choices)) {
    if (lower(choice) == lower(text)) return choice;
  }
  return std::nullopt;
}

std::string listed(std::string_view choices) {
  std::string words;
  for (const std::string& choice : choices_of(choices)) words += (words.empty() ? "one of " : ", ") + choice;
  return words;
}

std::string default_words(const SettingSpec& spec) {
  return std::string(spec.fallback.empty() ? spec.fallback_words : spec.fallback);
}

std::optional<bool> parse_boolean(std::string_view text) {
  const std::string word = lower(text);
  if (word == "1" || word == "true" || word == "yes" || word == "on") return true;
  if (word == "0" || word == "false" || word == "no" || word == "off") return false;
  return std::nullopt;
}

Result<SettingValue> parse_setting(const SettingSpec& spec, std::string_view text, std::string_view where) {
  const std::string begin(where);
  auto refuse = [&](const std::string& found) {
    return Status(Code::kInvalidArgument, begin + found + "; wanted " + wanted_of(spec));
  };
  SettingValue value;
  value.text = std::string(text);
  value.where = begin;
  switch (spec.type) {
    case kPath:
    case kText:
      if (text.empty()) return refuse(" is empty");
      return value;
    case kBool: {
      const std::optional<bool> on = parse_boolean(text);
      if (!on) return refuse(" is " + in_quotes(text));
      value.number = *on ? 1 : 0;
      value.text = *on ? "true" : "false";
      return value;
    }
    case kChoice: {
      auto choice = find_choice(spec.choices, text);
      if (!choice) return refuse(" is " + in_quotes(text));
      value.text = *std::move(choice);
      return value;
    }
    default:
      break;
  }
  Result<std::uint64_t> number = parse_number(spec, text);
  if (!number.ok()) return refuse(": " + number.status().message());
  if (*number < spec.min || *number > spec.max || *number % spec.step != 0) return refuse(" is " + std::string(text));
  value.number = *number;
  return value;
}

}  // namespace steelyard::cli
