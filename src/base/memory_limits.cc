#include "base/memory_limits.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <string_view>

namespace steelyard {
namespace {

/// v1 writes "no limit" as the largest page-aligned number; nothing real comes near.
constexpr std::uint64_t kUnlimited = 1ULL << 60;

std::optional<std::uint64_t> parse_number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<std::uint64_t> read_number(const std::string& path) {
  std::ifstream in(path);
  std::string text;
  if (!std::getline(in, text)) return std::nullopt;
  return parse_number(text);
}

/// The sum of the named rows of a file of `name value` lines; absent rows count as 0.
std::uint64_t sum_of_rows(const std::string& path, std::initializer_list<std::string_view> names) {
  std::ifstream in(path);
  std::uint64_t sum = 0;
  for (std::string line; std::getline(in, line);) {
    const auto space = line.find(' ');
    if (space == std::string::npos) continue;
    const std::string_view name = std::string_view(line).substr(0, space);
    if (std::find(names.begin(), names.end(), name) == names.end()) continue;
    sum += std::min(parse_number(std::string_view(line).substr(space + 1)).value_or(0), kUnlimited);
  }
  return sum;
}

/// From `group` up to the root of the hierarchy.
void collect(const std::string& root, std::string_view group, bool version2, std::vector<MemoryLimit>& limits) {
  for (std::string path(group);;) {
    const std::string folder = root + path + "/";
    const auto add = [&](const char* file) {
      const auto limit = read_number(folder + file);
      if (!limit || *limit >= kUnlimited) return;
      const std::uint64_t used =
          read_number(folder + (version2 ? "memory.current" : "memory.usage_in_bytes")).value_or(0);
      const std::uint64_t clean =
          version2 ? sum_of_rows(folder + "memory.stat", {"active_file", "inactive_file", "slab_reclaimable"})
                   : sum_of_rows(folder + "memory.stat", {"total_active_file", "total_inactive_file"});
      limits.push_back({folder + file, *limit, used > clean ? used - clean : 0});
    };
    if (version2) {
      add("memory.max");
      add("memory.high");
    } else {
      add("memory.limit_in_bytes");
    }
    if (path.empty()) return;
    path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  }
}

}  // namespace

std::vector<MemoryLimit> cgroup_memory_limits(const std::string& own_groups, const std::string& hierarchies) {
  std::ifstream in(own_groups);
  std::vector<MemoryLimit> limits;
  for (std::string line; std::getline(in, line);) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string_view group = std::string_view(line).substr(second + 1);
    if (controllers == ",,") {
      collect(hierarchies, group, true, limits);
    } else if (controllers.find(",memory,") != std::string::npos) {
      collect(hierarchies + "/memory", group, false, limits);
    }
  }
  return limits;
}

MemoryLimit machine_memory(const std::string& meminfo) {
  std::ifstream in(meminfo);
  std::uint64_t kibibytes = 0;
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("MemAvailable:") && !line.starts_with("SwapFree:")) continue;
    const auto digits = line.find_first_of("0123456789");
    const auto end = line.find_first_not_of("0123456789", digits);
    if (digits == std::string::npos) continue;
    kibibytes += std::min(parse_number(std::string_view(line).substr(digits, end - digits)).value_or(0), kUnlimited);
  }
  return {meminfo, std::min(kibibytes, kUnlimited) * 1024 >= kUnlimited ? kUnlimited : kibibytes * 1024, 0};
}

std::vector<MemoryLimit> system_memory_limits() {
  auto limits = cgroup_memory_limits();
  limits.push_back(machine_memory());
  return limits;
}

}  // namespace steelyard
