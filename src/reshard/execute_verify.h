// The check after a copy. Internal to the executor.
#pragma once

#include <span>

#include "base/status.h"
#include "reshard/execute.h"

namespace steelyard::reshard {

/// Compares every target fragment that the plan writes with what its elements are in the chosen sources, found element
/// row by element row from the boxes alone: neither loops nor strides of regions are used. Gives the number of
/// fragments, or CORRUPT.
Result<std::uint64_t> verify_targets(const TransferPlan& plan, std::span<const FragmentMemory> source,
                                     std::span<const FragmentMemory> target);

}  // namespace steelyard::reshard
