#include "sim/checkers/model.h"

#include <fmt/format.h>

#include <algorithm>

#include "formats/ref.h"

namespace steelyard::sim {

using metadata::Availability;
using metadata::Identity;
using metadata::Lease;
using metadata::RevisionRecord;
using metadata::Writer;

namespace {

/// Of a delete that drains: no lease is renewed for longer.
constexpr std::int64_t kDrainMsMax = 24 * 3'600'000LL;

std::int64_t last_renewal_of(const Lease& lease) { return lease.expires_mono_ms - lease.ttl_ms; }

}  // namespace

std::string text_of(const Identity& identity) { return formats::format_ref(identity); }

Operation& Model::begin(Process& process, std::string what) {
  const std::uint64_t id = next_operation_++;
  Operation& operation = operations_[id];
  operation.id = id;
  operation.what = std::move(what);
  operation.process = process.identity();
  operation.begun_at = sequence_;
  return operation;
}

Revision* Model::find(const Identity& identity) {
  const auto found = revisions_.find(identity);
  return found == revisions_.end() ? nullptr : &found->second;
}

bool Model::may_be_damaged(const Revision& revision) const {
  return bad_reads_ || std::any_of(revision.objects.begin(), revision.objects.end(),
                                   [&](const Member& member) { return damaged_.contains(member.sha256); });
}

bool Model::lease_lives(const std::string& lease_id) const {
  const auto found = leases_.find(lease_id);
  if (found == leases_.end()) return false;
  if (found->second.epoch == world_.epoch()) return world_.mono_ms() < found->second.expires_mono_ms;
  // Not re-armed yet: it lives if it lived when the old epoch was last heard of.
  return last_mono_ms_ < found->second.expires_mono_ms;
}

void Model::witness(Process& process, const oplog::Append& append, bool disturbed) {
  if (append.sequence != sequence_ + 1) {
    violated(fmt::format("append {} follows append {}", append.sequence, sequence_));
  }
  sequence_ = append.sequence;
  Operation& by = operations_[world_.current_operation()];
  by.disturbed = by.disturbed || disturbed;
  if (append.at.epoch == epoch_ && append.at.mono_ms < last_mono_ms_) {
    violated(
        fmt::format("append {} is at {} ms, the one before at {} ms", sequence_, append.at.mono_ms, last_mono_ms_));
  }
  epoch_before_ = epoch_;
  last_mono_before_ms_ = last_mono_ms_;
  begins_epoch_ = append.at.epoch != epoch_;
  std::string names;
  bool epoch_entry = false;
  for (const metadata::Entry& entry : append.entries) {
    const auto decoded = metadata::decode_entry(entry);
    if (!decoded.ok()) {
      violated(fmt::format("append {} has an entry that cannot be read: {}", sequence_, decoded.status().to_string()));
      continue;
    }
    names.append(names.empty() ? "" : " ").append(metadata::name_of(decoded->body));
    epoch_entry = epoch_entry || std::holds_alternative<metadata::EpochBegun>(decoded->body);
    std::visit([&](const auto& body) { see(by, append, body); }, decoded->body);
  }
  check_uses();
  if (begins_epoch_ != epoch_entry) violated(fmt::format("append {} and the epoch it begins do not agree", sequence_));
  epoch_ = append.at.epoch;
  last_mono_ms_ = append.at.mono_ms;
  world_.trace(fmt::format("{}: append {} by op {}: {}", process.name(), sequence_, by.id, names));
}

void Model::see(Operation& by, const oplog::Append& append, const metadata::RevisionPut& put) {
  const RevisionRecord& after = put.record;
  const std::string name = text_of(after.identity);
  Revision& revision = revisions_[after.identity];
  if (revision.facts.empty()) {
    if (after.metadata_generation != 1 || after.import_attempt == 0 || after.availability != Availability::kImporting ||
        after.residency != metadata::Residency::kUnknown || after.begin_seq != append.sequence ||
        after.committed_seq != 0 || after.operation) {
      violated(name + " does not begin as a new import does");
    }
    revision.attempts[after.import_attempt] = by.id;
    by.attempts[after.identity] = after.import_attempt;
  } else {
    check_edge(by, revision.now(), after, revision);
    check_operations(by, append, revision.now(), after, revision);
    if (after.import_attempt != revision.now().import_attempt) {
      // An import leaves its own attempt where the tier holds one of another history.
      const auto left = revision.attempts.find(revision.now().import_attempt);
      if (left == revision.attempts.end() || left->second != by.id) check_takeover(by, append, revision);
      revision.attempts[after.import_attempt] = by.id;
      by.attempts[after.identity] = after.import_attempt;
    }
  }
  const bool publishes = after.committed_seq != 0 && (revision.facts.empty() || !revision.published());
  if (publishes) {
    if (after.committed_seq != append.sequence) violated(name + ": committed_seq is not its append's");
    const auto owner = revision.attempts.find(after.import_attempt);
    if (owner == revision.attempts.end() || owner->second != by.id) {
      violated(fmt::format("{} is published by op {} under attempt {}, which is not its own", name, by.id,
                           after.import_attempt));
    }
    by.published = after.identity;
    revision.checkpoint = by.checkpoint;
  }
  if (!revision.facts.empty() && after.availability == Availability::kDeleting &&
      revision.now().availability == Availability::kImporting) {
    by.aborted = after.identity;
    const bool own = revision.writer && revision.writer->process == by.process;
    if (!by.forces && !own) check_takeover(by, append, revision);
  }
  if (!revision.facts.empty()) {
    const RevisionRecord& before = revision.now();
    by.put_policy = by.put_policy || after.policy != before.policy;
    if (after.availability == Availability::kDeleting && before.committed_seq != 0) by.deleted = after.identity;
    if (after.availability == Availability::kDeleted) by.tombstones.insert(after.identity);
  }
  check_residency(after);
  revision.facts.push_back({append.sequence, after});
}

void Model::check_edge(const Operation& by, const RevisionRecord& before, const RevisionRecord& after,
                       const Revision& revision) {
  const std::string name = text_of(after.identity);
  if (after.metadata_generation != before.metadata_generation + 1) {
    violated(fmt::format("{}: metadata generation {} follows {}", name, after.metadata_generation,
                         before.metadata_generation));
  }
  if (after.import_attempt < before.import_attempt) {
    violated(fmt::format("{}: attempt {} follows {}", name, after.import_attempt, before.import_attempt));
  }
  if (before.committed_seq != 0) {
    if (after.committed_seq != before.committed_seq) violated(name + " is published twice");
    if (after.import_attempt != before.import_attempt) violated(name + ": its attempt changes after Commit");
    if (after.summary != before.summary) violated(name + ": what was committed changes");
  }
  if (after.updated_at_ms < before.updated_at_ms) violated(name + ": updated_at decreases");
  if (after.created_at_ms != before.created_at_ms || after.labels != before.labels ||
      after.begin_seq != before.begin_seq || after.manifest_key != before.manifest_key ||
      after.payload_group_id != before.payload_group_id) {
    violated(name + ": something that stands for ever changes");
  }
  if (after.policy != before.policy && !by.sets_policy) {
    violated(fmt::format("{}: its policy is changed by op {} ({})", name, by.id, by.what));
  }
  const auto edge = std::pair(before.availability, after.availability);
  static const std::set<std::pair<Availability, Availability>> legal = {
      {Availability::kImporting, Availability::kImporting}, {Availability::kImporting, Availability::kReady},
      {Availability::kImporting, Availability::kDeleting},  {Availability::kReady, Availability::kReady},
      {Availability::kReady, Availability::kDegraded},      {Availability::kDegraded, Availability::kDegraded},
      {Availability::kDegraded, Availability::kReady},      {Availability::kReady, Availability::kDeleting},
      {Availability::kDegraded, Availability::kDeleting},   {Availability::kDeleting, Availability::kDeleted}};
  if (!legal.contains(edge)) {
    violated(fmt::format("{} goes from {} to {}", name, metadata::name_of(before.availability),
                         metadata::name_of(after.availability)));
  }
  if (edge == std::pair(Availability::kReady, Availability::kDegraded) && !may_be_damaged(revision)) {
    violated(name + " becomes DEGRADED although nothing was damaged");
  }
  if (after.availability == Availability::kDeleting && before.committed_seq != 0 &&
      before.availability != after.availability) {
    if (!by.may_delete) violated(fmt::format("{} is deleted by op {} ({})", name, by.id, by.what));
    if (const auto lease = live_lease_of(after.identity); lease && !by.drains) {
      violated(fmt::format("{} is deleted under lease {} of {}", name, lease->lease_id, lease->holder));
    }
  }
  if (edge == std::pair(Availability::kDeleting, Availability::kDeleted)) {
    if (!by.finishes) violated(fmt::format("{} becomes a tombstone by op {} ({})", name, by.id, by.what));
    if (const auto lease = live_lease_of(after.identity)) {
      violated(fmt::format("{} becomes a tombstone under lease {} of {}", name, lease->lease_id, lease->holder));
    }
  }
  if (edge == std::pair(Availability::kImporting, Availability::kDeleting) && !by.may_abort) {
    violated(fmt::format("{} is aborted by op {} ({})", name, by.id, by.what));
  }
}

void Model::check_takeover(const Operation& by, const oplog::Append& append, const Revision& revision) {
  if (!revision.writer || revision.writer->token.empty()) return;
  const Writer& writer = *revision.writer;
  const bool ended = writer.epoch == append.at.epoch ? append.at.mono_ms >= writer.granted_mono_ms + writer.ttl_ms
                                                     : last_mono_before_ms_ >= writer.granted_mono_ms + writer.ttl_ms;
  if (ended || !world_.is_running(writer.process)) return;
  violated(fmt::format("op {} takes over {} from pid {}, which lives and renewed its token {} ms ago", by.id,
                       text_of(writer.identity), writer.process.pid, append.at.mono_ms - writer.granted_mono_ms));
}

void Model::see(Operation& by, const oplog::Append& append, const metadata::WriterPut& put) {
  Revision* const found = find(put.writer.identity);
  const std::string name = text_of(put.writer.identity);
  if (found == nullptr || found->now().availability != Availability::kImporting) {
    violated(name + " gets a writer although it is not importing");
    return;
  }
  Revision& revision = *found;
  if (put.writer.import_attempt != revision.now().import_attempt) violated(name + ": its writer is of another attempt");
  const bool same = revision.writer && revision.writer->import_attempt == put.writer.import_attempt;
  if (same && !begins_epoch_) {
    if (put.writer.token != revision.writer->token && !put.writer.token.empty()) {
      violated(name + ": another token under the same attempt");
    }
    if (put.writer.process != by.process) {
      violated(fmt::format("{}: op {} touches the token of pid {}", name, by.id, put.writer.process.pid));
    }
  }
  if (!put.writer.token.empty() && put.writer.granted_mono_ms != append.at.mono_ms) {
    violated(
        fmt::format("{}: a token granted at {} ms says {} ms", name, append.at.mono_ms, put.writer.granted_mono_ms));
  }
  revision.writer = put.writer;
}

void Model::see(Operation& /*by*/, const oplog::Append& /*append*/, const metadata::WriterRemoved& removed) {
  if (Revision* revision = find(removed.identity)) revision->writer.reset();
}

void Model::see(Operation& by, const oplog::Append& append, const metadata::LeasePut& put) {
  const Lease& lease = put.lease;
  const Revision* revision = find(lease.identity);
  const std::string name = fmt::format("lease {} on {}", lease.lease_id, text_of(lease.identity));
  const auto found = leases_.find(lease.lease_id);
  if (lease.epoch != append.at.epoch) violated(name + " is granted by a clock that is not the machine's");
  if (begins_epoch_) {
    if (found == leases_.end()) {
      violated(name + " is granted by the beginning of an epoch");
    } else if (last_mono_before_ms_ >= found->second.expires_mono_ms) {
      violated(name + " had ended and is re-armed");
    }
    const std::int64_t whole = append.at.mono_ms + lease.ttl_ms;
    const std::int64_t bound = lease.renewable_until_mono_ms == 0 ? whole : lease.renewable_until_mono_ms;
    if (lease.expires_mono_ms != std::min(whole, bound)) violated(name + " is re-armed with another time");
    if (found != leases_.end()) {
      const std::int64_t before = found->second.renewable_until_mono_ms;
      const std::int64_t moved = before == 0 ? 0 : before - last_mono_before_ms_ + append.at.mono_ms;
      if (lease.renewable_until_mono_ms != moved) violated(name + " is re-armed with another bound");
    }
  } else if (by.drains && found != leases_.end() && lease.renewable_until_mono_ms != 0) {
    // A delete that drains bounds the renewals of the leases that live, and changes nothing else of them.
    Lease bounded = found->second;
    bounded.renewable_until_mono_ms = append.at.mono_ms + kDrainMsMax;
    if (lease != bounded) violated(name + " is changed by a delete");
  } else {
    by.put_lease = true;
    count_pause(lease.identity);
    const bool lives = found != leases_.end() && append.at.mono_ms < found->second.expires_mono_ms;
    if (lives && lease.expires_mono_ms <= found->second.expires_mono_ms)
      violated(name + " is renewed and not lengthened");
    if (lease.renewable_until_mono_ms != (lives ? found->second.renewable_until_mono_ms : 0)) {
      violated(name + " is granted with another bound than its drain's");
    }
    if (lease.renewable_until_mono_ms != 0 && lease.expires_mono_ms > lease.renewable_until_mono_ms) {
      violated(name + " is granted beyond the bound of its drain");
    }
    if (!lives && (revision == nullptr || !revision->readable())) {
      violated(name + " is granted on what nobody may read");
    }
    if (lease.expires_mono_ms > append.at.mono_ms + lease.ttl_ms) violated(name + " is longer than asked for");
  }
  if (found == leases_.end()) ++leases_granted_;
  leases_[lease.lease_id] = lease;
}

void Model::see(Operation& by, const oplog::Append& append, const metadata::LeaseRemoved& removed) {
  const auto found = leases_.find(removed.lease_id);
  if (found == leases_.end()) return;
  const Lease& lease = found->second;
  const bool lives = lease.epoch == append.at.epoch ? append.at.mono_ms < lease.expires_mono_ms
                                                    : last_mono_before_ms_ < lease.expires_mono_ms;
  if (lives && by.releases != removed.lease_id && lease.process != by.process) {
    violated(fmt::format("lease {} on {} is ended by op {} ({}) {} ms before its time", removed.lease_id,
                         text_of(lease.identity), by.id, by.what, lease.expires_mono_ms - append.at.mono_ms));
  }
  if (lives) {
    used(lease.identity, {epoch_ordinal_, append.at.mono_ms});
  } else {
    // Of an epoch that ends with this append, it counts by that one's clock.
    const bool of_before = lease.epoch != append.at.epoch;
    used(lease.identity, {epoch_ordinal_ - (of_before ? 1 : 0), std::max<std::int64_t>(0, last_renewal_of(lease))});
  }
  by.released = by.released || by.releases == removed.lease_id;
  lease_ended_at_[lease.identity] = sequence_;
  leases_.erase(found);
}

void Model::see(Operation& /*by*/, const oplog::Append& append, const metadata::AccessPut& put) {
  const metadata::Access& access = put.access;
  const std::string name = "the last use of " + text_of(access.identity);
  const Revision* const revision = find(access.identity);
  if (revision == nullptr || !revision->published() || revision->compacted) violated(name + " is that of nothing");
  if (access.epoch != (access.epoch_ordinal == epoch_ordinal_ ? append.at.epoch : epoch_before_)) {
    violated(name + " is of an epoch that is not its ordinal's");
  }
  const metadata::LastUse use{access.epoch_ordinal, access.mono_ms};
  if (use <= uses_told_[access.identity]) violated(name + " does not advance");
  uses_told_[access.identity] = use;
}

void Model::used(const Identity& identity, const metadata::LastUse& use) {
  metadata::LastUse& last = uses_[identity];
  last = std::max(last, use);
}

void Model::check_uses() {
  for (const auto& [identity, use] : uses_) {
    if (uses_told_[identity] == use) continue;
    violated(fmt::format("append {}: the last use of {} is not that of its last lease", sequence_, text_of(identity)));
    uses_told_[identity] = use;
  }
}

void Model::see(Operation& /*by*/, const oplog::Append& append, const metadata::EpochBegun& begun) {
  if (begun.epoch.epoch != append.at.epoch) violated("an epoch begins that is not the machine's");
  if (begun.epoch.ordinal != epoch_ordinal_ + 1) violated("an epoch begins that is not the next one");
  epoch_ordinal_ = begun.epoch.ordinal;
}

void Model::see(Operation& by, const oplog::Append& append, const metadata::WatermarkPut& put) {
  if (!by.compacts) violated(fmt::format("op {} ({}) sets a watermark at {}", by.id, by.what, append.sequence));
  std::int64_t& mark = watermarks_[put.watermark.lineage];
  if (put.watermark.weight_generation <= mark) violated("a watermark does not rise");
  mark = put.watermark.weight_generation;
}

void Model::see(Operation& by, const oplog::Append& /*append*/, const metadata::RevisionRemoved& removed) {
  const metadata::Identity& identity = removed.record.identity;
  Revision* const revision = find(identity);
  if (!by.compacts || revision == nullptr || revision->now().availability != Availability::kDeleted ||
      watermarks_[identity.lineage] < identity.weight_generation) {
    violated(fmt::format("op {} ({}) removes the record of {}", by.id, by.what, text_of(identity)));
  }
  if (revision == nullptr) return;
  revision->compacted = true;
  revision->compacted_at = sequence_;
}

std::optional<Lease> Model::live_lease_of(const Identity& identity) const {
  for (const auto& [id, lease] : leases_) {
    if (lease.identity == identity && lease_lives(id)) return lease;
  }
  return std::nullopt;
}

template <typename Other>
void Model::see(Operation& by, const oplog::Append& append, const Other& entry) {
  violated(fmt::format("op {} ({}) appends a {} at {}, which no command of this workload does", by.id, by.what,
                       metadata::name_of(metadata::EntryBody(entry)), append.sequence));
}

}  // namespace steelyard::sim
