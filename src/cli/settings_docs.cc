#include "cli/settings.h"

namespace steelyard::cli {
namespace {

std::string config_key(const SettingSpec& spec) {
  const std::size_t dot = spec.name.find('.');
  if (dot == std::string_view::npos) return std::string(spec.name);
  return "[" + std::string(spec.name.substr(0, dot)) + "] " + std::string(spec.name.substr(dot + 1));
}

/// `|` ends a cell of a markdown table.
std::string cell(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '|') out.push_back('\\');
    out.push_back(c);
  }
  return out;
}

std::string code(std::string_view text) { return "`" + std::string(text) + "`"; }

}  // namespace

std::string settings_markdown() {
  std::string out =
      "# Settings\n\n"
      "<!-- Made from the table in src/cli/settings.cc by `steelyard config show --defaults --markdown`; a test "
      "compares "
      "them. -->\n\n"
      "Every setting can be given as a flag (before or after the verb), as an environment variable, or in the config "
      "file. The flag\nwins over the environment, the environment over the config file, the config file over the "
      "default. An empty variable counts as\nunset. `steelyard config show` prints each value and where it came "
      "from.\n\n"
      "The config file is TOML: the one that `--config FILE` or `STEELYARD_CONFIG` names, else "
      "`$XDG_CONFIG_HOME/steelyard/config.toml`\n(`~/.config/steelyard/config.toml`) where it exists. An unknown key "
      "is an error.\n"
      "A relative path in it is relative to the file's folder.\n\n"
      "Sizes take `B KB MB GB TB PB` (powers of 1000) and `KiB MiB GiB TiB PiB` (powers of 1024); a number alone is "
      "bytes. Durations\nneed their unit: `500ms 10s 5m 2h 30d`. Booleans are `1 true yes on` and `0 false no off`, in "
      "any case.\n\n"
      "| setting | flag | environment | config key | values | default | meaning |\n"
      "|---|---|---|---|---|---|---|\n";
  for (const SettingSpec& spec : settings_table()) {
    std::string flags = code(flag_of(spec));
    if (spec.short_flag != 0) flags += ", " + code(std::string("-") + spec.short_flag);
    std::string meaning(spec.help);
    const std::string fallback = spec.fallback.empty() ? std::string(spec.fallback_words) : code(spec.fallback);
    out += "| " + code(spec.name) + " | " + flags + " | " + code(environment_of(spec)) + " | " +
           code(config_key(spec)) + " | " + cell(wanted_of(spec)) + " | " + cell(fallback) + " | " + cell(meaning) +
           " |\n";
  }
  return out;
}

}  // namespace steelyard::cli
