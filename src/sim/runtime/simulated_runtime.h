// The Runtime of one simulated process.
#pragma once

#include <memory>

#include "base/runtime.h"

namespace steelyard::sim {

class Process;
class World;

/// Both must outlive it. Used from the fibres of the process; the clocks and random bytes also from outside of fibres.
std::unique_ptr<Runtime> make_simulated_runtime(World& world, Process& process);

}  // namespace steelyard::sim
