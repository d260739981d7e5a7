// Changes of records, read from the log and waited for there; and what policies ask of the state.
#include <utility>

#include "catalog/catalog.h"
#include "metadata/codec.h"
#include "metadata/keys.h"
#include "metadata/rows.h"

namespace steelyard::catalog {

using metadata::Identity;
using metadata::RevisionRecord;
using metadata::StateView;

namespace {

constexpr std::size_t kAppendsAtOnce = 256;

Status check(const WatchQuery& query) {
  if (query.identity) return formats::validate(*query.identity);
  const std::string resource = query.resource_id.value_or("any");
  return formats::validate(metadata::Lineage{query.tenant_id, query.namespace_id, resource, "any"});
}

bool matches(const WatchQuery& query, const Identity& identity) {
  if (query.identity) return identity == *query.identity;
  const metadata::Lineage& lineage = identity.lineage;
  return lineage.tenant_id == query.tenant_id && lineage.namespace_id == query.namespace_id &&
         (!query.resource_id || lineage.resource_id == *query.resource_id);
}

/// The matching records as they stand.
Result<std::vector<RevisionRecord>> records_in(const StateView& view, const WatchQuery& query) {
  if (query.identity) {
    SY_ASSIGN_OR_RETURN(std::optional<RevisionRecord> record, metadata::find_revision(view, *query.identity));
    std::vector<RevisionRecord> records;
    if (record) records.push_back(*std::move(record));
    return records;
  }
  const char table = metadata::keys::kRevision;
  const std::string prefix =
      query.resource_id
          ? metadata::keys::resource_prefix(table, query.tenant_id, query.namespace_id, *query.resource_id)
          : metadata::keys::namespace_prefix(table, query.tenant_id, query.namespace_id);
  return metadata::rows_under(view, prefix, metadata::decode_record);
}

Result<WatchBatch> snapshot_of(oplog::OpLog& log, const WatchQuery& query) {
  WatchBatch batch;
  batch.resnapshot = true;
  SY_RETURN_IF_ERROR(log.view([&](const StateView& view) -> Status {
    batch.next = view.sequence();
    batch.changes.clear();
    SY_ASSIGN_OR_RETURN(std::vector<RevisionRecord> records, records_in(view, query));
    for (RevisionRecord& record : records) batch.changes.push_back({batch.next, std::move(record)});
    return {};
  }));
  return batch;
}

Status add_changes(const oplog::Append& append, const WatchQuery& query, WatchBatch& batch) {
  for (const metadata::Entry& entry : append.entries) {
    SY_ASSIGN_OR_RETURN(metadata::DecodedEntry decoded, metadata::decode_entry(entry));
    auto* put = std::get_if<metadata::RevisionPut>(&decoded.body);
    if (put == nullptr || !matches(query, put->record.identity)) continue;
    batch.changes.push_back({append.sequence, std::move(put->record)});
  }
  batch.next = append.sequence;
  return {};
}

}  // namespace

Result<WatchBatch> Catalog::watch_weight_revisions(const WatchQuery& query) {
  SY_RETURN_IF_ERROR(check(query));
  if (!query.after) return snapshot_of(log_, query);
  std::uint64_t newest = 0;
  SY_RETURN_IF_ERROR(log_.view([&newest](const StateView& view) {
    newest = view.sequence();
    return Status();
  }));
  // A log that was restored to an older state counts anew from there.
  if (*query.after > newest) return snapshot_of(log_, query);
  WatchBatch batch;
  batch.next = *query.after;
  while (true) {
    const Result<std::vector<oplog::Append>> appends = log_.read(batch.next, kAppendsAtOnce);
    if (appends.code() == Code::kNotFound) return snapshot_of(log_, query);
    SY_RETURN_IF_ERROR(appends.status());
    for (const oplog::Append& append : *appends) SY_RETURN_IF_ERROR(add_changes(append, query, batch));
    if (!batch.changes.empty()) return batch;
    if (!appends->empty()) continue;
    SY_ASSIGN_OR_RETURN(const bool more, log_.watch(batch.next, query.deadline_mono_ms));
    if (!more) return batch;
  }
}

Result<std::vector<Catalog::RevisionUse>> Catalog::uses_after(const std::optional<Identity>& after, std::size_t limit) {
  std::vector<RevisionUse> uses;
  SY_RETURN_IF_ERROR(log_.view([&](const StateView& view) -> Status {
    uses.clear();
    const metadata::Now at = now();
    SY_ASSIGN_OR_RETURN(std::vector<RevisionRecord> records, metadata::records_after(view, after, limit));
    for (RevisionRecord& record : records) {
      SY_ASSIGN_OR_RETURN(const auto leases, metadata::live_leases_of(view, record.identity, at));
      SY_ASSIGN_OR_RETURN(const metadata::LastUse last, metadata::last_use_of(view, record.identity));
      uses.push_back({std::move(record), leases.size(), last});
    }
    return {};
  }));
  return uses;
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
