// TierObserver: what lies in the tiers under (group, attempt), for the catalog's Commit.
#pragma once

#include <map>
#include <mutex>
#include <vector>

#include "catalog/catalog.h"
#include "tiers/tier.h"

namespace steelyard::store {

/// Thread-safe.
class TierObserver final : public catalog::GroupObserver {
 public:
  explicit TierObserver(tiers::Tier& cold) : cold_(cold) {}

  /// Lists the attempt, reads the manifest, and compares every member's size: with the sizes promised by `expect`, else
  /// with the manifest's own.
  Result<catalog::GroupObservation> observe(const metadata::Identity& identity, std::uint32_t import_attempt) override;

  /// The importer's promise of each payload object's size, and whether everything put is flushed.
  void expect(const tiers::AttemptName& attempt, std::vector<std::uint64_t> object_bytes);
  void set_flushed(const tiers::AttemptName& attempt, bool flushed);
  void forget(const tiers::AttemptName& attempt);

 private:
  struct Expected {
    std::vector<std::uint64_t> object_bytes;
    bool flushed = false;
  };
  tiers::Tier& cold_;
  std::mutex mutex_;
  std::map<tiers::AttemptName, Expected> expected_;
};

}  // namespace steelyard::store
