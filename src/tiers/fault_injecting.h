// A tier that fails on purpose: a decorator over any tier, for tests and simulation.
//
// Thread-safety: as every tier; with one thread, one seed gives one sequence of faults.
//
// Fault model. Before each call, and by its own chance each:
//   * latency: sleeps up to latency_ms_max (Runtime::sleep_ms), which in a simulation lets other tasks run;
//   * error: UNAVAILABLE, and nothing was done;
//   * no space (what writes only): NO_SPACE, and nothing was done;
//   * short write (puts only): the put fails when it is finished, UNAVAILABLE, after part of the bytes was written;
//     nothing is visible;
//   * lost answer (what changes something only): it is done, and the answer is UNAVAILABLE;
//   * bit rot (reads only): one bit of what was read is another; the stored bytes are as before.
// Torn and lost writes before a sync are the disk's: see SimulatedDisk.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "base/runtime.h"
#include "tiers/tier.h"

namespace steelyard::tiers {

/// Chances in millionths of a call.
struct FaultPlan {
  std::uint64_t seed = 0;
  std::uint32_t error = 0;
  std::uint32_t no_space = 0;
  std::uint32_t short_write = 0;
  std::uint32_t lost_answer = 0;
  std::uint32_t bit_rot = 0;
  std::int64_t latency_ms_max = 0;
};

/// How often each fault was injected, by its name ("error", "no_space", "short_write", "lost_answer", "bit_rot"); a
/// test looks at it to know that its faults happened. Thread-safe.
class FaultCounts {
 public:
  FaultCounts();
  FaultCounts(const FaultCounts&) = delete;
  FaultCounts& operator=(const FaultCounts&) = delete;
  ~FaultCounts();
  std::uint64_t of(const std::string& fault) const;
  void count(const std::string& fault);

 private:
  struct Counts;
  std::unique_ptr<Counts> counts_;
};

std::unique_ptr<Tier> make_fault_injecting(Runtime& runtime, std::unique_ptr<Tier> inner, const FaultPlan& plan,
                                           std::shared_ptr<FaultCounts> counts = nullptr);

}  // namespace steelyard::tiers
