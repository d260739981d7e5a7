#include "store/resolve.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/limits.h"
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

constexpr std::size_t kNamedMax = 5;

std::string without_generation(const std::string& ref) { return ref.substr(0, ref.rfind('#')); }

/// Of the records the last `kNamedMax`, newest first, each as `name_of` has it and with its state.
template <typename NameOf>
std::string named(const std::vector<RevisionRecord>& records, const NameOf& name_of, std::string_view others) {
  std::string text;
  for (std::size_t i = 0; i < std::min(records.size(), kNamedMax); ++i) {
    const RevisionRecord& record = records[records.size() - 1 - i];
    text += fmt::format("{} {} ({})", i == 0 ? "" : ",", name_of(record), state_of(record));
  }
  if (records.size() > kNamedMax) text += fmt::format(" and {} {}", records.size() - kNamedMax, others);
  return text;
}

/// All records of a query in the order of `list`: what was committed last stands last, but for unfinished imports,
/// which come first here, since they are the last to be meant.
Result<std::vector<RevisionRecord>> all_of(catalog::Catalog& catalog, metadata::ListQuery query) {
  query.limit = limits::kListLimitMax;
  std::vector<RevisionRecord> records;
  do {
    SY_ASSIGN_OR_RETURN(metadata::ListPage page, catalog.list_weight_revisions(query));
    std::ranges::move(page.records, std::back_inserter(records));
    query.page_token = std::move(page.next_page_token);
  } while (!query.page_token.empty());
  std::ranges::stable_partition(records,
                                [](const RevisionRecord& record) { return !is_published(record.availability); });
  return records;
}

/// A resource `ORG/NAME` of which only NAME was given; empty where there is none.
Result<std::string> whole_name(catalog::Catalog& catalog, const metadata::Lineage& lineage) {
  metadata::ListQuery query;
  query.tenant_id = lineage.tenant_id;
  query.namespace_id = lineage.namespace_id;
  query.newest = true;
  SY_ASSIGN_OR_RETURN(const std::vector<RevisionRecord> records, all_of(catalog, std::move(query)));
  const std::string end = "/" + lineage.resource_id;
  for (const RevisionRecord& record : records) {
    if (record.identity.lineage.resource_id.ends_with(end)) {
      return without_generation(formats::format_ref(record.identity));
    }
  }
  return std::string();
}

/// `message` says what is not there; added is what there is instead: other generations, else other revisions.
Status not_found(catalog::Catalog& catalog, const Selector& selector, std::string message) {
  const metadata::Lineage lineage = lineage_of(selector);
  SY_ASSIGN_OR_RETURN(const std::vector<RevisionRecord> generations, catalog.list_lineage(lineage));
  if (!generations.empty()) {
    message += "; there is" +
               named(
                   generations,
                   [](const RevisionRecord& record) { return fmt::format("#{}", record.identity.weight_generation); },
                   "older");
    return {Code::kNotFound, std::move(message), "`steelyard list --all` shows every state"};
  }
  if (!selector.ref.weight_generation) message += ", nor one in another state";
  metadata::ListQuery query;
  query.tenant_id = lineage.tenant_id;
  query.namespace_id = lineage.namespace_id;
  query.resource_id = lineage.resource_id;
  query.all = true;
  SY_ASSIGN_OR_RETURN(const std::vector<RevisionRecord> others, all_of(catalog, std::move(query)));
  if (others.empty()) {
    SY_ASSIGN_OR_RETURN(const std::string whole, whole_name(catalog, lineage));
    return {Code::kNotFound, std::move(message),
            (whole.empty() ? "" : fmt::format("did you mean {}? ", whole)) +
                "`steelyard list --all` shows everything that is there"};
  }
  const std::string resource = formats::format_ref({lineage, 1});
  message += fmt::format(
      "; of {} there is{}", resource.substr(0, resource.rfind('@')),
      named(
          others, [](const RevisionRecord& record) { return formats::format_ref(record.identity); }, "more"));
  return {Code::kNotFound, std::move(message),
          fmt::format("name the revision, as in {}{}", without_generation(formats::format_ref(others.back().identity)),
                      selector.ref.revision ? "" : "; without a revision, main is meant")};
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

Selector selector_of(const metadata::Identity& identity) {
  Selector selector;
  selector.tenant_id = identity.lineage.tenant_id;
  selector.namespace_id = identity.lineage.namespace_id;
  selector.ref = {identity.lineage.resource_id, identity.lineage.revision, identity.weight_generation};
  return selector;
}

Result<RevisionRecord> resolve(catalog::Catalog& catalog, const Selector& selector, Purpose purpose) {
  const metadata::Lineage lineage = lineage_of(selector);
  if (selector.ref.weight_generation) {
    Result<RevisionRecord> found = catalog.get_weight_revision({lineage, *selector.ref.weight_generation});
    if (found.code() == Code::kNotFound) return not_found(catalog, selector, found.status().message());
    SY_ASSIGN_OR_RETURN(RevisionRecord record, std::move(found));
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
  return not_found(
      catalog, selector,
      fmt::format("no READY revision of {} in tenant {}, namespace {}",
                  without_generation(formats::format_ref({lineage, 1})), lineage.tenant_id, lineage.namespace_id));
}

Result<RevisionRecord> newest_that(catalog::Catalog& catalog, const Selector& selector,
                                   const std::vector<std::function<bool(const RevisionRecord&)>>& wishes) {
  if (selector.ref.weight_generation) return resolve(catalog, selector, Purpose::kInspect);
  SY_ASSIGN_OR_RETURN(const std::vector<RevisionRecord> records, catalog.list_lineage(lineage_of(selector)));
  for (const auto& wish : wishes) {
    const auto found = std::find_if(records.rbegin(), records.rend(), wish);
    if (found != records.rend()) return *found;
  }
  return resolve(catalog, selector, Purpose::kInspect);
}

}  // namespace steelyard::store
