// What a plan is made of, as one digest. Internal to the planner.
#pragma once

#include <string>

#include "reshard/plan_inputs.h"

namespace steelyard::reshard {

/// 64 hex digits over canonical JSON of both layout digests and every option that changes the regions; limits do not.
/// A stored source counts with what it says about its tensors, and where they lie.
std::string plan_key(const PlanInputs& inputs);

}  // namespace steelyard::reshard
