#include "store/committed_marker.h"

#include "catalog/catalog.h"
#include "store/context.h"

namespace steelyard::store {

Status ensure_committed_marker(tiers::Tier& cold, const metadata::RevisionRecord& record) {
  const tiers::AttemptName attempt = attempt_of(record);
  const auto found = cold.read_committed(attempt);
  if (found.ok() || found.code() != Code::kNotFound) return found.status();
  return cold.put_committed(attempt, catalog::encode_committed(record));
}

}  // namespace steelyard::store
