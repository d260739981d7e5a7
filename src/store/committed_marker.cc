#include "store/committed_marker.h"

#include "catalog/catalog.h"
#include "store/context.h"

namespace steelyard::store {

namespace {

/// What was committed of a record: without the operation and the damage of today, which end or are found again. The
/// marker stays as it is once it is written.
metadata::RevisionRecord as_committed(metadata::RevisionRecord record) {
  record.operation.reset();
  record.damage = {};
  record.availability = metadata::Availability::kReady;
  if (record.residency == metadata::Residency::kAbsent) record.residency = metadata::Residency::kCold;
  return record;
}

}  // namespace

Status ensure_committed_marker(tiers::Tier& cold, const metadata::RevisionRecord& record) {
  const tiers::AttemptName attempt = attempt_of(record);
  const auto found = cold.read_committed(attempt);
  if (found.ok() || found.code() != Code::kNotFound) return found.status();
  return cold.put_committed(attempt, catalog::encode_committed(as_committed(record)));
}

}  // namespace steelyard::store
