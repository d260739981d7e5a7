// config show
#include "base/utf8.h"
#include "cli/documents.h"
#include "cli/verbs.h"

namespace steelyard::cli {
namespace {

constexpr FlagSpec kFlags[] = {
    {.name = "--defaults", .placeholder = {}, .help = "the defaults instead of what is set"},
    {.name = "--markdown", .placeholder = {}, .help = "the page docs/settings.md", .hidden = true},
};

std::string_view origin_name(Origin origin) {
  switch (origin) {
    case Origin::kDefault:
      return "default";
    case Origin::kConfigFile:
      return "config_file";
    case Origin::kEnvironment:
      return "environment";
    case Origin::kFlag:
      return "flag";
  }
  return "default";
}

void print_json(Invocation& call, bool defaults) {
  Json json;
  begin_document(json).key("config_file").string_or_null(call.settings().config_file());
  json.key("settings").begin_array();
  for (const SettingSpec& spec : settings_table()) {
    const SettingValue& value = call.settings().value(spec.name);
    json.begin_object().key("name").string(spec.name);
    json.key("value").string_or_null(defaults ? spec.fallback : value.text.value_or(std::string()));
    json.key("origin").string(defaults ? "default" : origin_name(value.origin));
    json.key("where").string(defaults ? "default" : std::string_view(value.where));
    json.key("default").string(default_words(spec)).key("wanted").string(wanted_of(spec));
    json.key("flag").string(flag_of(spec)).key("environment").string(environment_of(spec));
    json.key("help").string(spec.help).end_object();
  }
  json.end_array().end_object();
  call.out().line(json.text());
}

Status run_show(Invocation& call) {
  const bool defaults = call.has("--defaults");
  if (call.has("--markdown")) {
    call.out().write(settings_markdown());
    return {};
  }
  if (call.json()) {
    print_json(call, defaults);
    return {};
  }
  Table table({{"SETTING"}, {"VALUE"}, {"FROM"}});
  for (const SettingSpec& spec : settings_table()) {
    const SettingValue& value = call.settings().value(spec.name);
    const bool computed = !value.text.has_value();
    const std::string text = defaults || computed ? default_words(spec) : *value.text;
    if (call.quiet()) {
      call.out().line(std::string(spec.name) + "=" + printable(text));
    } else {
      table.add({std::string(spec.name), printable(text), defaults ? "default" : printable(value.where)});
    }
  }
  if (!call.quiet()) call.out().write(table.render(terminal()));
  return {};
}

}  // namespace

constinit const VerbSpec kConfigShowVerb = {.name = "config",
                                            .sub = "show",
                                            .summary = "every setting, its value and where it came from",
                                            .prints = "a table",
                                            .flags = kFlags,
                                            .run = run_show};

}  // namespace steelyard::cli
