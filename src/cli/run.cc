#include "cli/run.h"

#include <algorithm>
#include <string>

#include "base/utf8.h"
#include "cli/documents.h"
#include "cli/exit_code.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/signals.h"
#include "cli/verb.h"

namespace steelyard::cli {
namespace {

/// Whether errors are wanted as JSON, asked before the command line is known to make sense.
bool wants_json(std::span<const char* const> words) {
  std::optional<bool> asked;
  for (std::string_view word : words) {
    if (word == "--") break;
    if (word == "--json") asked = true;
    if (word.starts_with("--json=")) asked = parse_boolean(word.substr(7));
  }
  if (asked) return *asked;
  const std::optional<std::string> variable = environment("STEELYARD_JSON");
  return variable && parse_boolean(*variable).value_or(false);
}

void print_error(const Status& status, bool json) {
  if (json) {
    write_stderr(error_document(status) + "\n");
    return;
  }
  const bool colour = terminal().colour_err;
  std::string text = coloured("error:", Colour::kRed, colour) + " ";
  // A message may have lines of its own (a list of files); they are indented. Everything else is made printable.
  auto add_lines = [&text](std::string_view lines) {
    bool first = true;
    while (true) {
      const std::size_t end = lines.find('\n');
      if (!first) text += "\n  ";
      text += printable(lines.substr(0, end));
      first = false;
      if (end == std::string_view::npos) break;
      lines.remove_prefix(end + 1);
    }
    text += "\n";
  };
  add_lines(status.message());
  if (!status.hint().empty()) {
    text += coloured("hint:", Colour::kYellow, colour) + " ";
    add_lines(status.hint());
  }
  write_stderr(text);
}

int fail(const Status& status, bool json) {
  end_if_nobody_reads();
  print_error(status, json);
  const int number = signal_received();
  return number != 0 && store::is_cancelled(status) ? 128 + number : exit_code_of(status.code());
}

/// Text on stdout, and nothing else to do.
int print(const std::string& text, bool json) {
  Output out;
  out.write(text);
  if (Status status = out.flush(); !status.ok()) return fail(status, json);
  return 0;
}

std::string help_text(const Arguments& arguments) {
  if (arguments.verb != nullptr) return help_of(*arguments.verb);
  return arguments.group.empty() ? front_page() : help_of_group(arguments.group);
}

}  // namespace

int run(int argc, const char* const* argv) {
  prepare_standard_files();
  const std::span<const char* const> words(argv + 1, static_cast<std::size_t>(std::max(argc, 1) - 1));
  bool json = wants_json(words);
  install_signal_handlers(json);

  Result<Arguments> arguments = parse_arguments(words);
  if (!arguments.ok()) return fail(arguments.status(), json);
  if (arguments->help) return print(help_text(*arguments), json);
  if (arguments->version) return print(version_text() + "\n", json);

  Result<Settings> settings = Settings::load(arguments->settings);
  if (!settings.ok()) return fail(settings.status(), json);
  json = settings->on("json");
  install_log_sink(*settings);
  name_verb_in_last_word(arguments->verb->name, json);

  const VerbSpec& verb = *arguments->verb;
  Invocation call(std::move(*arguments), std::move(*settings));
  const Status status = verb.run(call);
  // What was found out is printed also where the verb ends with an error (`verify`).
  const Status written = call.out().flush();
  if (!status.ok()) return fail(status, json);
  if (!written.ok()) return fail(written, json);
  return 0;
}

}  // namespace steelyard::cli
