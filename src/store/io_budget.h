// How much memory the I/O buffers of one verb may take.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace steelyard::store {

/// The smallest memory limit of this process's cgroup and its ancestors (v2, where a group is throttled too, or v1);
/// absent when there is none. The arguments are for tests.
std::optional<std::uint64_t> cgroup_memory_limit(const std::string& own_groups = "/proc/self/cgroup",
                                                 const std::string& hierarchies = "/sys/fs/cgroup");

/// The memory of the machine.
std::uint64_t physical_memory_bytes();

/// The limit is well below what the machine has, so that cached files are what fills it up first.
bool memory_is_scarce(std::optional<std::uint64_t> memory_limit, std::uint64_t physical_bytes);

/// min(requested, (limit - 96 MiB) / 2), at least 16 MiB.
std::uint64_t io_budget(std::uint64_t requested, std::optional<std::uint64_t> memory_limit);

}  // namespace steelyard::store
