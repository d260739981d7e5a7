// Settings: one table makes global flags, environment names, config keys, help and docs/settings.md.
//
// `cold.path` is `--cold-path`, `STEELYARD_COLD_PATH` and `[cold] path`. Precedence: flag, environment, config file,
// default. Thread-compatible.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace steelyard::cli {

enum class SettingType : std::uint8_t { kPath, kText, kSize, kDuration, kCount, kRatio, kBool, kChoice };

/// One row of the table. Plain constants, so that starting the program costs nothing.
struct SettingSpec {
  std::string_view name;  ///< `cold.path`
  SettingType type = SettingType::kText;
  std::uint64_t min = 0;                 ///< size in bytes, duration in ms, count, millionths
  std::uint64_t max = 0;                 ///< inclusive
  std::uint64_t step = 1;                ///< a multiple of it
  std::string_view fallback = {};        ///< the default as people write it; empty: none or computed
  std::string_view fallback_words = {};  ///< says the default where `fallback` cannot
  std::string_view choices = {};         ///< `a|b|c`
  std::string_view placeholder = {};     ///< in help
  std::string_view help = {};
  char short_flag = 0;
  bool front = false;  ///< shown on the first page of the help
};

/// All settings, in the order of help and docs.
std::span<const SettingSpec> settings_table();
const SettingSpec* find_setting(std::string_view name);

/// `--cold-path`, `STEELYARD_COLD_PATH`, `cold.path` (as a dotted TOML key).
std::string flag_of(const SettingSpec& spec);
std::string environment_of(const SettingSpec& spec);

/// Of `a|b|c`: the one that is meant, in whatever case it is written.
std::optional<std::string> find_choice(std::string_view choices, std::string_view text);
/// "one of a, b, c".
std::string listed(std::string_view choices);

/// The allowed values in words: "a size from 16MiB to 1TiB".
std::string wanted_of(const SettingSpec& spec);
/// The default in words, as docs and `config show --defaults` have it.
std::string default_words(const SettingSpec& spec);

enum class Origin : std::uint8_t { kDefault, kConfigFile, kEnvironment, kFlag };

struct SettingValue {
  std::optional<std::string> text;  ///< as people write it; absent: no value
  std::uint64_t number = 0;         ///< bytes, ms, count, millionths, or 0 and 1
  Origin origin = Origin::kDefault;
  std::string where;  ///< `--jobs`, `STEELYARD_JOBS`, the path of the config file, `default`
};

/// Checks and converts one value. INVALID_ARGUMENT: the message begins with `where` and names found and wanted.
Result<SettingValue> parse_setting(const SettingSpec& spec, std::string_view text, std::string_view where);
/// 1, true, yes, on and 0, false, no, off in any case.
std::optional<bool> parse_boolean(std::string_view text);

/// What the command line said: (setting, text), in order; the last of a setting counts.
struct SettingFlags {
  std::vector<std::pair<const SettingSpec*, std::string>> values;
  std::optional<std::string> config;  ///< --config
};

class Settings {
 public:
  /// Resolves every setting and checks every value that is given anywhere.
  static Result<Settings> load(const SettingFlags& flags);
  /// The defaults alone.
  static Settings defaults();

  const SettingValue& value(std::string_view name) const;
  /// Empty when there is no value.
  std::string text(std::string_view name) const;
  std::uint64_t number(std::string_view name) const;
  bool on(std::string_view name) const { return number(name) != 0; }
  bool given(std::string_view name) const { return value(name).origin != Origin::kDefault; }

  /// The config file that was read; empty: none.
  const std::string& config_file() const { return config_file_; }

 private:
  std::vector<SettingValue> values_;  ///< as the table
  std::string config_file_;
};

/// Keys and values of a TOML file, flattened: (`cold.path`, text, line). INVALID_ARGUMENT with file, line and column
/// for what is not TOML and for values that no setting can have.
struct ConfigEntry {
  std::string key;
  std::string text;
  std::string where;  ///< `FILE:LINE`
};
Result<std::vector<ConfigEntry>> read_config_file(const std::string& path);

/// docs/settings.md.
std::string settings_markdown();

/// The environment variable's value; an empty one counts as unset.
std::optional<std::string> environment(const std::string& name);

}  // namespace steelyard::cli
