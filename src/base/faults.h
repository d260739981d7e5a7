// The rules of STEELYARD_FAULT (see real_runtime()).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace steelyard {

struct FaultRule {
  enum class Action : std::uint8_t { kKill, kStop, kTrace, kErrno };
  Action action = Action::kKill;
  int error_number = 0;
  std::string point;
  bool prefix = false;        ///< every point that begins with `point`
  std::uint64_t at_pass = 0;  ///< 0: every pass
  std::uint64_t passes = 0;   ///< so far

  bool matches(std::string_view name) const { return prefix ? name.starts_with(point) : name == point; }
};

/// INVALID_ARGUMENT, quoting the rule, for text that is not rules separated by `,`.
Result<std::vector<FaultRule>> parse_fault_rules(std::string_view text);

/// Counts a pass of the point in every rule that matches it, and returns copies of those that act on it, in order.
std::vector<FaultRule> rules_acting_on(std::vector<FaultRule>& rules, std::string_view point);

}  // namespace steelyard
