// Verbs: what one is, and what it gets when it runs. Each verb's file defines its VerbSpec; verbs.cc lists them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/runtime.h"
#include "base/status.h"
#include "cli/output.h"
#include "cli/settings.h"
#include "store/store.h"

namespace steelyard::cli {

/// A flag of one verb. Verb flags have no environment variable.
struct FlagSpec {
  std::string_view name;         ///< `--include`
  std::string_view placeholder;  ///< empty: a switch without a value
  std::string_view help;
  bool repeatable = false;
  std::string_view choices = {};  ///< `a|b`
  bool hidden = false;
};

class Invocation;

/// One verb, or one sub-verb of it (`lease acquire`).
struct VerbSpec {
  std::string_view name;
  std::string_view sub = {};
  std::string_view alias = {};
  std::string_view operands = {};  ///< as the usage line has them
  std::size_t operands_min = 0;
  std::size_t operands_max = 0;
  std::string_view summary;
  std::string_view prints = {};  ///< the last line of stdout
  std::span<const FlagSpec> flags = {};
  std::string_view example = {};  ///< lines for the end of its help
  Status (*run)(Invocation& call) = nullptr;
};

/// Every verb and sub-verb, in the order of the help.
std::span<const VerbSpec* const> all_verbs();

/// What the command line asked for.
struct Arguments {
  const VerbSpec* verb = nullptr;
  bool help = false;  ///< of the verb, of the group, or the first page without one
  std::string group;  ///< of a verb that wants a sub-verb, where that is not given
  bool version = false;
  SettingFlags settings;
  std::vector<std::string> operands;
  std::vector<std::pair<const FlagSpec*, std::string>> flags;
};

/// INVALID_ARGUMENT names the flag or verb, what was found and what was wanted; the hint has the nearest known one.
Result<Arguments> parse_arguments(std::span<const char* const> words);

/// Help texts.
std::string front_page();
std::string help_of(const VerbSpec& verb);
/// Of a verb with sub-verbs.
std::string help_of_group(std::string_view name);
std::string version_text();

/// A verb's arguments, settings and output.
class Invocation {
 public:
  Invocation(Arguments arguments, Settings settings)
      : arguments_(std::move(arguments)), settings_(std::move(settings)) {}

  const Settings& settings() const { return settings_; }
  const std::vector<std::string>& operands() const { return arguments_.operands; }
  bool has(std::string_view flag) const { return find(flag).has_value(); }
  /// The last value given.
  std::optional<std::string> find(std::string_view flag) const;
  std::vector<std::string> all(std::string_view flag) const;
  /// Numbers and durations of a verb's own flags; the message names the flag and the range.
  Result<std::optional<std::uint64_t>> count(std::string_view flag, std::uint64_t min, std::uint64_t max) const;
  Result<std::optional<std::int64_t>> duration_ms(std::string_view flag, std::int64_t min, std::int64_t max) const;
  /// A ratio in millionths.
  Result<std::optional<std::uint32_t>> ratio(std::string_view flag) const;

  /// --expect-generation.
  Result<std::optional<std::uint64_t>> expected_generation() const;

  Output& out() { return out_; }
  bool json() const { return settings_.on("json"); }
  bool quiet() const { return settings_.on("quiet"); }
  Runtime& runtime() const { return real_runtime(); }

  /// Where the store is that the settings name, and what they say of it.
  Result<store::StoreOptions> store_options() const;
  /// The store that the settings name.
  Result<std::unique_ptr<store::Store>> open_store(store::OpenMode mode) const;
  /// Tenant and namespace of the settings, checked, and the parsed reference.
  Result<store::Selector> selector(const std::string& ref) const;
  /// Checks the tenant and the namespace.
  Status check_names() const;

 private:
  Arguments arguments_;
  Settings settings_;
  Output out_;
};

/// The flag that reading verbs share.
inline constexpr FlagSpec kAllowDegraded = {
    .name = "--allow-degraded", .placeholder = {}, .help = "read a DEGRADED revision too; what is damaged is an error"};

/// The fence of the verbs that change a record.
inline constexpr FlagSpec kExpectGeneration = {
    .name = "--expect-generation",
    .placeholder = "N",
    .help = "only if the record's metadata_generation is N (default: the one that is there)"};

/// A usage error of a flag: "--range is "x"; wanted ...".
Status bad_flag(std::string_view flag, std::string_view found, std::string_view wanted, std::string hint = {});

}  // namespace steelyard::cli
