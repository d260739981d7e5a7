#include "metadata/rules.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/units.h"
#include "base/utf8.h"
#include "formats/ref.h"
#include "metadata/keys.h"
#include "metadata/rows.h"
#include "metadata/turn.h"
#include "metadata/validate.h"

namespace steelyard::metadata {
namespace {

Status validate_now(const Now& now) {
  EpochState epoch;
  epoch.epoch = now.epoch;
  epoch.begun_mono_ms = now.mono_ms;
  epoch.ordinal = 1;
  return validate(epoch).annotate("judging at", "the clock's instant");
}

struct Judge {
  Turn& turn;
  template <typename C>
  Status operator()(const C& command) const {
    return judge(turn, command);
  }
  Status operator()(const BeginEpoch&) const { return {}; }
};

}  // namespace

Result<Prepared> WeightMetadataStore::prepare(const StateView& view, const Command& command, const Now& now) {
  SY_ASSIGN_OR_RETURN(const EpochState epoch, epoch_of(view));
  return prepare(view, epoch, command, now);
}

Result<Prepared> WeightMetadataStore::prepare(const StateView& view, const EpochState& epoch, const Command& command,
                                              const Now& now) {
  SY_RETURN_IF_ERROR(validate_now(now));
  Turn turn{Overlay(view), now, epoch, view.sequence() + 1, {}, {}};
  SY_RETURN_IF_ERROR(begin_epoch(turn));
  turn.now.mono_ms = std::max(now.mono_ms, turn.epoch.last_mono_ms);
  SY_RETURN_IF_ERROR(std::visit(Judge{turn}, command));

  Prepared prepared;
  prepared.answer = std::move(turn.answer);
  prepared.sequence = turn.sequence;
  if (!turn.entries.empty()) turn.entries.back().mono_ms = turn.now.mono_ms;
  prepared.entries.reserve(turn.entries.size());
  for (const DecodedEntry& entry : turn.entries) prepared.entries.push_back(encode_entry(entry));
  return prepared;
}

Status begin_epoch(Turn& turn) {
  const EpochState old = turn.epoch;
  if (old.ordinal != 0 && old.epoch == turn.now.epoch) return {};
  // The old epoch's clock is gone; the last instant it left in the state is all that can be judged by.
  const Now then{old.epoch, old.last_mono_ms, 0};
  EpochState begun;
  begun.epoch = turn.now.epoch;
  begun.begun_mono_ms = turn.now.mono_ms;
  begun.last_mono_ms = turn.now.mono_ms;
  begun.ordinal = old.ordinal + 1;
  const std::size_t first = turn.entries.size();
  turn.put(EpochBegun{begun});

  SY_ASSIGN_OR_RETURN(std::vector<Lease> leases, rows_under(turn.view, std::string(1, keys::kLease), decode_lease));
  std::map<Identity, std::int64_t> accessed_ms;
  for (Lease& lease : leases) {
    if (!life_of(lease, old, then).live) {
      std::int64_t& last_ms = accessed_ms[lease.identity];
      last_ms = std::max(last_ms, last_renewal_ms(lease));
      turn.put(LeaseRemoved{lease.identity, lease.lease_id});
      continue;
    }
    lease.epoch = begun.epoch;
    lease.expires_mono_ms = begun.begun_mono_ms + lease.ttl_ms;
    if (lease.renewable_until_mono_ms != 0) {
      // The end of a drain stays where it was: a live lease ends before it, so something is left.
      lease.renewable_until_mono_ms += begun.begun_mono_ms - old.last_mono_ms;
      lease.expires_mono_ms = std::min(lease.expires_mono_ms, lease.renewable_until_mono_ms);
    }
    turn.put(LeasePut{std::move(lease)});
  }
  for (const auto& [identity, mono_ms] : accessed_ms) SY_RETURN_IF_ERROR(put_access(turn, identity, old, mono_ms));
  SY_ASSIGN_OR_RETURN(std::vector<Writer> writers, rows_under(turn.view, std::string(1, keys::kWriter), decode_writer));
  for (Writer& writer : writers) {
    // An expired token ends; its row stays, so that the age of the import goes on counting.
    if (!life_of(writer, old, then).live) writer.token.clear();
    writer.idle_before_ms = std::min(idle_ms_of(writer, old, then), kInstantMsMax);
    writer.epoch = begun.epoch;
    writer.granted_mono_ms = begun.begun_mono_ms;
    turn.put(WriterPut{std::move(writer)});
  }
  SY_ASSIGN_OR_RETURN(std::vector<Runner> runners, rows_under(turn.view, std::string(1, keys::kRunner), decode_runner));
  for (Runner& runner : runners) {
    if (!life_of(runner, old, then).live) runner.token.clear();
    runner.epoch = begun.epoch;
    runner.granted_mono_ms = begun.begun_mono_ms;
    turn.put(RunnerPut{std::move(runner)});
  }
  for (std::size_t i = first; i < turn.entries.size(); ++i) {
    turn.view.add(rows_of(turn.entries[i]));
  }
  turn.epoch = begun;
  return {};
}

Result<RevisionRecord> get_record(const StateView& view, const Identity& identity) {
  SY_RETURN_IF_ERROR(formats::validate(identity));
  SY_ASSIGN_OR_RETURN(std::optional<RevisionRecord> record, find_revision(view, identity));
  if (record) return *std::move(record);
  SY_ASSIGN_OR_RETURN(const std::optional<Watermark> mark, find_watermark(view, identity.lineage));
  if (mark && mark->weight_generation >= identity.weight_generation) {
    return Status(Code::kNotFound,
                  formats::format_ref(identity) + " was deleted and its record compacted: generations up to " +
                      std::to_string(mark->weight_generation) + " are used",
                  "`steelyard list --all` shows what is there; import it as a new generation");
  }
  return Status(Code::kNotFound, formats::format_ref(identity) + " is not in the catalog",
                "`steelyard list --all` shows what is");
}

RevisionRecord next_of(const RevisionRecord& record, const Now& now) {
  RevisionRecord next = record;
  ++next.metadata_generation;
  next.updated_at_ms = std::max(record.updated_at_ms, now.wall_ms);
  return next;
}

void set_availability(RevisionRecord& record, Availability availability) {
  if (record.availability == availability) return;
  record.availability = availability;
  record.availability_since_ms = record.updated_at_ms;
}

Status check_published(const RevisionRecord& record, std::string hint) {
  if (is_published(record.availability)) return {};
  if (hint.empty()) {
    hint = record.availability == Availability::kImporting ? "wait for its import, or import it again"
                                                           : "use another generation";
  }
  return {Code::kNotReady,
          formats::format_ref(record.identity) + " is " + state_and_since(record) + ", wanted READY or DEGRADED",
          std::move(hint)};
}

Status check_fence(const RevisionRecord& record, std::uint64_t expected) {
  if (record.metadata_generation == expected) return {};
  return {Code::kStaleGeneration,
          formats::format_ref(record.identity) + ": metadata generation " + std::to_string(expected) +
              " was expected, the current one is " + std::to_string(record.metadata_generation),
          "read the record again, and repeat the request if it still makes sense"};
}

bool was_applied(const RevisionRecord& record, const AppliedRequest& request) {
  return std::find(record.applied.begin(), record.applied.end(), request) != record.applied.end();
}

void set_applied(RevisionRecord& record, const AppliedRequest& request) {
  const auto place = std::lower_bound(record.applied.begin(), record.applied.end(), request,
                                      [](const AppliedRequest& a, const AppliedRequest& b) { return a.kind < b.kind; });
  if (place != record.applied.end() && place->kind == request.kind) {
    *place = request;
  } else {
    record.applied.insert(place, request);
  }
}

Arguments::Arguments(const Identity& identity) { add(formats::payload_group_id(identity)); }

Arguments& Arguments::add(std::string_view part) {
  sha_.add(part);
  return *this;
}

Arguments& Arguments::add(std::uint64_t number) { return add(std::to_string(number)); }

AppliedRequest Arguments::request(RequestKind kind, std::uint64_t expected_generation) {
  return {kind, expected_generation, std::string(as_text(sha_.finish().bytes))};
}

std::string state_and_since(const RevisionRecord& record) {
  return std::string(name_of(record.availability)) + " since " + format_rfc3339(record.availability_since_ms);
}

Result<std::vector<Lease>> reap_expired(Turn& turn, const Identity& identity) {
  SY_ASSIGN_OR_RETURN(std::vector<Lease> leases, all_leases_of(turn.view, identity));
  std::vector<Lease> live;
  std::optional<std::int64_t> accessed_ms;
  for (Lease& lease : leases) {
    if (life_of(lease, turn.epoch, turn.now).live) {
      live.push_back(std::move(lease));
    } else {
      accessed_ms = std::max(accessed_ms.value_or(0), last_renewal_ms(lease));
      turn.put(LeaseRemoved{lease.identity, lease.lease_id});
    }
  }
  if (accessed_ms) SY_RETURN_IF_ERROR(put_access(turn, identity, turn.epoch, *accessed_ms));
  return live;
}

Status put_access(Turn& turn, const Identity& identity, const EpochState& epoch, std::int64_t mono_ms) {
  SY_ASSIGN_OR_RETURN(const std::optional<Access> before, find_access(turn.view, identity));
  const LastUse use{epoch.ordinal, mono_ms};
  if (before && LastUse{before->epoch_ordinal, before->mono_ms} >= use) return {};
  turn.put(AccessPut{{identity, epoch.epoch, mono_ms, turn.now.wall_ms, epoch.ordinal}});
  return {};
}

std::string describe_leases(const std::vector<Lease>& leases, const Turn& turn) {
  constexpr std::size_t kNamed = 5;
  std::set<std::string> holders;
  std::int64_t nearest = INT64_MAX;
  for (const Lease& lease : leases) {
    holders.insert(printable(lease.holder));
    nearest = std::min(nearest, life_of(lease, turn.epoch, turn.now).left_ms);
  }
  std::string names;
  std::size_t named = 0;
  for (const std::string& holder : holders) {
    if (named == kNamed) {
      names += ", and " + std::to_string(holders.size() - kNamed) + " more";
      break;
    }
    if (named++ > 0) names += ", ";
    names += holder;
  }
  return std::to_string(leases.size()) + (leases.size() == 1 ? " live lease (" : " live leases (") + names +
         "), the nearest expiry in " + format_age(nearest);
}

}  // namespace steelyard::metadata
