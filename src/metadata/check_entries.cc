// Replay's check of entries against the state before them.
#include <optional>
#include <set>
#include <utility>

#include "base/limits.h"
#include "formats/ref.h"
#include "metadata/codec.h"
#include "metadata/keys.h"
#include "metadata/overlay.h"
#include "metadata/rules.h"
#include "metadata/state.h"
#include "metadata/validate.h"

namespace steelyard::metadata {
namespace {

bool legal_edge(Availability from, Availability to) {
  switch (from) {
    case Availability::kImporting:
      return to == Availability::kImporting || to == Availability::kReady || to == Availability::kDeleting;
    case Availability::kReady:
    case Availability::kDegraded:
      return to == Availability::kReady || to == Availability::kDegraded || to == Availability::kDeleting;
    case Availability::kDeleting:
      return to == Availability::kDeleting || to == Availability::kDeleted;
    case Availability::kDeleted:
      return false;
  }
  return false;
}

/// The entries of one append, one after the other.
class Checker {
 public:
  Checker(const StateView& before, std::uint64_t sequence) : before_(before), view_(before), sequence_(sequence) {}

  Status check(const DecodedEntry& decoded) {
    SY_RETURN_IF_ERROR(std::visit(*this, decoded.body));
    if (decoded.mono_ms) {
      SY_ASSIGN_OR_RETURN(EpochState epoch, epoch_of(view_));
      if (const auto* begun = std::get_if<EpochBegun>(&decoded.body)) {
        epoch = begun->epoch;
        epoch.last_mono_ms = epoch.begun_mono_ms;
      }
      if (epoch.ordinal == 0) return corrupt("the instant", "an instant before any epoch");
      if (*decoded.mono_ms < epoch.last_mono_ms) {
        return corrupt("the instant", "instant " + std::to_string(*decoded.mono_ms) + " is before the last one, " +
                                          std::to_string(epoch.last_mono_ms));
      }
    }
    view_.add(rows_of(decoded));
    return {};
  }

  /// The changes of all entries, when what must hold once they are applied does.
  Result<std::vector<RowChange>> finish() {
    SY_RETURN_IF_ERROR(check_touched());
    return view_.take();
  }

  Status check_touched() {
    for (const Identity& identity : touched_) {
      SY_ASSIGN_OR_RETURN(const std::optional<RevisionRecord> record, find_revision(view_, identity));
      SY_ASSIGN_OR_RETURN(const std::optional<Writer> writer, find_writer(view_, identity));
      SY_ASSIGN_OR_RETURN(const std::optional<Runner> runner, find_runner(view_, identity));
      const bool importing = record && record->availability == Availability::kImporting;
      if (writer && !importing) return corrupt(identity, "a writer without an import");
      if (writer && writer->import_attempt != record->import_attempt)
        return corrupt(identity, "a writer of another attempt");
      if (importing && !writer) return corrupt(identity, "an import without a writer");
      const bool running = record && record->operation;
      if (runner && (!running || runner->operation_id != record->operation->operation_id)) {
        return corrupt(identity, "a runner without its operation");
      }
      if (runner) {
        const Status fits = check_runner(*runner, *record->operation);
        if (!fits.ok()) return corrupt(identity, fits.message());
      }
      if (unleased_.contains(identity)) {
        SY_ASSIGN_OR_RETURN(const std::vector<Lease> leases, all_leases_of(view_, identity));
        if (!leases.empty()) return corrupt(identity, "an eviction or a removal permitted under a lease");
      }
      const bool leasable =
          record && record->availability != Availability::kImporting && record->availability != Availability::kDeleted;
      if (!leasable) {
        SY_ASSIGN_OR_RETURN(const std::vector<Lease> leases, all_leases_of(view_, identity));
        if (!leases.empty()) return corrupt(identity, "a lease on a revision that cannot have one");
      }
    }
    return {};
  }

  Status operator()(const RevisionPut& body) {
    const RevisionRecord& next = body.record;
    touched_.insert(next.identity);
    SY_ASSIGN_OR_RETURN(const std::optional<RevisionRecord> before, find_revision(view_, next.identity));
    return before ? check_step(*before, next) : check_begin(next);
  }

  Status operator()(const RevisionRemoved& body) {
    const Identity& identity = body.record.identity;
    touched_.insert(identity);
    SY_ASSIGN_OR_RETURN(const std::optional<RevisionRecord> before, find_revision(view_, identity));
    if (!before || *before != body.record) return corrupt(identity, "the record removed is not the one there");
    if (before->availability != Availability::kDeleted) return corrupt(identity, "only a tombstone may be compacted");
    SY_ASSIGN_OR_RETURN(const std::optional<Watermark> mark, find_watermark(view_, identity.lineage));
    if (!mark || mark->weight_generation < identity.weight_generation) {
      return corrupt(identity, "a tombstone compacted above the watermark");
    }
    return {};
  }

  Status operator()(const WriterPut& body) {
    touched_.insert(body.writer.identity);
    return check_epoch(body.writer.identity, body.writer.epoch);
  }
  Status operator()(const WriterRemoved& body) {
    touched_.insert(body.identity);
    return check_there(body.identity, "writer", keys::of(keys::kWriter, body.identity));
  }

  Status operator()(const LeasePut& body) {
    touched_.insert(body.lease.identity);
    return check_epoch("lease " + body.lease.lease_id, body.lease.epoch);
  }
  Status operator()(const LeaseRemoved& body) {
    return check_there("lease " + body.lease_id, "lease", keys::lease(body.identity, body.lease_id));
  }

  Status operator()(const EpochBegun& body) {
    SY_ASSIGN_OR_RETURN(const EpochState before, epoch_of(view_));
    if (body.epoch.ordinal != before.ordinal + 1) {
      return corrupt("epoch " + body.epoch.epoch,
                     "ordinal " + std::to_string(body.epoch.ordinal) + " after " + std::to_string(before.ordinal));
    }
    if (body.epoch.epoch == before.epoch) return corrupt("epoch " + body.epoch.epoch, "it is the current one");
    return {};
  }

  Status operator()(const WatermarkPut& body) {
    SY_ASSIGN_OR_RETURN(const std::optional<Watermark> before, find_watermark(view_, body.watermark.lineage));
    if (before && before->weight_generation >= body.watermark.weight_generation) {
      return corrupt("the watermark of " + body.watermark.lineage.resource_id, "it does not rise");
    }
    SY_ASSIGN_OR_RETURN(const std::vector<RevisionRecord> records, records_of(view_, body.watermark.lineage));
    for (const RevisionRecord& record : records) {
      if (record.availability == Availability::kImporting &&
          record.identity.weight_generation <= body.watermark.weight_generation) {
        return corrupt(record.identity, "an import at or below the watermark");
      }
    }
    return {};
  }

  Status operator()(const RunnerPut& body) {
    const Runner& next = body.runner;
    touched_.insert(next.identity);
    SY_ASSIGN_OR_RETURN(const std::optional<Runner> before, find_runner(view_, next.identity));
    const bool same = before && before->operation_id == next.operation_id;
    if (same &&
        (next.run_attempt < before->run_attempt || next.processed_members < before->processed_members ||
         next.processed_bytes < before->processed_bytes || next.permitted_members < before->permitted_members)) {
      return corrupt("the runner of operation " + next.operation_id, "its attempt or its progress goes back");
    }
    if (next.permitted_members > (same ? before->permitted_members : 0)) unleased_.insert(next.identity);
    return check_epoch("the runner of operation " + body.runner.operation_id, body.runner.epoch);
  }
  Status operator()(const RunnerRemoved& body) {
    touched_.insert(body.identity);
    return check_there(body.identity, "runner", keys::of(keys::kRunner, body.identity));
  }
  Status operator()(const OperationForgotten& body) {
    return check_there("operation " + body.operation_id, "operation", keys::operation_id(body.operation_id));
  }

  Status operator()(const AccessPut& body) {
    const Access& next = body.access;
    SY_ASSIGN_OR_RETURN(const EpochState epoch, epoch_of(view_));
    SY_ASSIGN_OR_RETURN(const std::optional<Access> before, find_access(view_, next.identity));
    if (next.epoch_ordinal > epoch.ordinal) return corrupt(next.identity, "an access in an epoch to come");
    if (before && LastUse{before->epoch_ordinal, before->mono_ms} >= LastUse{next.epoch_ordinal, next.mono_ms}) {
      return corrupt(next.identity, "its last access does not advance");
    }
    return check_there(next.identity, "revision", keys::of(keys::kRevision, next.identity));
  }
  Status operator()(const AccessRemoved& body) {
    return check_there(body.identity, "access", keys::of(keys::kAccess, body.identity));
  }

 private:
  Status corrupt(const std::string& what, const std::string& why) const {
    return {Code::kCorrupt, "append " + std::to_string(sequence_) + ", " + what + ": " + why};
  }
  Status corrupt(const Identity& identity, const std::string& why) const {
    return corrupt(formats::format_ref(identity), why);
  }

  // `what` is an identity or a text.
  template <typename What>
  Status check_epoch(const What& what, const std::string& epoch) {
    SY_ASSIGN_OR_RETURN(const EpochState current, epoch_of(view_));
    if (epoch == current.epoch) return {};
    return corrupt(what, "granted in epoch '" + epoch + "', the current one is '" + current.epoch + "'");
  }

  template <typename What>
  Status check_there(const What& what, const std::string& kind, const std::string& key) {
    SY_ASSIGN_OR_RETURN(const std::optional<std::string> row, view_.get(key));
    if (row) return {};
    return corrupt(what, "there is no such " + kind);
  }

  Status check_begin(const RevisionRecord& next) {
    if (next.metadata_generation != 1) {
      return corrupt(next.identity,
                     "generation " + std::to_string(next.metadata_generation) + " of a record that is not there");
    }
    if (next.availability != Availability::kImporting) {
      return corrupt(next.identity, "a record that does not begin with an import");
    }
    if (next.begin_seq != sequence_) return corrupt(next.identity, "begin_seq is " + std::to_string(next.begin_seq));
    SY_ASSIGN_OR_RETURN(const std::optional<Watermark> mark, find_watermark(view_, next.identity.lineage));
    if (mark && mark->weight_generation >= next.identity.weight_generation) {
      return corrupt(next.identity, "its generation is at or below the watermark");
    }
    return {};
  }

  Status check_step(const RevisionRecord& before, const RevisionRecord& next) {
    if (next.metadata_generation != before.metadata_generation + 1) {
      return corrupt(next.identity, "generation " + std::to_string(next.metadata_generation) + " after " +
                                        std::to_string(before.metadata_generation));
    }
    if (!legal_edge(before.availability, next.availability)) {
      return corrupt(next.identity,
                     std::string(name_of(before.availability)) + " -> " + std::string(name_of(next.availability)));
    }
    if (next.created_at_ms != before.created_at_ms || next.begin_seq != before.begin_seq ||
        next.labels != before.labels) {
      return corrupt(next.identity, "created_at, begin_seq or labels changed");
    }
    if (next.updated_at_ms < before.updated_at_ms) return corrupt(next.identity, "updated_at decreases");
    const bool importing = before.availability == Availability::kImporting;
    const bool commits = importing && next.availability == Availability::kReady;
    const bool takes_over = importing && next.availability == Availability::kImporting;
    if (takes_over ? next.import_attempt <= before.import_attempt : next.import_attempt != before.import_attempt) {
      return corrupt(next.identity, "import attempt " + std::to_string(next.import_attempt) + " after " +
                                        std::to_string(before.import_attempt));
    }
    if (next.committed_seq != (commits ? sequence_ : before.committed_seq)) {
      return corrupt(next.identity, "committed_seq is " + std::to_string(next.committed_seq));
    }
    if (!commits && !takes_over && next.summary != before.summary) return corrupt(next.identity, "the summary changed");
    if (importing && next.policy != before.policy)
      return corrupt(next.identity, "the policy changed during the import");
    const bool ends = next.availability == Availability::kDeleted;
    if (next.deleted_seq != (ends ? sequence_ : 0)) {
      return corrupt(next.identity, "deleted_seq is " + std::to_string(next.deleted_seq));
    }
    return check_operations(before, next);
  }

  /// An operation starts, stays what it is, and moves to the ended ones; nothing else happens to either.
  Status check_operations(const RevisionRecord& before, const RevisionRecord& next) {
    if (next.operation && next.operation != before.operation) {
      if (before.operation) return corrupt(next.identity, "another operation takes the place of a running one");
      if (next.operation->kind == OperationKind::kEvicting) unleased_.insert(next.identity);
    }
    std::vector<Operation> ended = before.finished_operations;
    if (before.operation && !next.operation) {
      if (next.finished_operations.empty()) return corrupt(next.identity, "an operation vanishes");
      Operation last = next.finished_operations.back();
      ended.push_back(last);
      if (ended.size() > limits::kOperationsRetained) ended.erase(ended.begin());
      const Operation& was = *before.operation;
      last.state = was.state;
      last.processed_members = was.processed_members;
      last.processed_bytes = was.processed_bytes;
      last.message = was.message;
      last.ended_at_ms = was.ended_at_ms;
      last.ended_epoch_ordinal = was.ended_epoch_ordinal;
      last.ended_mono_ms = was.ended_mono_ms;
      last.ended_by = was.ended_by;
      last.failed_with = was.failed_with;
      if (last != was) return corrupt(next.identity, "an operation ends as another one");
      // Its row goes with the operation, so it stands in the state before the append. Older versions named nobody.
      const std::string& ended_by = next.finished_operations.back().ended_by;
      SY_ASSIGN_OR_RETURN(const std::optional<Runner> runner, find_runner(before_, next.identity));
      if (!ended_by.empty() && (!runner || runner->token != ended_by)) {
        return corrupt(next.identity, "an operation is ended by a run that did not have it");
      }
    }
    if (ended != next.finished_operations) return corrupt(next.identity, "the ended operations changed");
    return {};
  }

  const StateView& before_;
  Overlay view_;
  std::uint64_t sequence_;
  std::set<Identity> touched_;
  std::set<Identity> unleased_;  ///< no lease may be left on them
};

}  // namespace

Result<std::vector<RowChange>> check_entries(const StateView& before, std::uint64_t sequence,
                                             const std::vector<Entry>& entries) {
  if (sequence != before.sequence() + 1) {
    return Status(Code::kCorrupt,
                  "append " + std::to_string(sequence) + " does not follow " + std::to_string(before.sequence()));
  }
  if (entries.empty()) return Status(Code::kCorrupt, "append " + std::to_string(sequence) + " has no entries");
  Checker checker(before, sequence);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    SY_ASSIGN_OR_RETURN(const DecodedEntry decoded, decode_entry(entries[i]));
    if (decoded.mono_ms.has_value() != (i + 1 == entries.size())) {
      return Status(Code::kCorrupt,
                    "append " + std::to_string(sequence) + ": its last entry, and no other, carries the instant");
    }
    SY_RETURN_IF_ERROR(checker.check(decoded));
  }
  return checker.finish();
}

}  // namespace steelyard::metadata
