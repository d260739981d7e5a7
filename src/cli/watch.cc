// watch REF|RESOURCE
#include <algorithm>
#include <limits>
#include <map>

#include "base/log.h"
#include "base/units.h"
#include "base/utf8.h"
#include "cli/documents.h"
#include "cli/signals.h"
#include "cli/verbs.h"
#include "cli/words.h"
#include "formats/ref.h"

namespace steelyard::cli {
namespace {

using catalog::RevisionChange;
using catalog::WatchBatch;
using metadata::Availability;
using metadata::Identity;
using metadata::Residency;
using metadata::RevisionRecord;

constexpr std::int64_t kTimeoutMsMax = 30 * 24 * 3'600'000LL;
constexpr std::int64_t kLookAtReaderMs = 1000;  ///< how soon it is seen that nobody reads the lines
constexpr std::string_view kStates = "IMPORTING|READY|DEGRADED|DELETING|DELETED|HOT|COLD|MIXED";

constexpr FlagSpec kFlags[] = {
    {.name = "--until",
     .placeholder = "STATE",
     .help = "end once it is in this state; of a RESOURCE only READY",
     .choices = kStates},
    {.name = "--timeout",
     .placeholder = "D",
     .help = "end after this time with exit code 10, 0s to 30d (default: never)"},
};

/// How far a generation is on the way that only leads forward.
int stage_of(Availability availability) {
  switch (availability) {
    case Availability::kImporting:
      return 0;
    case Availability::kReady:
    case Availability::kDegraded:
      return 1;
    case Availability::kDeleting:
      return 2;
    case Availability::kDeleted:
      break;
  }
  return 3;
}

/// What is waited for. Nothing: it goes on for ever.
struct Goal {
  std::string text;
  std::optional<Availability> availability;
  std::optional<Residency> residency;

  bool is_reached(Availability now, Residency where) const {
    // Whoever waits for a removal to begin is content with its end.
    if (availability == Availability::kDeleting && now == Availability::kDeleted) return true;
    if (availability) return now == *availability;
    return residency && stage_of(now) == 1 && where == *residency;
  }
  /// MIXED has at least one object in memory, and one that is not.
  bool has_objects_for(std::uint64_t count) const {
    return count >= (residency == Residency::kMixed ? 2U : residency == Residency::kHot ? 1U : 0U);
  }
  bool is_past(Availability now) const {
    if (availability) return stage_of(*availability) < stage_of(now);
    return residency && stage_of(now) > 1;
  }
};

Goal goal_of(const Invocation& call) {
  Goal goal;
  const auto text = call.find("--until");
  if (!text) return goal;
  goal.text = *text;
  goal.availability = metadata::availability_from_name(*text);
  for (const Residency one : {Residency::kHot, Residency::kCold, Residency::kMixed}) {
    if (*text == name_of(one)) goal.residency = one;
  }
  return goal;
}

/// "READY, HOT", "READY, MIXED 37 %, EVICTING".
std::string state_words(const RevisionRecord& record) {
  std::string text(name_of(record.availability));
  if (is_published(record.availability)) text += ", " + residency_words(record);
  if (record.operation) text += ", " + std::string(name_of(record.operation->kind));
  return text;
}

/// Says what changed, and knows when that is all.
class Follower {
 public:
  Follower(Invocation& call, store::Store& store, const store::Selector& selector, Goal goal)
      : call_(call), store_(store), selector_(selector), goal_(std::move(goal)) {}

  bool of_resource() const { return !selector_.ref.revision && !selector_.ref.weight_generation; }
  bool done() const { return done_; }
  const Goal& goal() const { return goal_; }

  catalog::WatchQuery query() const {
    catalog::WatchQuery query;
    query.tenant_id = selector_.tenant_id;
    query.namespace_id = selector_.namespace_id;
    query.resource_id = selector_.ref.resource_id;
    if (!of_resource()) query.revision = selector_.ref.revision.value_or("main");
    if (const auto generation = selector_.ref.weight_generation) {
      query.identity = {{selector_.tenant_id, selector_.namespace_id, selector_.ref.resource_id, *query.revision},
                        *generation};
    }
    return query;
  }

  Status take(const WatchBatch& batch) {
    if (of_resource()) return take_of_resource(batch);
    if (batch.resnapshot) SY_RETURN_IF_ERROR(take_absent(batch));
    for (const RevisionChange& change : batch.changes) {
      const auto [told, fresh] = told_.try_emplace(change.record.identity);
      const bool same = !fresh && told->second.generation == change.record.metadata_generation;
      told->second = {change.record.metadata_generation, change.record.availability, state_words(change.record)};
      if (!same) SY_RETURN_IF_ERROR(tell(change.sequence, batch.resnapshot, change.record));
      // A snapshot is one state, however many records it has; its last is the newest.
      if (batch.resnapshot && &change != &batch.changes.back()) continue;
      SY_RETURN_IF_ERROR(judge(change.record.identity, change.record.availability, change.record.residency));
      SY_RETURN_IF_ERROR(check_objects(change.record));
      if (done_) return {};
    }
    return {};
  }

  /// How it stands, for the message of a timeout.
  std::string found() const {
    if (of_resource()) return newest_.empty() ? "no revision of it is READY" : "the newest is " + newest_;
    if (told_.empty()) return "it is not there";
    const auto& [identity, told] = *told_.rbegin();
    return formats::format_ref(identity) + " is " + told.state;
  }

 private:
  struct Told {
    std::uint64_t generation = 0;
    Availability availability = Availability::kImporting;
    std::string state{};  ///< for people
  };
  struct Ready {
    std::uint64_t committed_seq = 0;
    RevisionRecord record;
  };

  /// A batch that stands for all that is there: what was there before, or can be no more, is deleted and compacted.
  Status take_absent(const WatchBatch& batch) {
    const auto is_there = [&batch](const Identity& identity) {
      return std::ranges::any_of(batch.changes,
                                 [&](const RevisionChange& one) { return one.record.identity == identity; });
    };
    if (batch.compacted) told_.try_emplace(*query().identity);
    for (auto& [identity, told] : told_) {
      if (told.availability == Availability::kDeleted || is_there(identity)) continue;
      told.availability = Availability::kDeleted;
      told.state = name_of(Availability::kDeleted);
      SY_RETURN_IF_ERROR(tell_gone(batch.next, identity));
      SY_RETURN_IF_ERROR(judge(identity, Availability::kDeleted, Residency::kAbsent));
    }
    return {};
  }

  /// The newest READY revision, each time that it is another one.
  Status take_of_resource(const WatchBatch& batch) {
    if (batch.resnapshot) ready_.clear();
    std::uint64_t at = batch.next;
    for (const RevisionChange& change : batch.changes) {
      at = change.sequence;
      if (change.record.availability == Availability::kReady) {
        ready_[change.record.identity] = change.record;
      } else {
        ready_.erase(change.record.identity);
      }
      if (!batch.resnapshot) SY_RETURN_IF_ERROR(tell_newest(at, false));
      if (done_) return {};
    }
    return batch.resnapshot ? tell_newest(at, true) : Status();
  }

  Status tell_newest(std::uint64_t sequence, bool resnapshot) {
    const auto newest = std::ranges::max_element(ready_, {}, [](const auto& row) { return row.second.committed_seq; });
    const std::string ref = newest == ready_.end() ? "" : formats::format_ref(newest->first);
    if (ref == newest_) return {};
    newest_ = ref;
    if (newest == ready_.end()) return tell_none(sequence, resnapshot);
    done_ = goal_.availability.has_value();
    return tell(sequence, resnapshot, newest->second);
  }

  Status judge(const Identity& identity, Availability now, Residency where) {
    // Without a generation the newest one is meant.
    if (told_.rbegin()->first != identity) return {};
    done_ = goal_.is_reached(now, where);
    if (done_ || !selector_.ref.weight_generation) return {};
    if (goal_.is_past(now)) {
      return {Code::kNotReady,
              formats::format_ref(identity) + " is " + std::string(name_of(now)) + " and will not be " + goal_.text +
                  " any more",
              "import it again under a new generation"};
    }
    done_ = now == Availability::kDeleted;  // nothing follows
    return {};
  }

  /// Of one generation: what it is made of is known once it is published, and does not change.
  Status check_objects(const RevisionRecord& record) const {
    const std::uint64_t count = record.summary.payload_count;
    if (!selector_.ref.weight_generation || !is_published(record.availability) || goal_.has_objects_for(count))
      return {};
    return {Code::kNotReady,
            ref_of(record) + " has " + (count == 0 ? "no payload objects" : "one payload object") +
                ", and will never be " + goal_.text,
            count == 0 ? "it is always COLD: wait for READY" : "it is HOT or COLD as a whole: wait for one of these"};
  }

  Status tell(std::uint64_t sequence, bool resnapshot, const RevisionRecord& record) {
    if (call_.json()) {
      SY_ASSIGN_OR_RETURN(const std::uint64_t leases, store_.active_leases(record.identity));
      Json json;
      begin_line(json, sequence, resnapshot, ref_of(record)).key("revision");
      write_revision(json, record, leases);
      json.end_object();
      call_.out().line(json.text());
      return {};
    }
    if (call_.quiet()) {
      call_.out().line(ref_of(record));
      return {};
    }
    std::string line =
        format_rfc3339(record.updated_at_ms) + "  " + ref_of(record) + "  " + std::string(name_of(record.availability));
    if (is_published(record.availability)) line += "  " + residency_words(record);
    if (record.operation) line += "  " + std::string(name_of(record.operation->kind));
    call_.out().line(line);
    return {};
  }

  /// Its tombstone was compacted: there is no record to show.
  Status tell_gone(std::uint64_t sequence, const Identity& identity) {
    const std::string ref = formats::format_ref(identity);
    if (call_.json()) {
      Json json;
      begin_line(json, sequence, true, ref).key("revision").null().end_object();
      call_.out().line(json.text());
    } else {
      call_.out().line(call_.quiet() ? ref : ref + "  DELETED, and its record is compacted");
    }
    return {};
  }

  Status tell_none(std::uint64_t sequence, bool resnapshot) {
    if (call_.json()) {
      Json json;
      begin_line(json, sequence, resnapshot, "").key("revision").null().end_object();
      call_.out().line(json.text());
    } else if (!call_.quiet()) {
      call_.out().line("no revision of " + printable(selector_.ref.resource_id) + " is READY");
    }
    return {};
  }

  static Json& begin_line(Json& json, std::uint64_t sequence, bool resnapshot, const std::string& ref) {
    begin_document(json).key("sequence").integer(sequence).key("resnapshot").boolean(resnapshot);
    return json.key("ref").string_or_null(ref);
  }

  Invocation& call_;
  store::Store& store_;
  const store::Selector selector_;
  const Goal goal_;
  bool done_ = false;
  std::map<Identity, Told> told_;             ///< of a revision: its generations as they were said
  std::map<Identity, RevisionRecord> ready_;  ///< of a resource
  std::string newest_;                        ///< of a resource: the last that was said
};

Status follow(Invocation& call, store::Store& store, Follower& follower, std::optional<std::int64_t> timeout_ms) {
  const WatchSignals signals;
  Runtime& runtime = call.runtime();
  const std::int64_t deadline = timeout_ms ? runtime.mono_ms() + *timeout_ms : std::numeric_limits<std::int64_t>::max();
  catalog::WatchQuery query = follower.query();
  while (true) {
    query.deadline_mono_ms = std::min(deadline, runtime.mono_ms() + kLookAtReaderMs);
    auto batch = store.watch(query, signals.flag());
    if (store::is_cancelled(batch.status())) {
      return std::move(batch).status().with_hint("the same command begins with what is there then");
    }
    SY_RETURN_IF_ERROR(batch.status());
    if (batch->resnapshot && query.after) {
      log_warning(
          "the log does not hold what came after {} any more: single changes up to {} are not shown, and what "
          "stands there is",
          *query.after, batch->next);
    }
    query.after = batch->next;
    SY_RETURN_IF_ERROR(follower.take(*batch));
    SY_RETURN_IF_ERROR(call.out().flush());
    if (follower.done()) return {};
    SY_RETURN_IF_ERROR(call.out().check_reader());
    if (runtime.mono_ms() < deadline) continue;
    const std::string& goal = follower.goal().text;
    return {Code::kUnavailable,
            "the " + format_duration(*timeout_ms) + " of --timeout are over" +
                (goal.empty() ? "" : ", and it did not become " + goal) + ": " + follower.found(),
            "watch it again, for longer"};
  }
}

Status run_watch(Invocation& call) {
  SY_ASSIGN_OR_RETURN(const store::Selector selector, call.selector(call.operands().front()));
  Goal goal = goal_of(call);
  SY_ASSIGN_OR_RETURN(const auto timeout_ms, call.duration_ms("--timeout", 0, kTimeoutMsMax));
  if (!selector.ref.revision && !selector.ref.weight_generation && !goal.text.empty() && goal.text != "READY") {
    return {Code::kInvalidArgument,
            "of the resource " + printable(selector.ref.resource_id) + " only the READY revisions are watched; found " +
                "--until " + goal.text,
            "name a revision, as in " + formats::format_ref({{"", "", selector.ref.resource_id, "main"}, 1})};
  }
  SY_ASSIGN_OR_RETURN(const auto store, call.open_store(store::OpenMode::kRead));
  Follower follower(call, *store, selector, std::move(goal));
  return follow(call, *store, follower, timeout_ms);
}

}  // namespace

constinit const VerbSpec kWatchVerb = {.name = "watch",
                                       .operands = "REF|RESOURCE",
                                       .operands_min = 1,
                                       .operands_max = 1,
                                       .summary = "follow the changes of a revision, or the newest of a resource",
                                       .prints = "a line for each change, as it comes",
                                       .flags = kFlags,
                                       .run = run_watch};

}  // namespace steelyard::cli
