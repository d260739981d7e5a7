// What every Tier must do, as cases that need no test framework: unit tests run them on each backend, and a user may
// run them on the tier of a real store.
//
// Every case works in groups of its own with random names, and removes what it made.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/runtime.h"
#include "base/status.h"
#include "tiers/tier.h"

namespace steelyard::conformance {

/// The tier to examine, and what the cases may do to it beside the interface.
struct TierUnderTest {
  /// Opens the tier; each call another instance over the same storage, as another process would.
  std::function<Result<std::unique_ptr<tiers::Tier>>()> open;
  /// Puts a name that is no object's into an attempt; absent where the backend cannot hold such names.
  std::function<Status(const tiers::AttemptName& attempt, const std::string& name)> add_foreign;
  /// Makes the removal of an object fail until the function returned is called; absent where it cannot be made to.
  std::function<std::function<void()>(const tiers::ObjectName& name)> block_removal;
  /// The largest object put; at least 2 MiB.
  std::uint64_t object_bytes = 8 * 1024 * 1024;
};

struct CaseResult {
  enum class Outcome : std::uint8_t { kPassed, kFailed, kSkipped } outcome = Outcome::kPassed;
  std::string name;
  std::string detail;  ///< what was expected and found, or why it was skipped
};

/// Runs all cases in order. A failed case does not stop the others.
std::vector<CaseResult> run_tier_conformance(Runtime& runtime, const TierUnderTest& subject);

}  // namespace steelyard::conformance
