// WeightMetadataStore: the rules of the lifecycle and nothing else. No I/O, clock, lock, thread or randomness inside.
#pragma once

#include <compare>
#include <string>
#include <string_view>
#include <vector>

#include "metadata/commands.h"
#include "metadata/state.h"

namespace steelyard::metadata {

/// What a command comes to: entries to append (none: the answer stands without a change, a retry for example) and the
/// answer that becomes true once they are durable.
struct Prepared {
  std::vector<Entry> entries;
  Answer answer;
  std::uint64_t sequence = 0;  ///< of the append that the entries will be
};

class WeightMetadataStore {
 public:
  /// Judges `command` against `view` at `now`. `view.sequence() + 1` is the sequence its entries will get. When
  /// `now.epoch` is not the state's, the entries begin with EPOCH_BEGUN and the re-armed writers and leases, and the
  /// command is judged after them. Deterministic: same arguments, same result, byte for byte.
  static Result<Prepared> prepare(const StateView& view, const Command& command, const Now& now);
  /// The same for who has read the view's epoch (epoch_of) already.
  static Result<Prepared> prepare(const StateView& view, const EpochState& epoch, const Command& command,
                                  const Now& now);
};

/// NOT_FOUND, saying "compacted" where a watermark covers the generation; INVALID_ARGUMENT for a malformed identity.
Result<RevisionRecord> get_record(const StateView& view, const Identity& identity);

/// Reads. `find_` may be absent.
Result<std::optional<RevisionRecord>> find_revision(const StateView& view, const Identity& identity);
Result<std::optional<Writer>> find_writer(const StateView& view, const Identity& identity);
Result<std::optional<Lease>> find_lease(const StateView& view, std::string_view lease_id);
/// The record that has this payload group (64 hex digits of its digest); gc asks, O(1).
Result<std::optional<RevisionRecord>> find_by_group(const StateView& view, std::string_view group_digest_hex);
/// The next records of the whole state after `after` in the order of their keys, at most `limit`: for what looks at
/// every tenant and namespace, a page at a time. Absent: from the first.
Result<std::vector<RevisionRecord>> records_after(const StateView& view, const std::optional<Identity>& after,
                                                  std::size_t limit);
/// All records of a lineage by generation, ascending.
Result<std::vector<RevisionRecord>> records_of(const StateView& view, const Lineage& lineage);
Result<std::optional<Watermark>> find_watermark(const StateView& view, const Lineage& lineage);
/// The highest generation of a lineage that has a record.
Result<std::optional<RevisionRecord>> newest_of(const StateView& view, const Lineage& lineage);
Result<std::optional<Runner>> find_runner(const StateView& view, const Identity& identity);
/// The last access that was kept: the release of a lease, or the last renewal of one that expired.
Result<std::optional<Access>> find_access(const StateView& view, const Identity& identity);
/// Instants of several epochs, in order; {} is before all of them.
struct LastUse {
  std::uint64_t epoch_ordinal = 0;
  std::int64_t mono_ms = 0;
  auto operator<=>(const LastUse&) const = default;
};
/// The last access that was kept, or the last renewal of a lease that is there, whichever is later. {}: never leased.
Result<LastUse> last_use_of(const StateView& view, const Identity& identity);
/// When a lease of the state was granted or renewed last, by the clock of the state's epoch.
std::int64_t last_renewal_ms(const Lease& lease);
/// Whether a look shows a larger share hot than the record has, so that it makes the record name its memory, though the
/// one that it names may be there.
bool shows_more(const RevisionRecord& record, const Observation& seen);
/// Whether what was seen of a READY revision lies in another memory than the one of this boot that its record names,
/// and is not more, so that no look counts it either: nobody reads it. While an operation runs it is not stray, as a
/// rehydration adopts what lies in its memory, and a repair takes from it what the cold tier lacks.
bool is_stray(const RevisionRecord& record, const Observation& seen);
/// The operation of a record by its id: the active one or one that it retains; null: neither.
const Operation* find_operation(const RevisionRecord& record, std::string_view operation_id);
/// An operation with its record; while it runs, with its runner and the runner's progress. NOT_FOUND when no record
/// retains it.
struct OperationView {
  RevisionRecord record;
  Operation operation;
  std::optional<Runner> runner;
  // Filled in by who has a clock, and sees processes.
  std::int64_t runner_left_ms = 0;  ///< of its token
  bool runner_is_gone = false;      ///< its process provably is

  /// Whether a live process carries it out.
  bool is_being_run() const { return runner && !runner->token.empty() && runner_left_ms > 0 && !runner_is_gone; }
};
Result<OperationView> get_operation(const StateView& view, std::string_view operation_id);
/// Ordinal 0 and an empty name before the first epoch.
Result<EpochState> epoch_of(const StateView& view);
/// Every lease of a revision, expired ones too, by lease id.
Result<std::vector<Lease>> all_leases_of(const StateView& view, const Identity& identity);

/// A lease, writer or runner judged at `now`. When `now` is of an epoch that the state does not know yet, what was live
/// at the last known instant counts as re-armed now.
struct LeaseLife {
  bool live = false;
  std::int64_t left_ms = 0;
};
LeaseLife life_of(const Lease& lease, const EpochState& epoch, const Now& now);
LeaseLife life_of(const Writer& writer, const EpochState& epoch, const Now& now);
LeaseLife life_of(const Runner& runner, const EpochState& epoch, const Now& now);
/// Time since the writer's last renewal, as far as the epochs' clocks can tell.
std::int64_t idle_ms_of(const Writer& writer, const EpochState& epoch, const Now& now);
/// Live leases of a revision, by lease id.
Result<std::vector<Lease>> live_leases_of(const StateView& view, const Identity& identity, const Now& now);
/// Live leases of a tenant and namespace.
Result<std::vector<Lease>> live_leases_in(const StateView& view, std::string_view tenant_id,
                                          std::string_view namespace_id, const Now& now);

/// "3 live leases (alice, bob), the nearest expiry in 12s".
struct LiveLease {
  std::string_view holder;
  std::int64_t left_ms = 0;
};
std::string describe_leases(const std::vector<LiveLease>& leases);

struct ListQuery {
  std::string tenant_id;
  std::string namespace_id;
  std::optional<std::string> resource_id;
  std::vector<Availability> states;  ///< empty: READY and DEGRADED, or with `all` every state
  bool all = false;
  Labels labels;        ///< all must be there
  bool newest = false;  ///< the highest commit of each resource
  std::size_t limit = 100;
  std::string page_token;  ///< of this query, or empty
};
struct ListPage {
  std::vector<RevisionRecord> records;
  std::string next_page_token;  ///< empty: this was the last page
};
/// Order of commit, then the uncommitted by begin. A token is bound to its query (INVALID_ARGUMENT otherwise).
Result<ListPage> list_revisions(const StateView& view, const ListQuery& query);

}  // namespace steelyard::metadata
