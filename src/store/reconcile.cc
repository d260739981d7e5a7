#include "store/reconcile.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/units.h"
#include "formats/identity.h"
#include "formats/ref.h"
#include "store/ballast.h"
#include "store/committed_marker.h"
#include "store/damage_record.h"
#include "store/manifest_file.h"
#include "store/progress_meter.h"
#include "store/reconcile_moves.h"
#include "store/removal.h"
#include "store/repair.h"
#include "store/resolve.h"
#include "store/stop_signal.h"
#include "store/verify.h"

namespace steelyard::store {
namespace {

using metadata::Availability;
using metadata::RevisionRecord;

constexpr int kTriesMax = 5;

class Reconciliation {
 public:
  Reconciliation(Context& context, Observer& observer, const CancelFlag& cancel, std::set<metadata::Identity>* later)
      : context_(context), observer_(observer), cancel_(cancel), later_(later), stop_(cancel) {}

  Status one(RevisionRecord record) {
    ++report_.checked;
    const bool has_policy = is_published(record.availability) && record.policy.mode != metadata::PolicyMode::kManual;
    if (has_policy) policies_[record.identity] = record.policy;
    const std::string ref = formats::format_ref(record.identity);
    for (int tries = 1;; ++tries) {
      if (cancel_.load()) return cancelled("reconcile");
      Status status = look_at(record);
      if (status.ok() || is_cancelled(status)) return status;
      const Code code = status.code();
      if (code == Code::kStaleGeneration || code == Code::kNotFound || code == Code::kNotReady) {
        // Somebody else changed it meanwhile, began to delete it, or ended and compacted it.
        auto now = context_.catalog.get_weight_revision(record.identity);
        if (now.code() == Code::kNotFound) return {};
        const bool moved = now.ok() && now->metadata_generation != record.metadata_generation;
        if (moved && tries < kTriesMax) {
          record = std::move(now).value();
          continue;
        }
      }
      auto& left = status.code() == Code::kBusy ? report_.waiting : report_.failed;
      left.push_back({ref, std::move(status)});
      return {};
    }
  }

  Status all(const std::function<Status()>& between) {
    SY_RETURN_IF_ERROR(for_each([this](const RevisionRecord& record) { return find_suspects(record); }));
    return for_each([&](const RevisionRecord& record) {
      if (between) SY_RETURN_IF_ERROR(between());
      return one(record);
    });
  }

  ReconcileReport take() { return std::move(report_); }
  std::map<metadata::Identity, metadata::Policy> take_policies() { return std::move(policies_); }

 private:
  template <typename Visit>
  Status for_each(const Visit& visit) {
    constexpr std::size_t kPage = 256;
    std::optional<metadata::Identity> last;
    for (;;) {
      SY_ASSIGN_OR_RETURN(const auto records, context_.catalog.records_after(last, kPage));
      for (const RevisionRecord& record : records) {
        last = record.identity;
        SY_RETURN_IF_ERROR(visit(record));
      }
      if (records.size() < kPage) return {};
    }
  }

  /// What one revision knows to be damaged, others may share without knowing it.
  Status find_suspects(const RevisionRecord& record) {
    if (cancel_.load()) return cancelled("reconcile");
    if (record.availability != Availability::kDegraded) return {};
    for (const std::string& key : record.damage.objects) {
      const auto object = payload_index_of(record.identity, key);
      if (!object) continue;
      const auto stat = context_.cold.stat(payload_of(attempt_of(record), *object));
      if (stat.ok()) suspects_.insert(stat->storage);
    }
    return {};
  }

  void changed(const RevisionRecord& record, std::string what) {
    report_.changes.push_back({formats::format_ref(record.identity), std::move(what)});
  }

  Status look_at(const RevisionRecord& record) {
    switch (record.availability) {
      case Availability::kImporting:
        return with_ballast(context_.ballast, [&] { return end_abandoned(record); });
      case Availability::kDeleting:
        return with_ballast(context_.ballast, [&] { return end_removal(record); });
      case Availability::kReady:
      case Availability::kDegraded:
        if (later_ == nullptr || !record.operation) return look_at_published(record);
        later_->insert(record.identity);
        return {};
      case Availability::kDeleted:
        return {};
    }
    return {};
  }

  Status end_abandoned(const RevisionRecord& record) {
    SY_ASSIGN_OR_RETURN(const auto row, context_.catalog.get_writer_row(record.identity));
    if (!row || row->live || row->idle_ms < context_.options.abandon_after_ms) return {};
    metadata::AbortWeightImport command;
    command.identity = record.identity;
    command.expected_metadata_generation = record.metadata_generation;
    command.only_if_idle_ms = context_.options.abandon_after_ms;
    SY_RETURN_IF_ERROR(check_not_published_elsewhere(context_.cold, record));
    const auto aborted = context_.catalog.abort_weight_import(command);
    // Its writer came back.
    if (aborted.code() == Code::kBusy) return {};
    SY_RETURN_IF_ERROR(aborted.status());
    SY_POINT(context_.runtime, "reconcile.after_abort");
    changed(record, fmt::format("aborted: its writer gave no sign of life for {}", format_age(row->idle_ms)));
    if (aborted->availability != Availability::kDeleting) return {};
    return finish_removal(context_, *aborted).status();
  }

  Status end_removal(const RevisionRecord& record) {
    SY_RETURN_IF_ERROR(finish_removal(context_, record).status());
    changed(record,
            record.committed_seq != 0 ? "the delete that was begun is done" : "the abort that was begun is done");
    return {};
  }

  Status look_at_published(RevisionRecord record) {
    const std::uint64_t found = record.metadata_generation;
    SY_RETURN_IF_ERROR(context_.catalog.reap_leases(record.identity).status());
    SY_RETURN_IF_ERROR(remove_stray_marker(record));
    restore_marker(record);
    SY_RETURN_IF_ERROR(go_on_with_repair(record));
    SY_RETURN_IF_ERROR(go_on_with_move(context_, record, observer_, cancel_, report_));
    const std::string known = id_of(record.operation);
    SY_ASSIGN_OR_RETURN(record, context_.catalog.get_weight_revision(record.identity));
    SY_ASSIGN_OR_RETURN(RevisionRecord after, observe(record));
    // Memory has what the cold tier was found to lack.
    if (!record.operation) SY_RETURN_IF_ERROR(go_on_with_repair(after));
    // A delete began meanwhile.
    if (!is_published(after.availability)) {
      return look_at(after);
    }
    if (after.metadata_generation != found) note_left(after, known);
    tell_where_memory_is(context_, after, report_);
    if (after.residency != record.residency && after.residency != metadata::Residency::kAbsent &&
        record.residency != metadata::Residency::kAbsent) {
      changed(record, fmt::format("{}: {} of {} in memory", metadata::name_of(after.residency), after.hot_members,
                                  counted(after.summary.payload_count, "object")));
    }
    if (after.availability != record.availability || after.damage != record.damage) {
      changed(record, after.availability == Availability::kReady
                          ? "READY again: what was recorded as damaged is whole"
                          : fmt::format("{}: {}", metadata::name_of(after.availability),
                                        counted(after.damage.count, "missing or damaged object")));
    }
    return {};
  }

  static std::string id_of(const std::optional<metadata::Operation>& operation) {
    return operation ? operation->operation_id : std::string();
  }

  /// What this look has seen of the record to the end, so that no change up to it is a reason for another one. An
  /// operation that others began meanwhile was not dealt with.
  void note_left(const RevisionRecord& record, const std::string& known_operation) {
    const bool dealt_with = !record.operation || id_of(record.operation) == known_operation;
    if (dealt_with) report_.left_at[record.identity] = record.metadata_generation;
  }

  Status go_on_with_repair(RevisionRecord& record) {
    if (!record.operation || record.operation->kind != metadata::OperationKind::kRepairing) return {};
    RepairRequest request;
    request.target = selector_of(record.identity);
    PhaseOfRevision observer(observer_, formats::format_ref(record.identity));
    Status repaired = run_repair(context_, request, nullptr, observer, cancel_).status();
    if (!repaired.ok() && repaired.code() != Code::kCorrupt) return repaired;
    const bool done = repaired.ok();
    if (done) changed(record, "the repair that was begun is done");
    SY_ASSIGN_OR_RETURN(record, context_.catalog.get_weight_revision(record.identity));
    if (!done && !record.operation) return repaired;
    // One that was given a source before waits for it.
    if (!done) report_.waiting.push_back({formats::format_ref(record.identity), std::move(repaired)});
    return {};
  }

  /// It makes a recovery complete; without it nothing else is wrong.
  void restore_marker(const RevisionRecord& record) {
    const auto state = look_at_committed_marker(context_.cold, record);
    if (state.ok() && *state == MarkerState::kFits) return;
    const bool missing = state.ok() && *state == MarkerState::kMissing;
    const Status status = state.ok() ? ensure_committed_marker(context_.cold, record) : state.status();
    if (status.ok()) {
      changed(record, fmt::format("the committed marker was {} and is written", missing ? "missing" : "damaged"));
    } else if (status.code() != Code::kNotFound) {
      log_info("the committed marker of {} is {} and could not be written: {}", formats::format_ref(record.identity),
               missing ? "missing" : "damaged", status.to_string());
    }
  }

  /// Whether the marker is of a removal that another history of the catalog acknowledged: it names a later state of the
  /// record, or the removal had taken the `committed` marker already.
  Result<bool> was_removed_elsewhere(const RevisionRecord& record, const tiers::GroupListing& listing) {
    if (std::ranges::count(listing.committed_attempts, record.import_attempt) == 0) return true;
    const auto bytes = context_.cold.read_deleting(attempt_of(record).group);
    if (!bytes.ok())
      return bytes.code() == Code::kNotFound || bytes.code() == Code::kCorrupt ? Result<bool>(false)
                                                                               : Result<bool>(bytes.status());
    const auto marked = catalog::decode_deleting(*bytes);
    return marked.ok() && marked->identity == record.identity &&
           marked->metadata_generation > record.metadata_generation;
  }

  /// A `deleting` marker is put after the record is DELETING, so beside a published one it is of no removal of this
  /// catalog; a recovery would take the revision for deleted.
  Status remove_stray_marker(const RevisionRecord& record) {
    const std::string group = attempt_of(record).group;
    SY_ASSIGN_OR_RETURN(const tiers::GroupListing listing, context_.cold.list_group(group));
    if (!listing.deleting) return {};
    SY_ASSIGN_OR_RETURN(RevisionRecord now, context_.catalog.get_weight_revision(record.identity));
    if (now.availability != record.availability) return {};  // it was listed after a delete began
    SY_ASSIGN_OR_RETURN(const bool elsewhere, was_removed_elsewhere(now, listing));
    if (elsewhere) {
      const std::string ref = formats::format_ref(record.identity);
      report_.failed.push_back(
          {ref,
           Status(Code::kConflict,
                  fmt::format("{} is {} in this catalog, and deleted as the cold tier knows it: an older catalog was "
                              "put back",
                              ref, metadata::name_of(now.availability)),
                  fmt::format("put the newer catalog back; or end it here too: steelyard delete {}", ref))});
      return {};
    }
    SY_RETURN_IF_ERROR(context_.cold.remove_deleting(group));
    SY_POINT(context_.runtime, "reconcile.after_stray_marker");
    SY_ASSIGN_OR_RETURN(now, context_.catalog.get_weight_revision(record.identity));
    // A delete that began just now, and may have come to its end, may have found the stray one and put none of its own.
    if (!is_published(now.availability)) {
      now.availability = Availability::kDeleting;
      now.deleted_seq = 0;
      return context_.cold.put_deleting(group, catalog::encode_deleting(now));
    }
    changed(record, "a deleting marker beside it was of no removal and is removed");
    return {};
  }

  /// The record as it is once what can be seen without reading everything is published.
  Result<RevisionRecord> observe(const RevisionRecord& record) {
    if (record.damage.count > record.damage.objects.size()) {
      // What is not named can only be found by reading everything.
      PhaseOfRevision observer(observer_, formats::format_ref(record.identity));
      SY_ASSIGN_OR_RETURN(VerifyReport report, run_verify(context_, selector_of(record.identity), observer, cancel_));
      return std::move(report.record);
    }
    const auto manifest = load_manifest(context_.cold, record);
    if (manifest.code() == Code::kCorrupt) {
      record_bad_manifest(context_, record, stop_);
      return context_.catalog.get_weight_revision(record.identity);
    }
    SY_RETURN_IF_ERROR(manifest.status());
    ObjectFindings findings;
    SY_RETURN_IF_ERROR(look_at_members(record, *manifest, findings));
    SY_RETURN_IF_ERROR(read_damaged(record, *manifest, findings));
    SY_RETURN_IF_ERROR(read_suspects(record, *manifest, findings));
    const bool may_be_hot = context_.hot != nullptr || !record.hot_instance.empty();
    if (findings.damaged.empty() && findings.whole.empty() && !may_be_hot) return record;
    return record_findings(context_, record, findings, stop_);
  }

  Status look_at_members(const RevisionRecord& record, const formats::StoredManifest& manifest,
                         ObjectFindings& findings) {
    SY_ASSIGN_OR_RETURN(const auto misfits, misfits_of(context_.cold, attempt_of(record), manifest));
    for (const std::uint32_t object : misfits)
      findings.damaged.push_back(formats::payload_key(record.identity, object));
    return {};
  }

  /// Whether bytes that another revision has recorded as damaged are this one's too.
  Status read_suspects(const RevisionRecord& record, const formats::StoredManifest& manifest,
                       ObjectFindings& findings) {
    if (suspects_.empty()) return {};
    std::set<std::string> known(findings.damaged.begin(), findings.damaged.end());
    known.insert(record.damage.objects.begin(), record.damage.objects.end());
    SY_ASSIGN_OR_RETURN(const auto members, context_.cold.list_attempt(attempt_of(record)));
    SY_ASSIGN_OR_RETURN(ReadBuffers buffers, ReadBuffers::allocate(read_piece_bytes(context_.io_budget, 1)));
    for (const tiers::ObjectStat& member : members) {
      if (cancel_.load()) return cancelled("reconcile");
      if (member.name.kind != tiers::ObjectKind::kPayload || !suspects_.contains(member.storage)) continue;
      std::string key = formats::payload_key(record.identity, member.name.index);
      if (member.name.index >= manifest.objects.size() || known.contains(key)) continue;
      SY_ASSIGN_OR_RETURN(const auto bad,
                          check_object(context_, attempt_of(record), manifest, member.name.index, buffers));
      if (bad && bad->read_error.ok()) findings.damaged.push_back(std::move(key));
    }
    return {};
  }

  /// What is recorded as damaged, and is there: somebody may have put it right.
  Status read_damaged(const RevisionRecord& record, const formats::StoredManifest& manifest, ObjectFindings& findings) {
    if (record.damage.objects.empty()) return {};
    const std::set<std::string> missing(findings.damaged.begin(), findings.damaged.end());
    SY_ASSIGN_OR_RETURN(ReadBuffers buffers, ReadBuffers::allocate(read_piece_bytes(context_.io_budget, 1)));
    for (const std::string& key : record.damage.objects) {
      if (cancel_.load()) return cancelled("reconcile");
      if (missing.contains(key)) continue;
      const auto object = payload_index_of(record.identity, key);
      if (!object) {
        findings.whole.push_back(key);  // the manifest: it was read just now
        continue;
      }
      if (*object >= manifest.objects.size()) continue;
      SY_ASSIGN_OR_RETURN(const auto bad, check_object(context_, attempt_of(record), manifest, *object, buffers));
      // What is bad still, memory may have.
      if (!bad || bad->read_error.ok()) (bad ? findings.damaged : findings.whole).push_back(key);
    }
    return {};
  }

  Context& context_;
  Observer& observer_;
  const CancelFlag& cancel_;
  std::set<metadata::Identity>* const later_;  ///< null: nothing is put off
  StopSignal stop_;
  std::set<std::uint64_t> suspects_;  ///< storage that some revision has recorded as damaged
  ReconcileReport report_;
  std::map<metadata::Identity, metadata::Policy>
      policies_;  ///< of those that were looked at: those that move something
};

}  // namespace

Result<Looked> look_at_revisions(Context& context, const std::optional<Selector>& selector, Observer& observer,
                                 const CancelFlag& cancel, std::set<metadata::Identity>* later,
                                 const std::function<Status()>& between) {
  // Without its epoch no removal can be ended.
  SY_RETURN_IF_ERROR(with_ballast(context.ballast, [&] { return context.catalog.begin_epoch(); }));
  Reconciliation reconciliation(context, observer, cancel, later);
  if (!selector) {
    SY_RETURN_IF_ERROR(reconciliation.all(between));
    return Looked{reconciliation.take(), {}, reconciliation.take_policies()};
  }
  const auto published = [](const RevisionRecord& record) { return record.committed_seq != 0; };
  const auto live = [&](const RevisionRecord& record) {
    return published(record) && record.availability != Availability::kDeleted;
  };
  const auto importing = [](const RevisionRecord& record) { return record.availability == Availability::kImporting; };
  SY_ASSIGN_OR_RETURN(const RevisionRecord record,
                      newest_that(context.catalog, *selector, {live, importing, published}));
  SY_RETURN_IF_ERROR(reconciliation.one(record));
  return Looked{reconciliation.take(), {record.identity}, reconciliation.take_policies()};
}

Result<ReconcileReport> run_reconcile(Context& context, const std::optional<Selector>& selector, Observer& observer,
                                      const CancelFlag& cancel) {
  SY_ASSIGN_OR_RETURN(Looked looked, look_at_revisions(context, selector, observer, cancel, nullptr));
  ReconcileReport& report = looked.report;
  // Last, as what was observed decides what the policies ask for.
  const auto add = [&](const metadata::Identity& identity, ReconcileReport one) {
    // What was brought in waits no more for memory that is not mounted here.
    std::erase_if(report.waiting, [&](const ReconcileReport::Left& left) {
      return !one.changes.empty() && left.ref == formats::format_ref(identity) && left.why.code() == Code::kUnavailable;
    });
    std::ranges::move(one.changes, std::back_inserter(report.changes));
    std::ranges::move(one.waiting, std::back_inserter(report.waiting));
    std::ranges::move(one.failed, std::back_inserter(report.failed));
  };
  const Asked asked = selector ? Asked(std::move(looked.whose)) : Asked();
  SY_RETURN_IF_ERROR(report_policies(context, asked, observer, cancel, {.tell = add, .of_stays = true}));
  return std::move(report);
}

}  // namespace steelyard::store
