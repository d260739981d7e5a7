// Which objects of a revision are hot when it is MIXED. Pure, deterministic, fast for the largest revision.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"

namespace steelyard::metadata {

/// A set of a revision's objects: hot, and all the others cold.
struct MixedPlan {
  std::vector<bool> hot;  ///< by object number
  std::uint64_t hot_members = 0;
  std::uint64_t hot_bytes = 0;
  std::uint64_t bytes = 0;           ///< of all objects
  std::uint32_t hot_millionths = 0;  ///< what a record says when this set is hot
  std::string digest;                ///< 64 hex digits, of the set; an operation keeps it
};

/// Objects that are not of the most frequent size, up to which a plan is the nearest set there is.
inline constexpr std::size_t kMixedExactMax = 16;

/// The set whose bytes are nearest to `ratio_millionths` of the bytes of all objects (rounded to whole bytes, and at
/// least 1 away from none and all). At least one object is hot and one cold. Depends on the sizes and the ratio alone,
/// never on what is hot now, so whoever resumes an operation finds the same set.
///
/// Nearest: exactly, where at most kMixedExactMax objects are not of the most frequent size. With more of them it is
/// within half the size of the largest object (mixed_plan.cc has the proof), and mostly much nearer. Where the target
/// is less than the smallest object away from none or all, it is exact too. Of two sets that are as near, the one with
/// fewer hot bytes.
///
/// INVALID_ARGUMENT: fewer than two objects, an object without bytes, a sum that is no 64-bit number, a ratio that is
/// not 1 to 999,999.
Result<MixedPlan> plan_mixed(std::span<const std::uint64_t> object_bytes, std::uint32_t ratio_millionths);

}  // namespace steelyard::metadata
