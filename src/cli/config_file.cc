// The config file: TOML, by toml++. The only file that includes it.
#define TOML_EXCEPTIONS 0
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wshadow"
#include <toml++/toml.h>
#pragma GCC diagnostic pop

#include <charconv>
#include <fstream>

#include "base/utf8.h"
#include "cli/settings.h"

namespace steelyard::cli {
namespace {

constexpr std::size_t kConfigBytesMax = std::size_t{1} << 20;

std::string place(const std::string& path, const toml::node& node) {
  return printable(path) + ":" + std::to_string(node.source().begin.line);
}

Status flatten(const std::string& path, const toml::table& table, const std::string& prefix,
               std::vector<ConfigEntry>& out) {
  for (const auto& [key, node] : table) {
    const std::string name = prefix + std::string(key.str());
    ConfigEntry entry{name, {}, place(path, node)};
    if (const auto* section = node.as_table()) {
      if (section->empty() && !section->is_inline()) continue;
      SY_RETURN_IF_ERROR(flatten(path, *section, name + ".", out));
      continue;
    }
    if (const auto* text = node.as_string()) {
      entry.text = text->get();
      if (entry.text.empty()) {
        return {Code::kInvalidArgument, entry.where + ": " + name + " is an empty string",
                "leave the line out to have the default"};
      }
    } else if (const auto* number = node.as_integer()) {
      entry.text = std::to_string(number->get());
    } else if (const auto* real = node.as_floating_point()) {
      char digits[64];
      const auto end = std::to_chars(digits, digits + sizeof digits, real->get(), std::chars_format::fixed);
      entry.text = end.ec == std::errc() ? std::string(digits, end.ptr) : "nan";
    } else if (const auto* boolean = node.as_boolean()) {
      entry.text = boolean->get() ? "true" : "false";
    } else {
      return {Code::kInvalidArgument,
              entry.where + ": " + name + " is a list or a date; wanted a string, a number or a boolean"};
    }
    out.push_back(std::move(entry));
  }
  return {};
}

}  // namespace

Result<std::vector<ConfigEntry>> read_config_file(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) return errno_status(errno, "open", path);
  // A bound, since a device or a pipe need not end.
  std::string text(kConfigBytesMax + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) return errno_status(EIO, "read", path);
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > kConfigBytesMax) {
    return Status(Code::kInvalidArgument,
                  printable(path) + " has more than " + std::to_string(kConfigBytesMax) + " bytes; wanted a TOML file");
  }
  const toml::parse_result parsed = toml::parse(text, path);
  if (!parsed) {
    const auto& error = parsed.error();
    return Status(Code::kInvalidArgument, printable(path) + ":" + std::to_string(error.source().begin.line) + ":" +
                                              std::to_string(error.source().begin.column) + ": " +
                                              std::string(error.description()));
  }
  std::vector<ConfigEntry> entries;
  SY_RETURN_IF_ERROR(flatten(path, parsed.table(), "", entries));
  return entries;
}

}  // namespace steelyard::cli
