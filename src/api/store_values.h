// The store's values as those of include/steelyard/revision.h, and names on their way in. Internal.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "api/internals.h"
#include "catalog/catalog.h"
#include "metadata/types.h"
#include "steelyard/revision.h"
#include "steelyard/store.h"
#include "store/store.h"

namespace steelyard {

/// The revision that `ref` names in a tenant and namespace. INVALID_ARGUMENT for a name against the rules.
Result<store::Selector> selector_of(const std::string& tenant_id, const std::string& namespace_id, const Ref& ref);

Identity from_core(const metadata::Identity& identity);
Revision from_core(const metadata::RevisionRecord& record);
Operation from_core(const metadata::Operation& operation);
ResidencyReport from_core(const store::ResidencyResult& result);
/// Of references that the program wrote.
std::vector<Ref> refs_of(const std::vector<std::string>& texts);
Problem from_core(store::Problem problem);
LeaseInfo from_core(const metadata::Lease& lease, std::int64_t left_ms);
std::vector<FileInfo> files_of(const formats::StoredManifest& manifest);

metadata::Availability to_core(Availability value);
metadata::Residency to_core(Residency value);
metadata::PolicyMode to_core(PolicyMode value);

template <typename Core>
std::vector<Revision> from_core(const std::vector<Core>& records) {
  std::vector<Revision> out;
  out.reserve(records.size());
  for (const Core& record : records) out.push_back(from_core(record));
  return out;
}

}  // namespace steelyard
