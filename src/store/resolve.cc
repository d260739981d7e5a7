#include "store/resolve.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"
#include "formats/ref.h"

namespace steelyard::store {
namespace {

using metadata::Availability;
using metadata::RevisionRecord;

/// "state since time", for messages.
std::string state_of(const RevisionRecord& record) {
  return fmt::format("{} since {}", metadata::name_of(record.availability),
                     format_rfc3339(record.availability_since_ms));
}

std::string hint_for(const RevisionRecord& record) {
  switch (record.availability) {
    case Availability::kImporting:
      return "wait for the import to end, or run the same import again to resume it";
    case Availability::kDegraded:
      return "`steelyard verify` names the damage; --allow-degraded serves what is intact";
    default:
      return "import it again under a new generation";
  }
}

Status not_ready(const RevisionRecord& record) {
  return {Code::kNotReady, fmt::format("{} is {}", formats::format_ref(record.identity), state_of(record)),
          hint_for(record)};
}

Status not_found(const metadata::Lineage& lineage, const std::vector<RevisionRecord>& records) {
  const std::string name = formats::format_ref({lineage, 1});
  const std::string without_generation = name.substr(0, name.rfind('#'));
  std::string message = fmt::format("no READY revision of {} in tenant {}, namespace {}", without_generation,
                                    lineage.tenant_id, lineage.namespace_id);
  if (records.empty()) {
    const std::string resource = without_generation.substr(0, without_generation.rfind('@'));
    return {Code::kNotFound, message + ", nor one in another state",
            fmt::format("`steelyard list --all {}` shows its other revisions, `steelyard list --all` everything",
                        resource)};
  }
  message += "; there is";
  constexpr std::size_t kNamedMax = 5;
  for (std::size_t i = 0; i < std::min(records.size(), kNamedMax); ++i) {
    const RevisionRecord& record = records[records.size() - 1 - i];
    message += fmt::format("{} #{} ({})", i == 0 ? "" : ",", record.identity.weight_generation, state_of(record));
  }
  if (records.size() > kNamedMax) message += fmt::format(" and {} older", records.size() - kNamedMax);
  return {Code::kNotFound, std::move(message), "`steelyard list --all` shows every state"};
}

const RevisionRecord* newest(const std::vector<RevisionRecord>& records, Availability state) {
  const auto found = std::find_if(records.rbegin(), records.rend(),
                                  [&](const RevisionRecord& record) { return record.availability == state; });
  return found == records.rend() ? nullptr : &*found;
}

}  // namespace

metadata::Lineage lineage_of(const Selector& selector) {
  return {selector.tenant_id, selector.namespace_id, selector.ref.resource_id, selector.ref.revision.value_or("main")};
}

Result<RevisionRecord> resolve(catalog::Catalog& catalog, const Selector& selector, Purpose purpose) {
  const metadata::Lineage lineage = lineage_of(selector);
  if (selector.ref.weight_generation) {
    SY_ASSIGN_OR_RETURN(RevisionRecord record, catalog.get_weight_revision({lineage, *selector.ref.weight_generation}));
    const bool readable = record.availability == Availability::kReady ||
                          (record.availability == Availability::kDegraded && purpose != Purpose::kRead);
    if (!readable && purpose != Purpose::kInspect) return not_ready(record);
    return record;
  }
  SY_ASSIGN_OR_RETURN(const std::vector<RevisionRecord> records, catalog.list_lineage(lineage));
  if (const RevisionRecord* ready = newest(records, Availability::kReady)) return *ready;
  if (const RevisionRecord* degraded = newest(records, Availability::kDegraded)) {
    if (purpose == Purpose::kRead) return not_ready(*degraded);
    return *degraded;
  }
  return not_found(lineage, records);
}

}  // namespace steelyard::store
