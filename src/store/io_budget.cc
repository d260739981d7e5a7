#include "store/io_budget.h"

#include <unistd.h>

#include <algorithm>
#include <string>

#include "base/limits.h"
#include "base/memory_limits.h"

namespace steelyard::store {
std::optional<std::uint64_t> cgroup_memory_limit(const std::string& own_groups, const std::string& hierarchies) {
  std::optional<std::uint64_t> least;
  for (const MemoryLimit& limit : cgroup_memory_limits(own_groups, hierarchies)) {
    least = std::min(limit.bytes, least.value_or(limit.bytes));
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
