// How much memory the I/O buffers of one verb may take.
#pragma once

#include <cstdint>
#include <optional>

namespace steelyard::store {

/// The smallest memory limit of this process's cgroup and its ancestors (v2 or v1); absent when there is none.
std::optional<std::uint64_t> cgroup_memory_limit();

/// min(requested, (limit - 96 MiB) / 2), at least 16 MiB.
std::uint64_t io_budget(std::uint64_t requested, std::optional<std::uint64_t> memory_limit);

}  // namespace steelyard::store
