#include "store/context.h"

#include <algorithm>

#include "formats/identity.h"

namespace steelyard::store {

tiers::AttemptName attempt_of(const metadata::Identity& identity, std::uint32_t import_attempt) {
  return {formats::payload_group_digest(identity).hex(), import_attempt};
}

tiers::AttemptName attempt_of(const metadata::RevisionRecord& record) {
  return attempt_of(record.identity, record.import_attempt);
}

tiers::ObjectName manifest_of(const tiers::AttemptName& attempt) { return {attempt, tiers::ObjectKind::kManifest, 0}; }

tiers::ObjectName payload_of(const tiers::AttemptName& attempt, std::uint32_t index) {
  return {attempt, tiers::ObjectKind::kPayload, index};
}

unsigned worker_count(const Context& context, std::uint64_t bytes_per_worker) {
  const std::uint64_t affordable = context.io_budget / std::max<std::uint64_t>(bytes_per_worker, 1);
  return static_cast<unsigned>(std::clamp<std::uint64_t>(affordable, 1, context.options.jobs));
}

}  // namespace steelyard::store
