// completion bash|zsh|fish: scripts made from the same tables as the parser and the help.
#include <map>

#include "base/utf8.h"
#include "cli/verbs.h"

namespace steelyard::cli {
namespace {

/// The flags that every verb takes.
std::string global_flag_words() {
  std::string words;
  for (const SettingSpec& spec : settings_table()) words += flag_of(spec) + " ";
  return words + "--config --help --version";
}

/// Verbs in the order of the help, each with its sub-verbs.
std::vector<std::pair<std::string, std::string>> verbs_with_subs() {
  std::vector<std::pair<std::string, std::string>> out;
  for (const VerbSpec* verb : all_verbs()) {
    if (out.empty() || out.back().first != verb->name) out.emplace_back(verb->name, "");
    if (!verb->sub.empty()) out.back().second += (out.back().second.empty() ? "" : " ") + std::string(verb->sub);
  }
  return out;
}

std::string verb_words() {
  std::string words;
  for (const auto& [name, subs] : verbs_with_subs()) words += (words.empty() ? "" : " ") + name;
  return words;
}

/// What may stand for a verb: names and aliases.
std::string known_words() {
  std::string words = verb_words();
  for (const VerbSpec* verb : all_verbs()) {
    if (!verb->alias.empty()) words += " " + std::string(verb->alias);
  }
  return words;
}

std::string choice_words(std::string_view choices) {
  std::string words(choices);
  for (char& c : words) c = c == '|' ? ' ' : c;
  return words;
}

/// `case` arms: flag -> the words that may follow it, or `-` for a path and `!` for anything else.
std::string value_cases(const std::string& indent) {
  std::map<std::string, std::string> arms;
  auto add = [&arms](const std::string& flag, std::string_view choices, bool path) {
    arms.emplace(flag, choices.empty() ? (path ? "-" : "!") : choice_words(choices));
  };
  for (const SettingSpec& spec : settings_table()) {
    if (spec.type == SettingType::kBool) continue;
    add(flag_of(spec), spec.choices, spec.type == SettingType::kPath);
  }
  add("--config", "", true);
  add("-n", "", false);
  for (const VerbSpec* verb : all_verbs()) {
    for (const FlagSpec& flag : verb->flags) {
      if (!flag.placeholder.empty()) add(std::string(flag.name), flag.choices, flag.placeholder == "PATH");
    }
  }
  std::string out;
  for (const auto& [flag, words] : arms) out += indent + flag + ") values=\"" + words + "\" ;;\n";
  return out;
}

std::string flag_cases(const std::string& indent) {
  std::map<std::string, std::string> arms;
  for (const VerbSpec* verb : all_verbs()) {
    std::string& words = arms[std::string(verb->name)];
    for (const FlagSpec& flag : verb->flags) {
      if (!flag.hidden && (" " + words + " ").find(" " + std::string(flag.name) + " ") == std::string::npos) {
        words += (words.empty() ? "" : " ") + std::string(flag.name);
      }
    }
  }
  std::string out;
  for (const auto& [verb, words] : arms) out += indent + verb + ") flags=\"" + words + "\" ;;\n";
  return out;
}

std::string sub_cases(const std::string& indent) {
  std::string out;
  for (const auto& [verb, subs] : verbs_with_subs()) {
    if (!subs.empty()) out += indent + verb + ") subs=\"" + subs + "\" ;;\n";
  }
  out += indent + "completion) subs=\"bash zsh fish\" ;;\n";
  return out;
}

/// Verbs whose first operand is a revision (or, with `list`, a resource), as patterns of `case "VERB OPERANDS"`.
std::string verbs_with_ref() {
  std::string out;
  for (const VerbSpec* verb : all_verbs()) {
    const bool takes_ref = verb->operands.starts_with("REF") || verb->operands.starts_with("[RE");
    if (!takes_ref || !verb->sub.empty()) continue;
    for (const std::string_view name : {verb->name, verb->alias}) {
      if (!name.empty()) out += (out.empty() ? "\"" : "|\"") + std::string(name) + " 0\"";
    }
  }
  return out;
}

/// Arms for verbs whose sub-verbs take a revision.
std::string sub_verbs_with_ref(const std::string& indent) {
  std::map<std::string, std::string> arms;
  for (const VerbSpec* verb : all_verbs()) {
    const bool takes_ref = verb->operands.starts_with("REF") || verb->operands.starts_with("[RE");
    if (verb->sub.empty() || !takes_ref) continue;
    std::string& subs = arms[std::string(verb->name)];
    subs += (subs.empty() ? "" : "|") + std::string(verb->sub);
  }
  std::string out;
  for (const auto& [verb, subs] : arms) {
    out += indent + "\"" + verb + " 0\") case \"${typed[verb_at+1]}\" in " + subs + ") _steelyard_refs \"$word\" " +
           verb + " ;; esac ;;\n";
  }
  return out;
}

/// Completes references from what `list` prints. Bash breaks words at `@`: what stands before the last one is not
/// repeated.
constexpr std::string_view kBashRefs = R"(_steelyard_refs() {
  local typed="$1" cut="" ref
  local -a which=()
  case "$2" in
    abort) which=(--state IMPORTING) ;;
    watch) which=(--all) ;;
    delete|rm|inspect|reconcile) which=(--state READY --state DEGRADED --state DELETING) ;;
  esac
  if [[ "$typed" == *@* && "${COMP_WORDBREAKS-}" == *@* ]]; then cut="${typed%@*}@"; fi
  while IFS= read -r ref; do
    if [[ "$ref" == "$typed"* ]]; then COMPREPLY+=("${ref#"$cut"}"); fi
  done < <(steelyard -q "${globals[@]}" list --limit 1000 "${which[@]}" 2>/dev/null | if [[ "$2" == list ]]; then sed 's/@.*//' | sort -u; else cat; fi)
}
)";

/// What was typed, cut at spaces alone, and the global flags in it that say which revisions there are.
constexpr std::string_view kBashWords = R"(  local -a typed=() globals=()
  local line="${COMP_LINE-}" i operands=0
  if [[ -n "$line" ]]; then
    line="${line:0:COMP_POINT}"
    IFS=$' \t\n' read -r -a typed <<<"$line"
    if [[ "$line" == *[[:space:]] ]]; then typed+=(""); fi
  else
    typed=("${COMP_WORDS[@]:0:COMP_CWORD+1}")
  fi
  local last=$((${#typed[@]} - 1))
  local word="${typed[last]}" before="${typed[last-1]}"
  for ((i = 1; i < last; i++)); do
    case "${typed[i]}" in
      --store=*|--namespace=*|--tenant=*|--config=*|--cold-path=*) globals+=("${typed[i]}") ;;
      --store|--namespace|-n|--tenant|--config|--cold-path) globals+=("${typed[i]}" "${typed[i+1]}") ;;
    esac
  done
)";

/// Bash; zsh runs the same function through its bashcompinit.
std::string bash_script() {
  return "# Completion of steelyard for bash: source <(steelyard completion bash)\n" + std::string(kBashRefs) +
         "_steelyard() {\n" + std::string(kBashWords) +
         "  local values=\"\" flags=\"\" subs=\"\" verb=\"\" verb_at=0\n"
         "  COMPREPLY=()\n"
         "  case \"$before\" in\n" +
         value_cases("    ") +
         "  esac\n"
         "  if [[ \"$values\" == \"-\" ]]; then COMPREPLY=($(compgen -f -- \"$word\")); return; fi\n"
         "  if [[ \"$values\" == \"!\" ]]; then return; fi\n"
         "  if [[ -n \"$values\" ]]; then COMPREPLY=($(compgen -W \"$values\" -- \"$word\")); return; fi\n"
         "  for ((i = 1; i < last; i++)); do\n"
         "    case \" " +
         known_words() +
         " \" in\n"
         "      *\" ${typed[i]} \"*) verb=\"${typed[i]}\"; verb_at=$i; break ;;\n"
         "    esac\n"
         "  done\n"
         "  case \"$verb\" in\n" +
         flag_cases("    ") +
         "  esac\n"
         "  case \"$verb\" in\n" +
         sub_cases("    ") +
         "  esac\n"
         "  if [[ \"$word\" == -* ]]; then\n"
         "    COMPREPLY=($(compgen -W \"$flags " +
         global_flag_words() +
         "\" -- \"$word\"))\n"
         "    return\n"
         "  elif [[ -z \"$verb\" ]]; then\n"
         "    COMPREPLY=($(compgen -W \"" +
         verb_words() +
         "\" -- \"$word\"))\n"
         "    return\n"
         "  elif [[ -n \"$subs\" && $last -eq $((verb_at + 1)) ]]; then\n"
         "    COMPREPLY=($(compgen -W \"$subs\" -- \"$word\"))\n"
         "    return\n"
         "  fi\n"
         "  for ((i = verb_at + 1 + ($([[ -n \"$subs\" ]] && echo 1 || echo 0)); i < last; i++)); do\n"
         "    values=\"\"\n"
         "    case \"${typed[i-1]}\" in\n" +
         value_cases("      ") +
         "    esac\n"
         "    if [[ -z \"$values\" && \"${typed[i]}\" != -* ]]; then operands=$((operands + 1)); fi\n"
         "  done\n"
         "  case \"$verb $operands\" in\n" +
         sub_verbs_with_ref("    ") + "    " + verbs_with_ref() +
         ") _steelyard_refs \"$word\" \"$verb\" ;;\n"
         "    *) COMPREPLY=($(compgen -f -- \"$word\")) ;;\n"
         "  esac\n"
         "}\n"
         "complete -o filenames -F _steelyard steelyard\n";
}

std::string zsh_script() {
  return "#compdef steelyard\n"
         "# Completion of steelyard for zsh: source <(steelyard completion zsh)\n"
         "autoload -U +X compinit && compinit -i\n"
         "autoload -U +X bashcompinit && bashcompinit\n" +
         bash_script();
}

/// Single quotes of fish know `\'` and `\\`.
std::string fish_quoted(std::string_view text) {
  std::string out = "'";
  for (char c : text) {
    if (c == '\'' || c == '\\') out.push_back('\\');
    out.push_back(c);
  }
  return out + "'";
}

std::string fish_flag(const std::string& condition, std::string_view name, std::string_view choices, bool value,
                      std::string_view help) {
  std::string line = "complete -c steelyard";
  if (!condition.empty()) line += " -n " + fish_quoted(condition);
  line += " -l " + std::string(name.substr(2));
  if (!choices.empty()) {
    line += " -x -a " + fish_quoted(choice_words(choices));
  } else if (value) {
    line += " -r";
  }
  return line + " -d " + fish_quoted(help) + "\n";
}

std::string fish_script() {
  std::string out = "# Completion of steelyard for fish: steelyard completion fish | source\n";
  const std::string verbs = verb_words();
  const std::string none = "not __fish_seen_subcommand_from " + verbs;
  std::string last;
  for (const VerbSpec* verb : all_verbs()) {
    const std::string name(verb->name);
    const std::string seen = "__fish_seen_subcommand_from " + name;
    if (name != last) {
      out += "complete -c steelyard -f -n " + fish_quoted(none) + " -a " + name + " -d " +
             fish_quoted(verb->sub.empty() ? verb->summary : name + " commands") + "\n";
    }
    last = name;
    if (!verb->sub.empty()) {
      out += "complete -c steelyard -f -n " + fish_quoted(seen) + " -a " + std::string(verb->sub) + " -d " +
             fish_quoted(verb->summary) + "\n";
    }
    for (const FlagSpec& flag : verb->flags) {
      if (!flag.hidden) out += fish_flag(seen, flag.name, flag.choices, !flag.placeholder.empty(), flag.help);
    }
  }
  out += "complete -c steelyard -f -n '__fish_seen_subcommand_from completion' -a 'bash zsh fish'\n";
  for (const VerbSpec* verb : all_verbs()) {
    if (!verb->operands.starts_with("REF")) continue;
    // Sub-verbs of several verbs have the same name.
    std::string seen = "__fish_seen_subcommand_from " + std::string(verb->name);
    if (!verb->sub.empty()) seen += "; and __fish_seen_subcommand_from " + std::string(verb->sub);
    out += "complete -c steelyard -f -n " + fish_quoted(seen) + " -a '(steelyard -q list --limit 1000 2>/dev/null)'\n";
  }
  for (const SettingSpec& spec : settings_table()) {
    out += fish_flag("", flag_of(spec), spec.choices, spec.type != SettingType::kBool, spec.help);
  }
  return out + fish_flag("", "--config", "", true, "a TOML file with settings") +
         fish_flag("", "--help", "", false, "help") + fish_flag("", "--version", "", false, "the version");
}

Status run_completion(Invocation& call) {
  const std::string& shell = call.operands().front();
  if (shell == "bash") {
    call.out().write(bash_script());
  } else if (shell == "zsh") {
    call.out().write(zsh_script());
  } else if (shell == "fish") {
    call.out().write(fish_script());
  } else {
    return {Code::kInvalidArgument, "unknown shell " + in_quotes(shell) + "; wanted bash, zsh or fish"};
  }
  return {};
}

}  // namespace

constinit const VerbSpec kCompletionVerb = {.name = "completion",
                                            .operands = "bash|zsh|fish",
                                            .operands_min = 1,
                                            .operands_max = 1,
                                            .summary = "a script that completes the command line in a shell",
                                            .prints = "the script",
                                            .run = run_completion};

}  // namespace steelyard::cli
