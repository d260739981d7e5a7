// What doctor says of the memory tier: its place, its limits, its instance, and what the records say of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "metadata/types.h"
#include "store/doctor.h"
#include "store/open_store.h"

namespace steelyard::store {

/// A published record that counts replicas in memory, as it was when the catalog was looked at.
struct MemoryRecord {
  metadata::Identity identity;
  std::string instance;
  std::string boot_id;  ///< that made it
  std::uint64_t members = 0;
  std::uint64_t metadata_generation = 0;
};

std::vector<DoctorReport::Check> examine_memory(Runtime& runtime, const StoreOptions& options, const StoreParts& parts,
                                                const std::vector<MemoryRecord>& recorded);

}  // namespace steelyard::store
