// bench: what memory and disk can do here, and what the store reaches.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/runtime.h"
#include "base/status.h"
#include "store/store.h"

namespace steelyard::store {

struct BenchReport {
  struct Row {
    std::string name;
    std::uint64_t bytes = 0;
    double seconds = 0;
    std::string of;  ///< what was moved
  };
  std::vector<Row> rows;
};

/// Measures with small sizes, in folders `bench-<random>` of its own in the store and its cold tier, which go again;
/// the store is only looked at. With `revision` its payload is read too, 1 GiB of it at most. NO_SPACE where there is
/// no room to try.
Result<BenchReport> measure_store(Runtime& runtime, const StoreOptions& options,
                                  const std::optional<Selector>& revision, const CancelFlag& cancel);

}  // namespace steelyard::store
