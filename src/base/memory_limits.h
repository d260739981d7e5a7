// How much memory this process and its container may still take.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace steelyard {

/// A memory limit that holds for this process.
struct MemoryLimit {
  std::string file;         ///< that states it, for messages
  std::uint64_t bytes = 0;  ///< the limit
  std::uint64_t used = 0;   ///< of it, what the kernel cannot take back by dropping clean pages
  std::uint64_t free() const { return bytes > used ? bytes - used : 0; }
};

/// The limits of this process's cgroup and its ancestors (v2, where a group is throttled too, or v1), innermost first.
/// A container sees its own group as the root. The arguments are for tests.
std::vector<MemoryLimit> cgroup_memory_limits(const std::string& own_groups = "/proc/self/cgroup",
                                              const std::string& hierarchies = "/sys/fs/cgroup");

/// What the machine can give without swapping (MemAvailable) and with it (SwapFree), as a limit of nothing used. Its
/// bytes are 0 where /proc does not say. The argument is for tests.
MemoryLimit machine_memory(const std::string& meminfo = "/proc/meminfo");

/// All of the above.
std::vector<MemoryLimit> system_memory_limits();

}  // namespace steelyard
