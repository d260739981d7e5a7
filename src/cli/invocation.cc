#include <sys/stat.h>

#include "base/units.h"
#include "base/utf8.h"
#include "cli/verb.h"
#include "formats/identity.h"
#include "formats/ref.h"

namespace steelyard::cli {

Status bad_flag(std::string_view flag, std::string_view found, std::string_view wanted, std::string hint) {
  return {Code::kInvalidArgument, std::string(flag) + " is " + in_quotes(found) + "; wanted " + std::string(wanted),
          std::move(hint)};
}

std::optional<std::string> Invocation::find(std::string_view flag) const {
  for (auto at = arguments_.flags.rbegin(); at != arguments_.flags.rend(); ++at) {
    if (at->first->name == flag) return at->second;
  }
  return std::nullopt;
}

std::vector<std::string> Invocation::all(std::string_view flag) const {
  std::vector<std::string> values;
  for (const auto& [spec, value] : arguments_.flags) {
    if (spec->name == flag) values.push_back(value);
  }
  return values;
}

Result<std::optional<std::uint64_t>> Invocation::count(std::string_view flag, std::uint64_t min,
                                                       std::uint64_t max) const {
  const std::optional<std::string> text = find(flag);
  if (!text) return std::optional<std::uint64_t>();
  const std::string wanted = "a whole number from " + std::to_string(min) + " to " + std::to_string(max);
  if (text->empty() || text->size() > 19 || text->find_first_not_of("0123456789") != std::string::npos) {
    return bad_flag(flag, *text, wanted);
  }
  if (text->size() > 1 && text->front() == '0') return bad_flag(flag, *text, wanted + " without leading zeros");
  std::uint64_t number = 0;
  for (char c : *text) number = number * 10 + static_cast<std::uint64_t>(c - '0');
  if (number < min || number > max) return bad_flag(flag, *text, wanted);
  return std::optional<std::uint64_t>(number);
}

Result<std::optional<std::int64_t>> Invocation::duration_ms(std::string_view flag, std::int64_t min,
                                                            std::int64_t max) const {
  const std::optional<std::string> text = find(flag);
  if (!text) return std::optional<std::int64_t>();
  const std::string wanted =
      "a duration from " + (min == 0 ? std::string("0s") : format_duration(min)) + " to " + format_duration(max);
  Result<std::int64_t> duration = parse_duration_ms(*text);
  if (!duration.ok()) {
    return Status(Code::kInvalidArgument,
                  std::string(flag) + ": " + duration.status().message() + "; wanted " + wanted);
  }
  if (*duration < min || *duration > max) return bad_flag(flag, *text, wanted);
  return std::optional<std::int64_t>(*duration);
}

Result<std::optional<std::uint32_t>> Invocation::ratio(std::string_view flag) const {
  const std::optional<std::string> text = find(flag);
  if (!text) return std::optional<std::uint32_t>();
  const Result<std::uint64_t> millionths = parse_ratio_millionths(*text);
  if (!millionths.ok()) {
    return Status(
        Code::kInvalidArgument,
        std::string(flag) + ": " + millionths.status().message() + "; wanted a ratio from 0.000001 to 0.999999",
        millionths.status().hint());
  }
  return std::optional(static_cast<std::uint32_t>(*millionths));
}

Result<std::optional<std::uint64_t>> Invocation::expected_generation() const {
  return count(kExpectGeneration.name, 1, INT64_MAX);
}

Result<store::StoreOptions> Invocation::store_options() const {
  SY_RETURN_IF_ERROR(check_names());
  const std::string path = settings_.text("store");
  if (path.empty()) {
    return Status(Code::kInvalidArgument, "no store is named, and neither XDG_DATA_HOME nor HOME is set",
                  "name one with --store DIR or STEELYARD_STORE");
  }
  struct stat info {};
  if (stat(path.c_str(), &info) == 0 && !S_ISDIR(info.st_mode)) {
    return Status(Code::kInvalidArgument, "the store " + printable(path) + " is not a folder",
                  "name another with --store DIR or STEELYARD_STORE");
  }
  store::StoreOptions options;
  options.path = path;
  options.cold_path = settings_.text("cold.path");
  const std::string medium = settings_.text("cold.medium");
  options.cold_medium = medium == "dfs"   ? tiers::Medium::kDfs
                        : medium == "nof" ? tiers::Medium::kNof
                                          : tiers::Medium::kDisk;
  if (settings_.value("cold.reserve_free").text) options.cold_reserve_free = settings_.number("cold.reserve_free");
  options.hot_path = settings_.text("hot.path");
  if (settings_.value("hot.capacity").text) options.hot_capacity = settings_.number("hot.capacity");
  options.hot_high_watermark_millionths = static_cast<std::uint32_t>(settings_.number("hot.high_watermark"));
  options.hot_low_watermark_millionths = static_cast<std::uint32_t>(settings_.number("hot.low_watermark"));
  options.policy_cooldown_ms = static_cast<std::int64_t>(settings_.number("policy.cooldown"));
  options.io_memory = settings_.number("io_memory");
  options.jobs = static_cast<unsigned>(settings_.number("jobs"));
  options.header_limit = settings_.number("header_limit");
  options.writer_ttl_ms = static_cast<std::int64_t>(settings_.number("import.writer_ttl"));
  options.lease_ttl_ms = static_cast<std::int64_t>(settings_.number("lease.ttl"));
  options.abandon_after_ms = static_cast<std::int64_t>(settings_.number("import.abandon_after"));
  options.gc_grace_ms = static_cast<std::int64_t>(settings_.number("gc.grace"));
  options.snapshot_every = settings_.number("log.snapshot_every");
  options.oplog_capability_confirmed = settings_.on("weight_management_oplog_capability_confirmed");
  return options;
}

Result<std::unique_ptr<store::Store>> Invocation::open_store(store::OpenMode mode) const {
  SY_ASSIGN_OR_RETURN(const store::StoreOptions options, store_options());
  return store::Store::open(runtime(), options, mode);
}

Status Invocation::check_names() const {
  return formats::validate(formats::Lineage{settings_.text("tenant"), settings_.text("namespace"), "x", "main"});
}

Result<store::Selector> Invocation::selector(const std::string& ref) const {
  SY_RETURN_IF_ERROR(check_names());
  store::Selector selector;
  selector.tenant_id = settings_.text("tenant");
  selector.namespace_id = settings_.text("namespace");
  SY_ASSIGN_OR_RETURN(selector.ref, formats::parse_ref(ref));
  return selector;
}

}  // namespace steelyard::cli
