// What the calls of all clients have in common.
#pragma once

#include "metadata/types.h"
#include "store/store.h"

namespace steelyard::sim {

/// Of a call that may succeed a moment later.
inline constexpr int kTriesMax = 6;

class Deaf final : public store::Observer {
 public:
  void progress(const store::Progress& /*progress*/) override {}
  void warning(const std::string& /*message*/) override {}
};

/// The same call may succeed a moment later.
inline bool may_try_again(Code code) {
  return code == Code::kUnavailable || code == Code::kDurabilityFailed || code == Code::kUnknownOutcome;
}
inline bool may_try_again(const Status& status) { return may_try_again(status.code()); }

/// `exact`: with its generation.
inline store::Selector selector_of(const metadata::Identity& identity, bool exact = true) {
  store::Selector selector;
  selector.tenant_id = identity.lineage.tenant_id;
  selector.namespace_id = identity.lineage.namespace_id;
  selector.ref.resource_id = identity.lineage.resource_id;
  selector.ref.revision = identity.lineage.revision;
  if (exact) selector.ref.weight_generation = identity.weight_generation;
  return selector;
}

}  // namespace steelyard::sim
