#include "store/io_budget.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <string>
#include <string_view>

#include "base/limits.h"

namespace steelyard::store {
namespace {

/// v1 writes "no limit" as the largest page-aligned number; nothing real comes near.
constexpr std::uint64_t kUnlimited = 1ULL << 60;

std::optional<std::uint64_t> read_limit(const std::string& path) {
  std::ifstream in(path);
  std::string text;
  if (!std::getline(in, text)) return std::nullopt;
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value >= kUnlimited) return std::nullopt;
  return value;
}

/// The smallest limit from `group` up to the root of the hierarchy. A container sees its own group as the root.
std::optional<std::uint64_t> smallest(const std::string& root, std::string_view group, const std::string& file) {
  std::optional<std::uint64_t> least;
  for (std::string path(group);;) {
    if (const auto limit = read_limit(root + path + "/" + file)) least = std::min(*limit, least.value_or(*limit));
    if (path.empty()) return least;
    path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  }
}

}  // namespace

std::optional<std::uint64_t> cgroup_memory_limit(const std::string& own_groups, const std::string& hierarchies) {
  std::ifstream in(own_groups);
  std::optional<std::uint64_t> least;
  const auto take = [&](std::optional<std::uint64_t> limit) {
    if (limit) least = std::min(*limit, least.value_or(*limit));
  };
  for (std::string line; std::getline(in, line);) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string_view group = std::string_view(line).substr(second + 1);
    if (controllers == ",,") {
      take(smallest(hierarchies, group, "memory.max"));
      take(smallest(hierarchies, group, "memory.high"));
    } else if (controllers.find(",memory,") != std::string::npos) {
      take(smallest(hierarchies + "/memory", group, "memory.limit_in_bytes"));
    }
  }
  return least;
}

std::uint64_t physical_memory_bytes() {
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  const long page_bytes = ::sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page_bytes <= 0) return 0;
  return static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page_bytes);
}

bool memory_is_scarce(std::optional<std::uint64_t> memory_limit, std::uint64_t physical_bytes) {
  return memory_limit && *memory_limit < physical_bytes / 2;
}

std::uint64_t io_budget(std::uint64_t requested, std::optional<std::uint64_t> memory_limit) {
  std::uint64_t budget = requested;
  if (memory_limit) {
    const std::uint64_t left =
        *memory_limit > limits::kProcessReserveBytes ? *memory_limit - limits::kProcessReserveBytes : 0;
    budget = std::min(budget, left / 2);
  }
  return std::max(budget, limits::kIoMemoryMin);
}

}  // namespace steelyard::store
