// A log that shows other rows than it has: what is under a checker's eyes all the time, and never appended.
#pragma once

#include <memory>

#include "oplog/op_log.h"
#include "sim/workload/canaries.h"

namespace steelyard::sim {

/// `inner` itself, where the canary is none of this kind.
std::unique_ptr<oplog::OpLog> make_lying_log(std::unique_ptr<oplog::OpLog> inner, Canary canary);

}  // namespace steelyard::sim
