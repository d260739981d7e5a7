#include "catalog/catalog.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/units.h"
#include "base/utf8.h"
#include "formats/ref.h"
#include "metadata/codec.h"

namespace steelyard::catalog {

using metadata::Answer;
using metadata::Command;
using metadata::EpochState;
using metadata::Identity;
using metadata::Lease;
using metadata::Now;
using metadata::Prepared;
using metadata::RevisionRecord;
using metadata::StateView;
using metadata::WeightMetadataStore;
using metadata::Writer;

namespace {

std::string listed(const std::vector<std::string>& names) {
  constexpr std::size_t kNamed = 5;
  std::string out;
  for (std::size_t i = 0; i < std::min(names.size(), kNamed); ++i) {
    if (i > 0) out += ", ";
    out += printable(names[i]);
  }
  if (names.size() > kNamed) out += ", and " + std::to_string(names.size() - kNamed) + " more";
  return out;
}

/// Exact membership: what lies in the tiers is the summary's group, whole, readable and durable.
Status check_membership(const Identity& identity, const metadata::GroupSummary& wanted, const GroupObservation& found) {
  const auto differs = [&](const std::string& what, const std::string& is, const std::string& want) {
    return Status(Code::kCorrupt,
                  formats::format_ref(identity) + " cannot be published: " + what + " is " + is + ", wanted " + want,
                  "import it again; what is whole is not written again");
  };
  const auto number = [](std::uint64_t value) { return std::to_string(value); };
  if (!found.unreadable.empty()) return differs("missing or unreadable", listed(found.unreadable), "every member");
  if (!found.unexpected.empty()) return differs("in its group", listed(found.unexpected), "members only");
  if (found.payload_count != wanted.payload_count) {
    return differs("the number of payload objects", number(found.payload_count), number(wanted.payload_count));
  }
  if (found.logical_bytes != wanted.logical_bytes) {
    return differs("the number of payload bytes", number(found.logical_bytes), number(wanted.logical_bytes));
  }
  if (found.payload_keys_sha256 != wanted.payload_keys_sha256) {
    return differs("the digest of the payload keys", found.payload_keys_sha256, wanted.payload_keys_sha256);
  }
  if (found.manifests != 1) return differs("the number of manifests", number(found.manifests), "1");
  if (found.manifest_sha256 != wanted.manifest_sha256) {
    return differs("the manifest's SHA-256", found.manifest_sha256, wanted.manifest_sha256);
  }
  if (!found.flushed) {
    return {Code::kDurabilityFailed,
            formats::format_ref(identity) + " cannot be published: something was put since the last flush",
            "flush the attempt, then commit again"};
  }
  return {};
}

/// Payload keys follow from the identity and their number.
Status check_summary_keys(const metadata::CommitWeightImport& command) {
  const std::string keys =
      formats::payload_keys_sha256(command.identity, static_cast<std::uint32_t>(command.summary.payload_count));
  if (keys == command.summary.payload_keys_sha256) return {};
  return {Code::kInvalidArgument, formats::format_ref(command.identity) + ": payload_keys_sha256 is " +
                                      printable(command.summary.payload_keys_sha256) + ", wanted " + keys + " for " +
                                      std::to_string(command.summary.payload_count) + " objects"};
}

}  // namespace

Catalog::Catalog(Runtime& runtime, oplog::OpLog& log, GroupObserver& observer, CatalogOptions options)
    : runtime_(runtime), log_(log), observer_(observer), options_(std::move(options)) {}

Now Catalog::now() { return {runtime_.epoch(), runtime_.mono_ms(), runtime_.wall_ms()}; }

Status Catalog::check_mutable() const {
  const oplog::Capabilities can = log_.capabilities();
  if (can.read_only) {
    return {Code::kUnauthorized, "the store is read-only: its catalog cannot be written",
            "use an account with write permission"};
  }
  if (can.standbys_must_understand_entries && !options_.oplog_capability_confirmed) {
    return {Code::kDurabilityFailed,
            "the log's standbys must understand weight entries, and nobody has confirmed that they do",
            "upgrade every standby, then set weight_management_oplog_capability_confirmed=true"};
  }
  return {};
}

Result<Answer> Catalog::mutate(const Command& command) {
  SY_RETURN_IF_ERROR(check_mutable());
  while (true) {
    Answer answer;
    bool began_epoch = false;
    SY_ASSIGN_OR_RETURN(const std::uint64_t sequence,
                        log_.write([&](const StateView& view, const Now& at) -> Result<std::vector<metadata::Entry>> {
                          // A new epoch is appended by itself, so that it stands whatever becomes of the command.
                          SY_ASSIGN_OR_RETURN(const EpochState epoch, metadata::epoch_of(view));
                          began_epoch = epoch.ordinal == 0 || epoch.epoch != at.epoch;
                          const Command to_judge = began_epoch ? Command(metadata::BeginEpoch{}) : command;
                          SY_ASSIGN_OR_RETURN(Prepared prepared,
                                              WeightMetadataStore::prepare(view, epoch, to_judge, at));
                          answer = std::move(prepared.answer);
                          return std::move(prepared.entries);
                        }));
    if (began_epoch) continue;
    maybe_snapshot(sequence);
    return answer;
  }
}

Result<Prepared> Catalog::rehearse(const Command& command) {
  Prepared prepared;
  SY_RETURN_IF_ERROR(log_.view([&](const StateView& view) -> Status {
    SY_ASSIGN_OR_RETURN(prepared, WeightMetadataStore::prepare(view, command, now()));
    return {};
  }));
  return prepared;
}

Result<RevisionRecord> Catalog::mutate_record(const Command& command) {
  SY_ASSIGN_OR_RETURN(Answer answer, mutate(command));
  SY_CHECK(answer.record.has_value(), "the rules answer this command with a record");
  return *std::move(answer.record);
}

Result<Answer> Catalog::begin_weight_import(metadata::BeginWeightImport command) {
  std::sort(command.labels.begin(), command.labels.end());
  Result<Answer> begun = mutate(command);
  if (begun.code() != Code::kBusy) return begun;
  // Perhaps by a writer whose process is gone. The proof reads /proc, so it is made outside of the turn; the rule holds
  // it against the writer that it then finds.
  SY_ASSIGN_OR_RETURN(const std::optional<Writer> writer, find_writer_of(command));
  if (!writer || writer->token.empty() || !runtime_.provably_gone(writer->process)) return begun;
  command.current_writer_gone = true;
  command.gone_process = writer->process;
  return mutate(command);
}

Result<std::optional<Writer>> Catalog::find_writer_of(const metadata::BeginWeightImport& command) {
  std::optional<Writer> writer;
  SY_RETURN_IF_ERROR(log_.view([&](const StateView& view) -> Status {
    std::optional<RevisionRecord> record;
    if (command.weight_generation) {
      SY_ASSIGN_OR_RETURN(record, metadata::find_revision(view, Identity{command.lineage, *command.weight_generation}));
    } else {
      SY_ASSIGN_OR_RETURN(record, metadata::newest_of(view, command.lineage));
    }
    if (!record || record->availability != metadata::Availability::kImporting) return {};
    SY_ASSIGN_OR_RETURN(writer, metadata::find_writer(view, record->identity));
    return {};
  }));
  return writer;
}

Result<Writer> Catalog::renew_weight_import(const metadata::RenewWeightImport& command) {
  SY_ASSIGN_OR_RETURN(Answer answer, mutate(command));
  SY_CHECK(answer.writer.has_value(), "a renewal answers with the writer");
  return *std::move(answer.writer);
}

Status Catalog::release_weight_import(const metadata::ReleaseWeightImport& command) { return mutate(command).status(); }

Result<RevisionRecord> Catalog::commit_weight_import(const metadata::CommitWeightImport& command) {
  SY_RETURN_IF_ERROR(check_mutable());
  // A retry, or a request that cannot succeed, is answered without looking at the tiers.
  SY_ASSIGN_OR_RETURN(const Prepared rehearsed, rehearse(command));
  if (rehearsed.answer.record && rehearsed.answer.record->committed_seq == rehearsed.sequence) {
    SY_RETURN_IF_ERROR(check_summary_keys(command));
    SY_ASSIGN_OR_RETURN(const GroupObservation found, observer_.observe(command.identity, command.import_attempt));
    SY_RETURN_IF_ERROR(check_membership(command.identity, command.summary, found));
  }
  return mutate_record(command);
}

Result<RevisionRecord> Catalog::abort_weight_import(metadata::AbortWeightImport command) {
  Result<RevisionRecord> aborted = mutate_record(command);
  if (aborted.code() != Code::kBusy || command.only_if_idle_ms) return aborted;
  SY_ASSIGN_OR_RETURN(const std::optional<Writer> writer, get_writer(command.identity));
  if (!writer || writer->token.empty() || !runtime_.provably_gone(writer->process)) return aborted;
  command.current_writer_gone = true;
  command.gone_process = writer->process;
  return mutate_record(command);
}

Result<RevisionRecord> Catalog::get_weight_revision(const Identity& identity) {
  std::optional<RevisionRecord> record;
  SY_RETURN_IF_ERROR(log_.view([&](const StateView& view) -> Status {
    SY_ASSIGN_OR_RETURN(record, metadata::get_record(view, identity));
    return {};
  }));
  return *std::move(record);
}

Result<metadata::ListPage> Catalog::list_weight_revisions(const metadata::ListQuery& query) {
  metadata::ListPage page;
  SY_RETURN_IF_ERROR(log_.view([&](const StateView& view) -> Status {
    SY_ASSIGN_OR_RETURN(page, metadata::list_revisions(view, query));
    return {};
  }));
  return page;
}

Result<std::vector<RevisionRecord>> Catalog::list_lineage(const metadata::Lineage& lineage) {
  SY_RETURN_IF_ERROR(formats::validate(lineage));
  std::vector<RevisionRecord> records;
  SY_RETURN_IF_ERROR(log_.view([&](const StateView& view) -> Status {
    SY_ASSIGN_OR_RETURN(records, metadata::records_of(view, lineage));
    return {};
  }));
  return records;
}

Result<std::optional<Writer>> Catalog::get_writer(const Identity& identity) {
  SY_ASSIGN_OR_RETURN(std::optional<WriterRow> row, get_writer_row(identity));
  if (!row) return std::optional<Writer>();
  return std::optional<Writer>(std::move(row->writer));
}

Result<std::optional<Catalog::WriterRow>> Catalog::get_writer_row(const Identity& identity) {
  std::optional<WriterRow> row;
  SY_RETURN_IF_ERROR(log_.view([&](const StateView& view) -> Status {
    SY_ASSIGN_OR_RETURN(std::optional<Writer> writer, metadata::find_writer(view, identity));
    if (!writer) return {};
    SY_ASSIGN_OR_RETURN(const EpochState epoch, metadata::epoch_of(view));
    const Now at = now();
    const metadata::LeaseLife life = metadata::life_of(*writer, epoch, at);
    const std::int64_t idle_ms = metadata::idle_ms_of(*writer, epoch, at);
    row = WriterRow{*std::move(writer), life.live, life.left_ms, idle_ms};
    return {};
  }));
  return row;
}

Result<Answer> Catalog::acquire_lease(const metadata::AcquireLease& command) { return mutate(command); }

Result<Lease> Catalog::renew_lease(const metadata::RenewLease& command) {
  SY_ASSIGN_OR_RETURN(Answer answer, mutate(command));
  SY_CHECK(answer.lease.has_value(), "a renewal answers with the lease");
  return *std::move(answer.lease);
}

Status Catalog::release_lease(const metadata::ReleaseLease& command) { return mutate(command).status(); }

Result<std::vector<Catalog::LeaseRow>> Catalog::lease_rows(
    const std::function<Result<std::vector<Lease>>(const StateView&, const Now&)>& read) {
  std::vector<LeaseRow> rows;
  SY_RETURN_IF_ERROR(log_.view([&](const StateView& view) -> Status {
    const Now at = now();
    SY_ASSIGN_OR_RETURN(const EpochState epoch, metadata::epoch_of(view));
    SY_ASSIGN_OR_RETURN(std::vector<Lease> leases, read(view, at));
    for (Lease& lease : leases) {
      const std::int64_t left_ms = metadata::life_of(lease, epoch, at).left_ms;
      rows.push_back({std::move(lease), left_ms});
    }
    return {};
  }));
  return rows;
}

Result<std::vector<Catalog::LeaseRow>> Catalog::list_leases(const Identity& identity) {
  SY_RETURN_IF_ERROR(formats::validate(identity));
  return lease_rows([&](const StateView& view, const Now& at) { return metadata::live_leases_of(view, identity, at); });
}

Result<std::vector<Catalog::LeaseRow>> Catalog::list_leases(const std::string& tenant_id,
                                                            const std::string& namespace_id) {
  return lease_rows([&](const StateView& view, const Now& at) {
    return metadata::live_leases_in(view, tenant_id, namespace_id, at);
  });
}

Status Catalog::name_gone_runner(const Identity& identity, Status busy) {
  std::optional<metadata::Runner> runner;
  const Status read = log_.view([&](const StateView& view) -> Status {
    SY_ASSIGN_OR_RETURN(runner, metadata::find_runner(view, identity));
    return {};
  });
  if (!read.ok() || !runner || runner->token.empty() || !runtime_.provably_gone(runner->process)) return busy;
  return std::move(busy).with_hint("that process is gone: steelyard reconcile " + formats::format_ref(identity) +
                                   " goes on with it, or end it: steelyard operation cancel " + runner->operation_id);
}

Status Catalog::name_gone_readers(const Identity& identity, Status busy) {
  if (busy.code() != Code::kBusy) return busy;
  constexpr int kNamedMax = 3;
  const auto live = list_leases(identity);
  if (!live.ok()) return busy;
  std::string hint = busy.hint();
  int named = 0;
  for (const LeaseRow& row : *live) {
    if (!runtime_.provably_gone(row.lease.process) || named++ == kNamedMax) continue;
    hint += (hint.empty() ? "" : "; ") +
            ("the process of " + printable(row.lease.holder) + " is gone, which ends in ") + format_age(row.left_ms) +
            ": steelyard lease release " + row.lease.lease_id;
  }
  return std::move(busy).with_hint(hint);
}

Result<RevisionRecord> Catalog::reconcile_weight_revision(const metadata::ReconcileRevision& command) {
  SY_RETURN_IF_ERROR(check_mutable());
  // Mostly all is as it was, and then there is nothing to wait for other writers for.
  SY_ASSIGN_OR_RETURN(Prepared rehearsed, rehearse(command));
  if (rehearsed.entries.empty() && rehearsed.answer.record) return *std::move(rehearsed.answer.record);
  return mutate_record(command);
}

Result<std::vector<Catalog::LeaseRow>> Catalog::reap_leases(const Identity& identity) {
  SY_RETURN_IF_ERROR(check_mutable());
  const metadata::ReapLeases command{identity};
  SY_ASSIGN_OR_RETURN(const Prepared rehearsed, rehearse(command));
  if (!rehearsed.entries.empty()) SY_RETURN_IF_ERROR(mutate(command).status());
  return lease_rows([&](const StateView& view, const Now& /*at*/) { return metadata::all_leases_of(view, identity); });
}

Status Catalog::begin_epoch() {
  SY_RETURN_IF_ERROR(check_mutable());
  bool begun = false;
  SY_RETURN_IF_ERROR(log_.view([&](const StateView& view) -> Status {
    SY_ASSIGN_OR_RETURN(const EpochState epoch, metadata::epoch_of(view));
    begun = epoch.ordinal == 0 || epoch.epoch == runtime_.epoch();
    return {};
  }));
  return begun ? Status() : mutate(metadata::BeginEpoch{}).status();
}

Result<std::optional<RevisionRecord>> Catalog::delete_weight_revision(const metadata::DeleteWeightRevision& command) {
  Result<Answer> answer = mutate(command);
  if (!answer.ok()) return name_gone_readers(command.identity, std::move(answer).status());
  return std::move(answer->record);
}

Result<std::optional<RevisionRecord>> Catalog::finish_delete(const metadata::FinishDelete& command) {
  SY_ASSIGN_OR_RETURN(Answer answer, mutate(command));
  return std::move(answer.record);
}

Status Catalog::compact_tombstones(const metadata::CompactTombstones& command) { return mutate(command).status(); }

Result<RevisionRecord> Catalog::update_weight_policy(const metadata::UpdateWeightPolicy& command) {
  return mutate_record(command);
}

Result<Answer> Catalog::start_operation(const metadata::StartOperation& command) {
  Result<Answer> started = mutate(command);
  if (started.code() != Code::kBusy) return started;
  Status busy = name_gone_runner(command.identity, std::move(started).status());
  // Only an eviction has leases in its way.
  if (command.kind != metadata::OperationKind::kEvicting) return busy;
  return name_gone_readers(command.identity, std::move(busy));
}

/// As for a writer: the proof is made outside of the turn, and the rule holds it against the runner that it finds.
Result<bool> Catalog::prove_gone(metadata::TakeOperation& command) {
  std::optional<metadata::Runner> runner;
  SY_RETURN_IF_ERROR(log_.view([&](const StateView& view) -> Status {
    SY_ASSIGN_OR_RETURN(runner, metadata::find_runner(view, command.identity));
    return {};
  }));
  if (!runner || runner->token.empty() || !runtime_.provably_gone(runner->process)) return false;
  command.current_runner_gone = true;
  command.gone_process = runner->process;
  return true;
}

Result<Answer> Catalog::take_operation(metadata::TakeOperation command) {
  Result<Answer> taken = mutate(command);
  if (taken.code() != Code::kBusy) return taken;
  SY_ASSIGN_OR_RETURN(const bool gone, prove_gone(command));
  return gone ? mutate(command) : taken;
}

Status Catalog::check_start(const metadata::StartOperation& command) { return rehearse(command).status(); }

Status Catalog::check_take(metadata::TakeOperation command) {
  Status refused = rehearse(command).status();
  if (refused.code() != Code::kBusy) return refused;
  SY_ASSIGN_OR_RETURN(const bool gone, prove_gone(command));
  return gone ? rehearse(command).status() : refused;
}

Status Catalog::check_removal(const metadata::PermitRemoval& command) { return rehearse(command).status(); }

Result<metadata::Runner> Catalog::report_operation(const metadata::ReportOperation& command) {
  SY_ASSIGN_OR_RETURN(Answer answer, mutate(command));
  SY_CHECK(answer.runner.has_value(), "a report answers with the runner");
  return *std::move(answer.runner);
}

Result<Answer> Catalog::permit_removal(const metadata::PermitRemoval& command) { return mutate(command); }

Result<RevisionRecord> Catalog::end_operation(const metadata::EndOperation& command) { return mutate_record(command); }

Result<RevisionRecord> Catalog::cancel_operation(const metadata::CancelOperation& command) {
  return mutate_record(command);
}

Result<metadata::OperationView> Catalog::query_operation(const std::string& operation_id) {
  return judge_runner([&](const StateView& view) { return metadata::get_operation(view, operation_id); });
}

Result<bool> Catalog::is_being_run(const Identity& identity) {
  SY_ASSIGN_OR_RETURN(const metadata::OperationView found,
                      judge_runner([&](const StateView& view) -> Result<metadata::OperationView> {
                        metadata::OperationView running;
                        SY_ASSIGN_OR_RETURN(running.runner, metadata::find_runner(view, identity));
                        return running;
                      }));
  return found.is_being_run();
}

Result<metadata::OperationView> Catalog::judge_runner(
    const std::function<Result<metadata::OperationView>(const StateView&)>& read) {
  metadata::OperationView found;
  SY_RETURN_IF_ERROR(log_.view([&](const StateView& view) -> Status {
    SY_ASSIGN_OR_RETURN(found, read(view));
    if (!found.runner) return {};
    SY_ASSIGN_OR_RETURN(const EpochState epoch, metadata::epoch_of(view));
    found.runner_left_ms = metadata::life_of(*found.runner, epoch, now()).left_ms;
    return {};
  }));
  found.runner_is_gone = found.runner && runtime_.provably_gone(found.runner->process);
  return found;
}

Result<std::optional<RevisionRecord>> Catalog::find_by_group(const std::string& group_digest_hex) {
  std::optional<RevisionRecord> record;
  SY_RETURN_IF_ERROR(log_.view([&](const StateView& view) -> Status {
    SY_ASSIGN_OR_RETURN(record, metadata::find_by_group(view, group_digest_hex));
    return {};
  }));
  return record;
}

Result<std::vector<RevisionRecord>> Catalog::records_after(const std::optional<Identity>& after, std::size_t limit) {
  std::vector<RevisionRecord> records;
  SY_RETURN_IF_ERROR(log_.view([&](const StateView& view) -> Status {
    SY_ASSIGN_OR_RETURN(records, metadata::records_after(view, after, limit));
    return {};
  }));
  return records;
}

Result<std::int64_t> Catalog::get_watermark(const metadata::Lineage& lineage) {
  std::int64_t generation = 0;
  SY_RETURN_IF_ERROR(log_.view([&](const StateView& view) -> Status {
    SY_ASSIGN_OR_RETURN(const auto mark, metadata::find_watermark(view, lineage));
    if (mark) generation = mark->weight_generation;
    return {};
  }));
  return generation;
}

Result<std::uint64_t> Catalog::sequence() {
  std::uint64_t sequence = 0;
  SY_RETURN_IF_ERROR(log_.view([&](const StateView& view) -> Status {
    sequence = view.sequence();
    return {};
  }));
  return sequence;
}

void Catalog::maybe_snapshot(std::uint64_t sequence) {
  const std::uint64_t every = options_.snapshot_every;
  std::uint64_t check_at = snapshot_check_at_.load();
  if (every == 0 || sequence < check_at) return;
  // One thread asks and saves; the others go on.
  if (!snapshot_check_at_.compare_exchange_strong(check_at, sequence + every)) return;
  const Result<std::uint64_t> length = log_.length();
  if (!length.ok()) {
    log_warning("the length of the log cannot be read: {}", length.status().to_string());
    return;
  }
  if (*length < every) {
    snapshot_check_at_.store(sequence + (every - *length));
    return;
  }
  if (const Status status = save_snapshot(); !status.ok()) {
    log_warning("no snapshot of the catalog: {}", status.to_string());
  }
}

Status Catalog::save_snapshot() {
  SY_RETURN_IF_ERROR(check_mutable());
  SY_ASSIGN_OR_RETURN(const std::uint64_t sequence, log_.save_snapshot());
  SY_RETURN_IF_ERROR(log_.trim(sequence));
  if (!options_.on_snapshot) return {};
  SY_ASSIGN_OR_RETURN(const std::string bytes, log_.newest_snapshot());
  // Another writer may have saved a newer one meanwhile.
  SY_ASSIGN_OR_RETURN(const std::uint64_t saved, oplog::snapshot_sequence(bytes));
  return options_.on_snapshot(saved, bytes).annotate("copying the snapshot at", std::to_string(saved));
}

}  // namespace steelyard::catalog
