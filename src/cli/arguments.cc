// The grammar of the command line: `steelyard [global flags] [model] VERB [SUB] [flags] [operands]`.
#include "base/utf8.h"
#include "cli/suggest.h"
#include "cli/verb.h"

namespace steelyard::cli {
namespace {

Status usage_error(std::string message, std::string hint) {
  return {Code::kInvalidArgument, std::move(message), std::move(hint)};
}

bool has_subs(std::string_view name) {
  for (const VerbSpec* verb : all_verbs()) {
    if (verb->name == name) return !verb->sub.empty();
  }
  return false;
}

const VerbSpec* find_verb(std::string_view name, std::string_view sub = {}) {
  for (const VerbSpec* verb : all_verbs()) {
    if ((verb->name == name || (!verb->alias.empty() && verb->alias == name)) && verb->sub == sub) return verb;
  }
  return nullptr;
}

std::string full_name(const VerbSpec& verb) {
  return std::string(verb.name) + (verb.sub.empty() ? "" : " " + std::string(verb.sub));
}

/// What other tools call a verb that is here.
std::string_view verb_elsewhere(std::string_view word) {
  static constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"ls", "list"},      {"show", "inspect"}, {"info", "inspect"},         {"add", "import"},
      {"put", "import"},   {"push", "import"},  {"export", "materialize"},   {"get", "materialize"},
      {"check", "verify"}, {"fsck", "verify"},  {"checkout", "materialize"}, {"remove", "delete"},
  };
  for (const auto& [elsewhere, here] : kNames) {
    if (word == elsewhere) return here;
  }
  return {};
}

class Parser {
 public:
  explicit Parser(std::span<const char* const> words) : words_(words) {}

  Result<Arguments> parse() {
    while (at_ < words_.size()) {
      const std::string_view word = words_[at_++];
      if (!only_operands_ && word == "--") {
        only_operands_ = true;
      } else if (!only_operands_ && word.starts_with("--")) {
        SY_RETURN_IF_ERROR(long_flag(word));
      } else if (!only_operands_ && word.size() > 1 && word.front() == '-') {
        SY_RETURN_IF_ERROR(short_flags(word));
      } else {
        SY_RETURN_IF_ERROR(operand(word));
      }
    }
    if (out_.help || out_.version) return std::move(out_);
    if (out_.verb == nullptr) return missing_verb();
    return check_operands();
  }

 private:
  Status operand(std::string_view word) {
    if (out_.verb != nullptr) {
      out_.operands.emplace_back(word);
      return {};
    }
    if (!out_.group.empty()) {
      out_.verb = find_verb(out_.group, word);
      if (out_.verb != nullptr) return {};
      if (word == "help") {
        out_.help = true;
        return {};
      }
      std::vector<std::string_view> known;
      for (const VerbSpec* verb : all_verbs()) {
        if (verb->name == out_.group) known.push_back(verb->sub);
      }
      return unknown_word("`" + out_.group + " " + printable(word) + "` is not known", word, known, out_.group + " ");
    }
    if (word == "model" && !model_) {
      model_ = true;
      return {};
    }
    if (word == "help" || word == "version") {
      (word == "help" ? out_.help : out_.version) = true;
      return {};
    }
    if (has_subs(word)) {
      out_.group = word;
      return {};
    }
    out_.verb = find_verb(word);
    if (out_.verb != nullptr) return {};
    if (const std::string_view here = verb_elsewhere(word); !here.empty()) {
      return usage_error("unknown verb " + in_quotes(word), "did you mean `" + std::string(here) + "`?");
    }
    std::vector<std::string_view> known;
    for (const VerbSpec* verb : all_verbs()) {
      known.push_back(verb->name);
      if (!verb->alias.empty()) known.push_back(verb->alias);
    }
    return unknown_word("unknown verb " + in_quotes(word), word, known, "");
  }

  static Status unknown_word(std::string message, std::string_view word, const std::vector<std::string_view>& known,
                             const std::string& prefix) {
    if (std::string near = nearest(word, known); !near.empty()) {
      return usage_error(std::move(message), "did you mean `" + prefix + near + "`?");
    }
    std::string all;
    for (std::string_view name : known) {
      if (all.find(" " + std::string(name) + ",") == std::string::npos) all += " " + std::string(name) + ",";
    }
    all.pop_back();
    return usage_error(std::move(message), "wanted one of" + all);
  }

  Result<Arguments> missing_verb() const {
    if (!out_.group.empty()) {
      std::string subs;
      for (const VerbSpec* verb : all_verbs()) {
        if (verb->name == out_.group) subs += (subs.empty() ? "" : ", ") + full_name(*verb);
      }
      return usage_error("`" + out_.group + "` needs to know what to do", "wanted one of: " + subs);
    }
    return usage_error("no verb is given", "`steelyard --help` lists them; begin with `steelyard import FOLDER`");
  }

  Result<Arguments> check_operands() {
    const VerbSpec& verb = *out_.verb;
    const std::string usage = "usage: steelyard " + full_name(verb) + " [flags] " + std::string(verb.operands);
    if (out_.operands.size() < verb.operands_min) {
      return usage_error("`" + full_name(verb) + "` wants " + std::string(verb.operands) + "; " +
                             (out_.operands.empty() ? "nothing" : "only " + in_quotes(out_.operands.back())) +
                             " was given",
                         usage);
    }
    if (out_.operands.size() > verb.operands_max) {
      return usage_error("`" + full_name(verb) + "` does not take " + in_quotes(out_.operands[verb.operands_max]) +
                             (verb.operands.empty() ? "" : "; wanted " + std::string(verb.operands)),
                         usage);
    }
    return std::move(out_);
  }

  // --- flags ---

  const FlagSpec* verb_flag(std::string_view name) const {
    if (out_.verb == nullptr) return nullptr;
    for (const FlagSpec& flag : out_.verb->flags) {
      if (flag.name == name) return &flag;
    }
    return nullptr;
  }

  static const SettingSpec* setting_flag(std::string_view name) {
    for (const SettingSpec& spec : settings_table()) {
      if (flag_of(spec) == name) return &spec;
    }
    return nullptr;
  }

  /// The value of a flag that needs one: behind `=`, else the next word.
  Result<std::string> value_of(std::string_view name, std::optional<std::string_view> attached,
                               const std::string& wanted) {
    if (attached) return std::string(*attached);
    if (at_ == words_.size()) return usage_error(std::string(name) + " needs a value", "wanted " + wanted);
    const std::string_view next = words_[at_];
    if (next.starts_with("--")) {
      return usage_error(std::string(name) + " needs a value; found " + in_quotes(next),
                         "where that is the value, write " + std::string(name) + "=" + printable(next));
    }
    ++at_;
    return std::string(next);
  }

  Status long_flag(std::string_view word) {
    const std::size_t equals = word.find('=');
    const std::string_view name = word.substr(0, equals);
    std::optional<std::string_view> attached;
    if (equals != std::string_view::npos) attached = word.substr(equals + 1);
    if (name == "--help" || name == "--version") {
      if (attached) return usage_error(std::string(name) + " takes no value; found " + in_quotes(*attached), "");
      (name == "--help" ? out_.help : out_.version) = true;
      return {};
    }
    if (name == "--config") {
      SY_ASSIGN_OR_RETURN(std::string path, value_of(name, attached, "the path of a TOML file"));
      if (path.empty()) return usage_error("--config is empty; wanted the path of a TOML file", "");
      out_.settings.config = std::move(path);
      return {};
    }
    if (const FlagSpec* flag = verb_flag(name)) {
      std::string value;
      if (flag->placeholder.empty()) {
        if (attached) return usage_error(std::string(name) + " takes no value; found " + in_quotes(*attached), "");
      } else {
        SY_ASSIGN_OR_RETURN(value,
                            value_of(name, attached, std::string(flag->placeholder) + ": " + std::string(flag->help)));
        if (value.empty())
          return usage_error(std::string(name) + " is empty; wanted " + std::string(flag->placeholder), "");
        if (!flag->choices.empty()) {
          const auto choice = find_choice(flag->choices, value);
          if (!choice) return bad_flag(name, value, listed(flag->choices));
          value = *choice;
        }
      }
      out_.flags.emplace_back(flag, std::move(value));
      return {};
    }
    if (const SettingSpec* spec = setting_flag(name)) {
      std::string value = "true";
      if (spec->type == SettingType::kBool) {
        if (attached) value = *attached;
      } else {
        SY_ASSIGN_OR_RETURN(value, value_of(name, attached, wanted_of(*spec)));
      }
      out_.settings.values.emplace_back(spec, std::move(value));
      return {};
    }
    return unknown_flag(name);
  }

  /// `-q`, `-qy`, `-n NS`, `-nNS`.
  Status short_flags(std::string_view word) {
    for (std::size_t i = 1; i < word.size(); ++i) {
      if (word[i] == 'h') {
        out_.help = true;
        continue;
      }
      const SettingSpec* spec = nullptr;
      for (const SettingSpec& one : settings_table()) {
        if (one.short_flag == word[i]) spec = &one;
      }
      if (spec == nullptr) {
        return usage_error(
            "unknown flag " + in_quotes(word),
            "the short flags are -n NS, -q, -y and -h; a file or ref that begins with `-` goes behind `--`");
      }
      if (spec->type == SettingType::kBool) {
        out_.settings.values.emplace_back(spec, "true");
        continue;
      }
      const std::string name{'-', word[i]};
      std::optional<std::string_view> attached;
      if (i + 1 < word.size()) attached = word.substr(word[i + 1] == '=' ? i + 2 : i + 1);
      SY_ASSIGN_OR_RETURN(std::string value, value_of(name, attached, wanted_of(*spec)));
      out_.settings.values.emplace_back(spec, std::move(value));
      return {};
    }
    return {};
  }

  Status unknown_flag(std::string_view name) const {
    const std::string whose = out_.verb == nullptr ? "" : " of `" + full_name(*out_.verb) + "`";
    std::string message = "unknown flag " + in_quotes(name) + whose;
    if (out_.verb == nullptr) message += " before the verb";
    for (const VerbSpec* verb : all_verbs()) {
      for (const FlagSpec& flag : verb->flags) {
        if (flag.name == name) {
          return usage_error(std::move(message), "it is a flag of `" + full_name(*verb) + "`" +
                                                     (out_.verb == nullptr ? "; write it behind the verb" : ""));
        }
      }
    }
    std::vector<std::string> names = {"--config", "--help", "--version"};
    for (const SettingSpec& spec : settings_table()) names.push_back(flag_of(spec));
    if (out_.verb != nullptr) {
      for (const FlagSpec& flag : out_.verb->flags) names.emplace_back(flag.name);
    }
    const std::vector<std::string_view> known(names.begin(), names.end());
    if (std::string near = nearest(name, known); !near.empty()) {
      return usage_error(std::move(message), "did you mean `" + near + "`?");
    }
    return usage_error(std::move(message), "`steelyard " +
                                               (out_.verb == nullptr ? std::string() : full_name(*out_.verb) + " ") +
                                               "--help` lists the flags");
  }

  std::span<const char* const> words_;
  std::size_t at_ = 0;
  bool only_operands_ = false;
  bool model_ = false;
  Arguments out_;
};

}  // namespace

Result<Arguments> parse_arguments(std::span<const char* const> words) { return Parser(words).parse(); }

}  // namespace steelyard::cli
