// The executor for host memory: does a plan's copies.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "base/runtime.h"
#include "base/status.h"
#include "reshard/transfer_plan.h"
#include "steelyard/values.h"

namespace steelyard::reshard {

using steelyard::ExecuteReport;
using steelyard::FragmentMemory;

struct ExecuteOptions {
  std::size_t threads = 1;
  /// Afterwards every target fragment is compared, by checksum, with its elements as a walk in the naive order finds
  /// them in the sources.
  bool verify = false;
  /// Everything is checked and counted, nothing is copied.
  bool dry_run = false;
  /// Asked before the first byte moves, and again after the last one: an error of it is the result.
  std::function<Status()> fence;
  Runtime* runtime = nullptr;  ///< for the threads; null: the process's own
};

/// Copies every region. One entry of `source` and `target` per fragment of that side of the plan, in its order; blocks
/// until done.
///
/// Before the first byte moves every region is checked against the memory given: INVALID_ARGUMENT for a fragment
/// without an address, smaller than the plan's own number of bytes, a range that leaves 64 bits, a target that shares
/// bytes with a source, or two targets that share bytes and are not one range that both declare as aliases. A dry run
/// stops there. An error of the fence is given as it is: before the copy nothing was touched, after it the targets are
/// not to be trusted. CORRUPT when verify finds a fragment that differs, naming it. The bytes must not change
/// meanwhile.
Result<ExecuteReport> execute(const TransferPlan& plan, std::span<const FragmentMemory> source,
                              std::span<const FragmentMemory> target, const ExecuteOptions& options = {});

}  // namespace steelyard::reshard
