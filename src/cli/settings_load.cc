#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "base/utf8.h"
#include "cli/settings.h"
#include "cli/suggest.h"

namespace steelyard::cli {
namespace {

/// An XDG folder: the variable where it is absolute, else below the home; empty without a home.
std::string xdg_folder(const char* variable, const char* below_home) {
  if (auto folder = environment(variable); folder && folder->front() == '/') return *folder;
  if (auto home = environment("HOME")) return *home + "/" + below_home;
  return {};
}

std::size_t index_of(const SettingSpec& spec) { return static_cast<std::size_t>(&spec - settings_table().data()); }

SettingValue default_of(const SettingSpec& spec) {
  SettingValue value;
  if (!spec.fallback.empty()) {
    Result<SettingValue> parsed = parse_setting(spec, spec.fallback, "default");
    SY_CHECK(parsed.ok(), spec.name);
    value = *parsed;
  } else if (spec.name == "store") {
    if (std::string folder = xdg_folder("XDG_DATA_HOME", ".local/share"); !folder.empty()) {
      value.text = folder + "/steelyard";
    }
  } else if (spec.name == "jobs") {
    value.number = std::min(spec.max, std::max(1UL, static_cast<std::uint64_t>(sysconf(_SC_NPROCESSORS_ONLN))));
    value.text = std::to_string(value.number);
  }
  value.where = "default";
  return value;
}

Status unknown_key(const ConfigEntry& entry) {
  std::vector<std::string_view> known;
  for (const SettingSpec& spec : settings_table()) known.push_back(spec.name);
  std::string hint = "the known keys are in `steelyard config show`";
  if (std::string near = nearest(entry.key, known); !near.empty()) hint = "did you mean `" + near + "`?";
  return {Code::kInvalidArgument, entry.where + ": unknown key `" + printable(entry.key) + "`", hint};
}

/// The config file to read: named by flag or variable (it must exist), or the default one where it exists.
Result<std::string> find_config_file(const SettingFlags& flags) {
  std::string path, by;
  if (flags.config) {
    path = *flags.config;
    by = "--config";
  } else if (auto variable = environment("STEELYARD_CONFIG")) {
    path = *variable;
    by = "STEELYARD_CONFIG";
  } else {
    const std::string folder = xdg_folder("XDG_CONFIG_HOME", ".config");
    if (folder.empty()) return std::string();
    path = folder + "/steelyard/config.toml";
  }
  struct stat info {};
  if (stat(path.c_str(), &info) == 0) {
    if (S_ISDIR(info.st_mode)) {
      return Status(Code::kInvalidArgument,
                    (by.empty() ? "the config file" : by) + " " + printable(path) + " is a folder; wanted a TOML file");
    }
    return path;
  }
  if (by.empty() && (errno == ENOENT || errno == ENOTDIR)) return std::string();
  if (errno == ENOENT || errno == ENOTDIR) {
    return Status(Code::kInvalidArgument, by + " names " + printable(path) + ", which is not there");
  }
  Status status = errno_status(errno, "looking for the config file", path);
  if (!by.empty()) return status;
  return std::move(status).with_hint(
      "set HOME or XDG_CONFIG_HOME to a folder of this user, or name a file with --config");
}

/// A path in the config file means the same from every current folder: it is relative to the file's own.
std::string beside(const std::string& config_file, const std::string& path) {
  if (path.empty() || path.front() == '/') return path;
  std::error_code error;
  const std::filesystem::path file = std::filesystem::absolute(config_file, error);
  return error ? path : (file.parent_path() / path).lexically_normal().native();
}

Status check_together(const Settings& settings) {
  if (settings.number("hot.low_watermark") > settings.number("hot.high_watermark")) {
    return {Code::kInvalidArgument,
            "hot.low_watermark is " + settings.text("hot.low_watermark") + ", above hot.high_watermark, which is " +
                settings.text("hot.high_watermark"),
            "see where both came from with `steelyard config show`"};
  }
  return {};
}

}  // namespace

std::optional<std::string> environment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

Settings Settings::defaults() {
  Settings settings;
  for (const SettingSpec& spec : settings_table()) settings.values_.push_back(default_of(spec));
  return settings;
}

Result<Settings> Settings::load(const SettingFlags& flags) {
  Settings settings = defaults();
  SY_ASSIGN_OR_RETURN(settings.config_file_, find_config_file(flags));
  if (!settings.config_file_.empty()) {
    SY_ASSIGN_OR_RETURN(std::vector<ConfigEntry> entries, read_config_file(settings.config_file_));
    for (const ConfigEntry& entry : entries) {
      const SettingSpec* spec = find_setting(entry.key);
      if (spec == nullptr) return unknown_key(entry);
      SY_ASSIGN_OR_RETURN(SettingValue value, parse_setting(*spec, entry.text, entry.where + ": " + entry.key));
      if (spec->type == SettingType::kPath) value.text = beside(settings.config_file_, entry.text);
      value.origin = Origin::kConfigFile;
      value.where = entry.where;
      settings.values_[index_of(*spec)] = std::move(value);
    }
  }
  for (const SettingSpec& spec : settings_table()) {
    const std::string name = environment_of(spec);
    if (auto text = environment(name)) {
      SY_ASSIGN_OR_RETURN(SettingValue value, parse_setting(spec, *text, name));
      value.origin = Origin::kEnvironment;
      settings.values_[index_of(spec)] = std::move(value);
    }
  }
  for (const auto& [spec, text] : flags.values) {
    SY_ASSIGN_OR_RETURN(SettingValue value, parse_setting(*spec, text, flag_of(*spec)));
    value.origin = Origin::kFlag;
    settings.values_[index_of(*spec)] = std::move(value);
  }
  SY_RETURN_IF_ERROR(check_together(settings));
  return settings;
}

const SettingValue& Settings::value(std::string_view name) const {
  const SettingSpec* spec = find_setting(name);
  SY_CHECK(spec != nullptr, name);
  return values_[index_of(*spec)];
}

std::string Settings::text(std::string_view name) const { return value(name).text.value_or(std::string()); }

std::uint64_t Settings::number(std::string_view name) const { return value(name).number; }

}  // namespace steelyard::cli
