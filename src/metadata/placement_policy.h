// Where revisions should be: the moves that their policies ask for, and what to evict to make room. Pure functions of
// records, use and time; the store carries out what they return, through the revisions' own lifecycle.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "metadata/rules.h"

namespace steelyard::metadata {

/// A replica in memory. Replicas that share their bytes have the same `storage`.
struct HotReplica {
  std::uint64_t storage = 0;
  std::uint64_t bytes = 0;
};

/// A revision, and what the policies need to know of it.
struct PlacedRevision {
  RevisionRecord record;
  bool leased = false;  ///< a lease lives: somebody reads it now
  LastUse last_use;
  bool cold_whole = false;        ///< every member has a cold replica, as far as is known
  std::vector<HotReplica> hot;    ///< its replicas in the mounted memory instance
  std::uint64_t hot_members = 0;  ///< its objects there, as a look counts them: of its committed attempt, each once
  std::uint64_t hot_bytes = 0;    ///< of these
  /// What the set that its policy prefers would add to memory; absent: it is not to be brought there now.
  std::optional<std::uint64_t> promotion_bytes;
  std::optional<std::uint32_t> plan_millionths;  ///< MixedPlan::hot_millionths of a policy that prefers MIXED
};

/// The mounted memory instance.
struct Memory {
  std::string instance;
  std::string boot_id;
  std::uint64_t capacity_bytes = 0;                   ///< that can be used: less where another limit is in the way
  std::uint64_t used_bytes = 0;                       ///< or claimed
  std::uint32_t high_watermark_millionths = 900'000;  ///< of the capacity: above it room is made
  std::uint32_t low_watermark_millionths = 800'000;   ///< down to here
};

/// One operation to start.
struct Move {
  Identity identity;
  std::uint64_t expected_metadata_generation = 0;
  OperationKind kind = OperationKind::kEvicting;
  Residency target = Residency::kCold;
  std::optional<std::uint32_t> ratio_millionths;
  std::uint64_t bytes = 0;  ///< that come into memory, or leave it when the moves before it were made
  std::string why;          ///< for the operation's message
  bool operator==(const Move&) const = default;
};

/// What the policies ask for.
struct PolicyPlan {
  std::vector<Move> moves;                       ///< in the order in which they are to be done
  std::vector<Move> without_room;                ///< of pinned revisions, that wait: what stays leaves no room for them
  std::vector<Move> stay_cold;                   ///< of AUTO ones that somebody reads now: the same
  std::vector<Move> cooling;                     ///< of AUTO ones that somebody reads now: after their cool-down
  std::optional<std::int64_t> again_at_mono_ms;  ///< the first cool-down ends then, and the plan may be another
};

/// What the policies ask for now.
///
/// PINNED: a move towards the preference whenever the revision is elsewhere and, to make it colder, nobody reads it.
/// AUTO: towards a warmer preference while somebody reads it (this is what promotes on access), if it fits below the
/// high watermark, or does once idle AUTO revisions are evicted. One that nobody reads any more, but somebody did less
/// than `cooldown_ms` ago, comes if it fits, and nothing goes for it. Above the high watermark idle ones are evicted
/// down to the low one, the oldest use first, then the largest. A revision whose last move ended less than
/// `cooldown_ms` ago is not moved, so what went under pressure does not come back for the use that it had before.
/// MANUAL: never. Nothing is asked of a revision with an operation, of one that is not READY, or of one whose replicas
/// lie in a memory instance of this boot that is not mounted here.
PolicyPlan moves_of(std::span<const PlacedRevision> revisions, const Memory& memory, const LastUse& now,
                    std::int64_t cooldown_ms);

/// Whether moves_of wants to know the revision's promotion_bytes and plan_millionths.
bool may_be_brought(const PlacedRevision& revision, const Memory& memory, const LastUse& now, std::int64_t cooldown_ms);

/// What `--make-room` evicts.
struct RoomPlan {
  std::vector<Move> evictions;    ///< in order; empty when not enough could be freed
  std::uint64_t freed_bytes = 0;  ///< by all of them together
  bool enough = false;
  std::uint64_t possible_bytes = 0;        ///< freed if everything idle were evicted: what an error names
  std::uint64_t held_by_leases_bytes = 0;  ///< that evicting would free too, were it not for leases
  std::vector<Identity> held_by_leases;    ///< whose they are: the oldest use first
};

/// Chooses evictions that free at least `wanted_bytes` for `for_whom`: revisions of any mode but those pinned to be
/// hot, READY, idle, whole in the cold tier; first those whose eviction was begun, then the least recently used, then
/// the largest, none that frees nothing. Before all of them, whatever their policy and whoever reads them, those of
/// which something is stray here (is_stray). What is more here than in the memory that its record names is one like any
/// other: its eviction publishes it first. Bytes that a revision which stays keeps in memory do not count.
RoomPlan make_room(std::span<const PlacedRevision> revisions, const Memory& memory, const Identity& for_whom,
                   std::uint64_t wanted_bytes);

}  // namespace steelyard::metadata
