// What doctor says of the memory tier.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "store/doctor.h"
#include "store/open_store.h"

namespace steelyard::store {

/// Its place, instance, capacity and limits; and what of `recorded`, references by the instance that their records
/// name, is not in the memory here.
std::vector<DoctorReport::Check> examine_memory(Runtime& runtime, const StoreOptions& options, const StoreParts& parts,
                                                const std::map<std::string, std::vector<std::string>>& recorded);

}  // namespace steelyard::store
