#include "store/usage.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "base/limits.h"
#include "base/log.h"

namespace steelyard::store {
namespace {

/// One group that uses some bytes. Of all groups sorted, those that share bytes stand together.
struct Use {
  std::uint64_t storage = 0;
  std::uint32_t group = 0;
  std::uint64_t bytes = 0;
  auto operator<=>(const Use&) const = default;
};

/// Every revision of the namespace that may have bytes, by commit, then by begin.
Result<std::vector<RevisionUsage>> revisions_of(catalog::Catalog& catalog, const std::string& tenant_id,
                                                const std::string& namespace_id) {
  using metadata::Availability;
  metadata::ListQuery query;
  query.tenant_id = tenant_id;
  query.namespace_id = namespace_id;
  query.states = {Availability::kImporting, Availability::kReady, Availability::kDegraded, Availability::kDeleting};
  query.limit = limits::kListLimitMax;
  std::vector<RevisionUsage> revisions;
  do {
    SY_ASSIGN_OR_RETURN(metadata::ListPage page, catalog.list_weight_revisions(query));
    for (metadata::RevisionRecord& record : page.records) revisions.push_back({std::move(record), 0, 0});
    query.page_token = std::move(page.next_page_token);
  } while (!query.page_token.empty());
  return revisions;
}

}  // namespace

Result<UsageReport> run_usage(Context& context, const std::string& tenant_id, const std::string& namespace_id) {
  UsageReport report;
  SY_ASSIGN_OR_RETURN(report.revisions, revisions_of(context.catalog, tenant_id, namespace_id));
  std::map<std::string, std::size_t> by_group;
  for (std::size_t i = 0; i < report.revisions.size(); ++i) {
    by_group.emplace(attempt_of(report.revisions[i].record).group, i);
  }

  // The groups of other namespaces count too: what one shares with them is shared.
  std::vector<std::string> groups;
  std::vector<Use> uses;
  SY_ASSIGN_OR_RETURN(const tiers::TierUsage cold, context.cold.usage([&](const tiers::ObjectStat& object) {
    if (groups.empty() || groups.back() != object.name.in.group) groups.push_back(object.name.in.group);
    uses.push_back({object.storage, static_cast<std::uint32_t>(groups.size() - 1), object.bytes});
  }));
  // A revision whose own objects are equal keeps their bytes once.
  std::sort(uses.begin(), uses.end());
  uses.erase(std::unique(uses.begin(), uses.end()), uses.end());
  for (auto first = uses.begin(); first != uses.end();) {
    const auto last = std::find_if(first, uses.end(), [&](const Use& use) { return use.storage != first->storage; });
    for (auto use = first; use != last; ++use) {
      const auto revision = by_group.find(groups[use->group]);
      if (revision == by_group.end()) continue;
      RevisionUsage& usage = report.revisions[revision->second];
      (last - first == 1 ? usage.exclusive_bytes : usage.shared_bytes) += use->bytes;
    }
    first = last;
  }

  report.tiers.emplace_back(context.cold.traits().name, cold);
  // An instance that cannot be looked at keeps nobody from the rest.
  if (const auto hot = mounted_hot(context); hot != nullptr) {
    const auto memory = hot->usage();
    if (memory.ok()) {
      report.tiers.emplace_back(hot->traits().name, *memory);
    } else {
      log_warning("the memory tier is left out: {}", memory.status().message());
    }
  }
  return report;
}

}  // namespace steelyard::store
