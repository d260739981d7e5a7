// doctor: what is wrong with a store or its machine, and what to do.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/runtime.h"
#include "base/status.h"
#include "store/store.h"

namespace steelyard::store {

struct DoctorRequest {
  bool conformance = false;  ///< run the suite that every tier must pass, in the folder of the cold tier
  bool adopt = false;        ///< write the catalog's store id into a cold tier that has another one, or none
};

struct DoctorReport {
  enum class State : std::uint8_t { kOk, kWarning, kProblem, kSkipped };
  struct Check {
    std::string name;  ///< store, catalog, cold tier, ...
    State state = State::kOk;
    std::string found;
    std::string next_step;  ///< empty: nothing to do
    Code code = Code::kOk;  ///< of a problem
  };
  std::vector<Check> checks;
  bool adopted = false;
};

/// Looks at everything it can, also where the store cannot be opened. Changes nothing but with `adopt`: what it writes
/// to try the cold tier lies in a folder `doctor-<random>` of its own there, and goes again. An error only where
/// nothing can be looked at.
Result<DoctorReport> examine_store(Runtime& runtime, const StoreOptions& options, const DoctorRequest& request,
                                   const CancelFlag& cancel);

}  // namespace steelyard::store
