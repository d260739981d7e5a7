#include "store/target_guard.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>

#include "base/log.h"
#include "base/utf8.h"
#include "store/overlap.h"

namespace steelyard::store {
namespace {

namespace fs = std::filesystem;

/// Folders that hold a system or other people's work, as they are called everywhere.
constexpr std::array<std::string_view, 16> kSystemFolders = {"/",    "/bin",   "/boot", "/dev",  "/etc", "/home",
                                                             "/lib", "/lib64", "/proc", "/root", "/run", "/sbin",
                                                             "/sys", "/tmp",   "/usr",  "/var"};

std::string current_folder() {
  std::error_code error;
  return fs::current_path(error).native();
}

/// A path of /proc/self/mountinfo, in which space, tab, newline and backslash are `\` and three octal digits.
std::string unescaped(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string_view digits = text.substr(i + 1, 3);
    if (text[i] == '\\' && digits.size() == 3 &&
        std::ranges::all_of(digits, [](char digit) { return digit >= '0' && digit <= '7'; })) {
      out += static_cast<char>(((digits[0] - '0') << 6) + ((digits[1] - '0') << 3) + (digits[2] - '0'));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

/// A place below `folder` where something else is mounted.
std::optional<std::string> mount_below(const std::string& folder) {
  std::ifstream mounts("/proc/self/mountinfo");
  if (!mounts) log_debug("what is mounted in {} cannot be told: /proc is not there", folder);
  const std::string prefix = folder + "/";
  for (std::string line; std::getline(mounts, line);) {
    // The fifth of its words.
    std::size_t begin = 0;
    for (int word = 1; word < 5 && begin != std::string::npos; ++word) begin = line.find(' ', begin) + 1;
    std::string place = unescaped(std::string_view(line).substr(begin, line.find(' ', begin) - begin));
    if (place.starts_with(prefix)) return place;
  }
  return std::nullopt;
}

}  // namespace

bool is_current_folder(const std::string& path) {
  const std::string current = current_folder();
  return !current.empty() && path_within(path, current) == "";
}

Status check_replaceable(const std::string& path, const std::string& home) {
  const auto refuse = [&](const std::string& why) -> Status {
    return {Code::kInvalidArgument, fmt::format("{} is not replaced, even with --force: {}", printable(path), why),
            "name a folder of its own for the files, which does not exist yet or is empty"};
  };
  if (std::ranges::find(kSystemFolders, path) != kSystemFolders.end()) return refuse("it is a folder of the system");
  const auto holds = [&](const std::string& inner, const std::string& what) -> Status {
    if (inner.empty()) return {};
    const auto within = path_within(path, inner);
    if (!within) return {};
    return refuse(fmt::format("it {} {}{}", within->empty() ? "is" : "holds", what,
                              within->empty() ? "" : ", " + printable(inner)));
  };
  SY_RETURN_IF_ERROR(holds(home, "your home folder"));
  SY_RETURN_IF_ERROR(holds(current_folder(), "the current folder"));
  if (const auto place = mount_below(path)) {
    return refuse(fmt::format("something is mounted in it, at {}, and its files would be removed", printable(*place)));
  }
  return {};
}

}  // namespace steelyard::store
