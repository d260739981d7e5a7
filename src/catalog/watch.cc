// Changes of records, read from the log and waited for there, and what time alone has made due.
#include <algorithm>
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
  if (query.revision && !query.resource_id) {
    return {Code::kInvalidArgument, "a watch of revision " + *query.revision + " names no resource"};
  }
  return formats::validate(metadata::Lineage{query.tenant_id, query.namespace_id, query.resource_id.value_or("any"),
                                             query.revision.value_or("any")});
}

bool matches(const WatchQuery& query, const Identity& identity) {
  if (query.identity) return identity == *query.identity;
  const metadata::Lineage& lineage = identity.lineage;
  return lineage.tenant_id == query.tenant_id && lineage.namespace_id == query.namespace_id &&
         (!query.resource_id || lineage.resource_id == *query.resource_id) &&
         (!query.revision || lineage.revision == *query.revision);
}

/// The matching records as they stand.
Result<std::vector<RevisionRecord>> records_in(const StateView& view, const WatchQuery& query) {
  if (query.identity) {
    SY_ASSIGN_OR_RETURN(std::optional<RevisionRecord> record, metadata::find_revision(view, *query.identity));
    std::vector<RevisionRecord> records;
    if (record) records.push_back(*std::move(record));
    return records;
  }
  if (query.revision) {
    return metadata::records_of(view, {query.tenant_id, query.namespace_id, *query.resource_id, *query.revision});
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
    if (!query.identity || !records.empty()) return {};
    SY_ASSIGN_OR_RETURN(const auto mark, metadata::find_watermark(view, query.identity->lineage));
    batch.compacted = mark && query.identity->weight_generation <= mark->weight_generation;
    return {};
  }));
  return batch;
}

/// Reads on from `next` until an append is of interest to `take`, the deadline, or a cancel. False: what comes next was
/// trimmed, or the log was restored to an older state and counts anew.
template <typename Take>
Result<bool> follow(oplog::OpLog& log, std::uint64_t& next, std::int64_t deadline_mono_ms,
                    const std::atomic<bool>* cancel, const Take& take) {
  std::uint64_t newest = 0;
  SY_RETURN_IF_ERROR(log.view([&newest](const StateView& view) {
    newest = view.sequence();
    return Status();
  }));
  if (next > newest) return false;
  while (true) {
    const Result<std::vector<oplog::Append>> appends = log.read(next, kAppendsAtOnce);
    if (appends.code() == Code::kNotFound) return false;
    SY_RETURN_IF_ERROR(appends.status());
    bool found = false;
    for (const oplog::Append& append : *appends) {
      for (const metadata::Entry& entry : append.entries) {
        SY_ASSIGN_OR_RETURN(metadata::DecodedEntry decoded, metadata::decode_entry(entry));
        if (take(append.sequence, decoded.body)) found = true;
      }
      next = append.sequence;
    }
    if (found) return true;
    if (!appends->empty()) continue;
    SY_ASSIGN_OR_RETURN(const bool more, log.watch(next, deadline_mono_ms, cancel));
    if (!more) return true;
  }
}

/// Ascending, each once.
void sort_out(std::vector<Identity>& identities) {
  std::ranges::sort(identities);
  const auto repeated = std::ranges::unique(identities);
  identities.erase(repeated.begin(), repeated.end());
}

/// Of the rows of a table, those that `is_due` accepts.
template <typename Row, typename IsDue>
Status add_due(const StateView& view, char table, Result<Row> (*decode)(std::string_view), const IsDue& is_due,
               std::vector<Identity>& due) {
  SY_ASSIGN_OR_RETURN(const std::vector<Row> rows, metadata::rows_under(view, std::string(1, table), decode));
  for (const Row& row : rows) {
    if (is_due(row)) due.push_back(row.identity);
  }
  return {};
}

}  // namespace

Result<WatchBatch> Catalog::watch_weight_revisions(const WatchQuery& query) {
  SY_RETURN_IF_ERROR(check(query));
  if (!query.after) return snapshot_of(log_, query);
  WatchBatch batch;
  batch.next = *query.after;
  SY_ASSIGN_OR_RETURN(const bool whole, follow(log_, batch.next, query.deadline_mono_ms, query.cancel,
                                               [&](std::uint64_t sequence, metadata::EntryBody& body) {
                                                 auto* put = std::get_if<metadata::RevisionPut>(&body);
                                                 if (put == nullptr || !matches(query, put->record.identity)) {
                                                   return false;
                                                 }
                                                 batch.changes.push_back({sequence, std::move(put->record)});
                                                 return true;
                                               }));
  if (!whole) return snapshot_of(log_, query);
  return batch;
}

Result<StoreChanges> Catalog::watch_store(std::uint64_t after, std::int64_t deadline_mono_ms,
                                          const std::atomic<bool>* cancel) {
  StoreChanges out;
  out.next = after;
  SY_ASSIGN_OR_RETURN(const bool whole, follow(log_, out.next, deadline_mono_ms, cancel,
                                               [&](std::uint64_t sequence, metadata::EntryBody& body) {
                                                 if (auto* put = std::get_if<metadata::RevisionPut>(&body)) {
                                                   out.changes.push_back({sequence, std::move(put->record)});
                                                   return true;
                                                 }
                                                 if (const auto* lease = std::get_if<metadata::LeasePut>(&body)) {
                                                   out.leases_taken.push_back(lease->lease.identity);
                                                   return true;
                                                 }
                                                 const auto* ended = std::get_if<metadata::LeaseRemoved>(&body);
                                                 if (ended != nullptr) out.leases_ended.push_back(ended->identity);
                                                 return ended != nullptr;
                                               }));
  sort_out(out.leases_taken);
  sort_out(out.leases_ended);
  if (whole) return out;
  out = {};
  out.resnapshot = true;
  SY_ASSIGN_OR_RETURN(out.next, sequence());
  return out;
}

Result<std::vector<Identity>> Catalog::find_overdue(std::int64_t abandon_after_ms) {
  std::vector<Identity> due;
  std::vector<metadata::Runner> running;
  const auto read = [&](const StateView& view) -> Status {
    due.clear();
    running.clear();
    const metadata::Now at = now();
    SY_ASSIGN_OR_RETURN(const metadata::EpochState epoch, metadata::epoch_of(view));
    SY_RETURN_IF_ERROR(add_due(
        view, metadata::keys::kLease, metadata::decode_lease,
        [&](const metadata::Lease& lease) { return !metadata::life_of(lease, epoch, at).live; }, due));
    SY_RETURN_IF_ERROR(add_due(
        view, metadata::keys::kWriter, metadata::decode_writer,
        [&](const metadata::Writer& writer) {
          return !metadata::life_of(writer, epoch, at).live &&
                 metadata::idle_ms_of(writer, epoch, at) >= abandon_after_ms;
        },
        due));
    return add_due(
        view, metadata::keys::kRunner, metadata::decode_runner,
        [&](const metadata::Runner& runner) {
          if (!metadata::life_of(runner, epoch, at).live) return true;
          running.push_back(runner);
          return false;
        },
        due);
  };
  SY_RETURN_IF_ERROR(log_.view(read));
  for (const metadata::Runner& runner : running) {
    if (runtime_.provably_gone(runner.process)) due.push_back(runner.identity);
  }
  sort_out(due);
  return due;
}

}  // namespace steelyard::catalog
