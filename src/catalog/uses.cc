// What policies ask of the state: which revisions there are, and when they were used last.
#include <utility>

#include "catalog/catalog.h"

namespace steelyard::catalog {

using metadata::Identity;
using metadata::RevisionRecord;
using metadata::StateView;

Result<std::vector<Catalog::RevisionUse>> Catalog::uses_after(const std::optional<Identity>& after, std::size_t limit) {
  std::vector<RevisionUse> uses;
  SY_RETURN_IF_ERROR(log_.view([&](const StateView& view) -> Status {
    uses.clear();
    SY_ASSIGN_OR_RETURN(std::vector<RevisionRecord> records, metadata::records_after(view, after, limit));
    for (RevisionRecord& record : records) {
      SY_ASSIGN_OR_RETURN(RevisionUse use, use_of(view, std::move(record)));
      uses.push_back(std::move(use));
    }
    return {};
  }));
  return uses;
}

Result<std::vector<Catalog::RevisionUse>> Catalog::uses_of_groups(const std::vector<std::string>& group_digests_hex) {
  std::vector<RevisionUse> uses;
  SY_RETURN_IF_ERROR(log_.view([&](const StateView& view) -> Status {
    uses.clear();
    for (const std::string& group : group_digests_hex) {
      SY_ASSIGN_OR_RETURN(std::optional<RevisionRecord> record, metadata::find_by_group(view, group));
      if (!record) continue;
      SY_ASSIGN_OR_RETURN(RevisionUse use, use_of(view, *std::move(record)));
      uses.push_back(std::move(use));
    }
    return {};
  }));
  return uses;
}

Result<Catalog::RevisionUse> Catalog::use_of(const StateView& view, RevisionRecord record) {
  SY_ASSIGN_OR_RETURN(const auto leases, metadata::live_leases_of(view, record.identity, now()));
  SY_ASSIGN_OR_RETURN(const metadata::LastUse last, metadata::last_use_of(view, record.identity));
  return RevisionUse{std::move(record), leases.size(), last};
}

Result<metadata::LastUse> Catalog::use_now() {
  metadata::LastUse use;
  SY_RETURN_IF_ERROR(log_.view([&](const StateView& view) -> Status {
    SY_ASSIGN_OR_RETURN(const metadata::EpochState epoch, metadata::epoch_of(view));
    const metadata::Now at = now();
    use = {epoch.ordinal + (epoch.epoch == at.epoch ? 0 : 1), at.mono_ms};
    return {};
  }));
  return use;
}

}  // namespace steelyard::catalog
