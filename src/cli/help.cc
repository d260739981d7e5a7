#include <algorithm>

#include "cli/verb.h"

namespace steelyard::cli {
namespace {

constexpr std::size_t kIndent = 30;

/// `  left      right`, the right part wrapped to the terminal.
std::string entry(const std::string& left, std::string_view right) {
  const std::size_t columns = std::clamp<std::size_t>(terminal().columns, 60, 120);
  std::string out = "  " + left;
  std::size_t column = width_of(out);
  if (column + 2 > kIndent) {
    out += "\n";
    column = 0;
  }
  out.append(kIndent - column, ' ');
  column = kIndent;
  while (!right.empty()) {
    const std::size_t space = right.find(' ');
    const std::string_view word = right.substr(0, space);
    if (column > kIndent && column + 1 + width_of(word) > columns) {
      out += "\n" + std::string(kIndent, ' ');
      column = kIndent;
    }
    if (column > kIndent) {
      out += " ";
      ++column;
    }
    out += word;
    column += width_of(word);
    right = space == std::string_view::npos ? std::string_view() : right.substr(space + 1);
  }
  return out + "\n";
}

std::string name_of(const VerbSpec& verb) {
  std::string name(verb.name);
  if (!verb.sub.empty()) name += " " + std::string(verb.sub);
  return name;
}

std::string setting_left(const SettingSpec& spec) {
  std::string left = spec.short_flag != 0 ? std::string("-") + spec.short_flag + ", " : "";
  left += flag_of(spec);
  if (spec.type == SettingType::kChoice) {
    left += " " + std::string(spec.choices);
  } else if (spec.type != SettingType::kBool) {
    left += " " + std::string(spec.placeholder);
  }
  return left;
}

std::string setting_right(const SettingSpec& spec) {
  std::string right(spec.help);
  if (spec.type != SettingType::kBool) right += " (default: " + default_words(spec) + ")";
  return right;
}

std::string global_flags() {
  std::string out = "Global flags, before or after the verb:\n";
  for (const SettingSpec& spec : settings_table()) {
    if (spec.front) out += entry(setting_left(spec), setting_right(spec));
  }
  out +=
      entry("--config FILE", "a TOML file with settings (default: `$XDG_CONFIG_HOME/steelyard/config.toml` if there)");
  out += entry("-h, --help", "of the program, or of the verb that is given; `steelyard help VERB` is the same");
  out += entry("--version", "print the version; `steelyard version` is the same");
  return out;
}

}  // namespace

std::string version_text() { return std::string("steelyard ") + STEELYARD_VERSION; }

std::string front_page() {
  std::string out =
      "Steelyard stores model weights as immutable, verified revisions.\n\n"
      "usage: steelyard [global flags] VERB [flags] [arguments]\n\nVerbs:\n";
  for (const VerbSpec* verb : all_verbs()) {
    out += entry(name_of(*verb) + " " + std::string(verb->operands), verb->summary);
  }
  out += "\n" + global_flags();
  out += "\nMore settings (flag, environment variable or config key):\n";
  for (const SettingSpec& spec : settings_table()) {
    if (!spec.front) out += entry(setting_left(spec), setting_right(spec));
  }
  out +=
      "\nA reference is `resource[@revision][#generation]`, for example `llama-70b@step-100#7`; in a shell, quote it.\n"
      "`steelyard VERB --help` has the flags of a verb; `steelyard config show` what is set, and where.\n";
  return out;
}

std::string help_of(const VerbSpec& verb) {
  std::string out = "usage: steelyard " + name_of(verb) + " [flags] " + std::string(verb.operands) + "\n";
  if (!verb.alias.empty()) out += "alias: " + std::string(verb.alias) + "\n";
  out += "\n" + std::string(verb.summary) + "\n";
  if (!verb.prints.empty()) out += "Prints " + std::string(verb.prints) + ".\n";
  if (!verb.flags.empty()) {
    out += "\nFlags:\n";
    for (const FlagSpec& flag : verb.flags) {
      if (flag.hidden) continue;
      std::string left(flag.name);
      if (!flag.placeholder.empty()) left += " " + std::string(flag.choices.empty() ? flag.placeholder : flag.choices);
      out += entry(left, std::string(flag.help) + (flag.repeatable ? " (repeatable)" : ""));
    }
  }
  if (!verb.example.empty()) out += "\n" + std::string(verb.example);
  out += "\n" + global_flags();
  return out + "\nEvery other setting is a flag too; `steelyard --help` lists them.\n";
}

std::string help_of_group(std::string_view name) {
  std::string out = "usage: steelyard " + std::string(name) + " VERB [flags] [arguments]\n\nVerbs:\n";
  for (const VerbSpec* verb : all_verbs()) {
    if (verb->name == name) out += entry(name_of(*verb) + " " + std::string(verb->operands), verb->summary);
  }
  return out + "\n`steelyard " + std::string(name) + " VERB --help` has the flags of each.\n";
}

}  // namespace steelyard::cli
