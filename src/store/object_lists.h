// ObjectLists: what planning a move needs of a manifest, kept, so that who plans again and again reads each one once.
//
// Thread-safety: may be used from any thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "base/status.h"
#include "formats/stored_manifest.h"
#include "metadata/types.h"
#include "tiers/tier.h"

namespace steelyard::store {

class ObjectLists {
 public:
  using List = std::shared_ptr<const formats::StoredManifest>;

  /// The record's manifest, with nothing but the sizes and digests of its objects. The errors are load_manifest's.
  Result<List> get(tiers::Tier& cold, const metadata::RevisionRecord& record);

 private:
  std::mutex mutex_;
  std::map<std::string, List> by_sha256_;
  std::deque<std::string> in_order_;  ///< of being read
  std::uint64_t objects_ = 0;         ///< in all of them
};

}  // namespace steelyard::store
