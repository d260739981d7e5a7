// Plain values that the other headers share, and that the library uses within as they are.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>

namespace steelyard {

/// Where a process stands in data, tensor, pipeline and expert parallelism. Ordered in this order; each at least 0.
struct ParallelRank {
  std::int64_t dp = 0;
  std::int64_t tp = 0;
  std::int64_t pp = 0;
  std::int64_t ep = 0;
  auto operator<=>(const ParallelRank&) const = default;
};

/// Names and fences of a runtime manifest.
struct RuntimeHeader {
  std::string model_id = {};
  std::string revision = {};
  std::string instance_id = {};
  std::optional<std::string> lease_id = {};
  std::optional<std::string> placement_id = {};
  std::optional<std::uint64_t> generation = {};
  bool operator==(const RuntimeHeader&) const = default;
};

/// What a binding is of, and its fences: the lease and the generation under which its addresses hold.
struct BindingHeader {
  std::string model_id = {};
  std::string revision = {};
  std::string placement_id = {};
  std::string placement_digest = {};  ///< PlacementManifest::digest
  std::string instance_id = {};
  std::uint64_t generation = 0;
  std::string lease_id = {};
  bool operator==(const BindingHeader&) const = default;
};

/// Where a fragment lies in this process. Address 0: not given; fine for a fragment that no region uses.
struct FragmentMemory {
  std::uint64_t address = 0;
  std::uint64_t nbytes = 0;
};

/// What was copied, or in a dry run would be.
struct ExecuteReport {
  std::uint64_t bytes = 0;
  std::uint64_t regions = 0;
  std::uint64_t segments = 0;
  std::uint64_t source_fragments = 0;  ///< that are read
  std::uint64_t target_fragments = 0;  ///< that are written
  std::uint64_t verified_fragments = 0;
};

}  // namespace steelyard
