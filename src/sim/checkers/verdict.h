// What the checkers found wrong.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "sim/runtime/world.h"

namespace steelyard::sim {

/// Each violation goes into the trace as well, where it happened.
class Verdict {
 public:
  explicit Verdict(World& world) : world_(world) {}
  void violated(std::string what) {
    world_.trace("VIOLATED: " + what);
    violations_.push_back(std::move(what));
  }
  const std::vector<std::string>& violations() const { return violations_; }

 private:
  World& world_;
  std::vector<std::string> violations_;
};

}  // namespace steelyard::sim
