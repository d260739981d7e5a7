#include "store/committed_marker.h"

#include "catalog/catalog.h"
#include "store/context.h"

namespace steelyard::store {

namespace {

/// What was committed of a record: without the operation, the damage and the memory of today, which end or are found
/// again. The marker stays as it is once it is written.
metadata::RevisionRecord as_committed(metadata::RevisionRecord record) {
  record.operation.reset();
  record.damage = {};
  record.availability = metadata::Availability::kReady;
  record.residency = metadata::Residency::kCold;
  record.hot_millionths.reset();
  record.hot_instance.clear();
  record.hot_boot_id.clear();
  record.hot_members = 0;
  return record;
}

}  // namespace

Result<MarkerState> look_at_committed_marker(tiers::Tier& cold, const metadata::RevisionRecord& record) {
  const tiers::AttemptName attempt = attempt_of(record);
  const auto bytes = cold.read_committed(attempt);
  if (bytes.code() == Code::kNotFound) return MarkerState::kMissing;
  if (bytes.code() == Code::kCorrupt) return MarkerState::kDamaged;
  SY_RETURN_IF_ERROR(bytes.status());
  const auto found = catalog::decode_committed(*bytes);
  if (found.code() == Code::kCorrupt) return MarkerState::kDamaged;
  SY_RETURN_IF_ERROR(found.status());
  const bool fits =
      found->identity == record.identity && attempt_of(*found) == attempt && found->summary == record.summary;
  return fits ? MarkerState::kFits : MarkerState::kDamaged;
}

Status ensure_committed_marker(tiers::Tier& cold, const metadata::RevisionRecord& record) {
  SY_ASSIGN_OR_RETURN(const MarkerState state, look_at_committed_marker(cold, record));
  const tiers::AttemptName attempt = attempt_of(record);
  switch (state) {
    case MarkerState::kFits:
      return {};
    case MarkerState::kMissing:
      return cold.put_committed(attempt, catalog::encode_committed(as_committed(record)));
    case MarkerState::kDamaged:
      return cold.replace_committed(attempt, catalog::encode_committed(as_committed(record)));
  }
  return {};
}

}  // namespace steelyard::store
