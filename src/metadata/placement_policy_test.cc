// What policies ask for, and what --make-room takes, case by case.
#include "metadata/placement_policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

namespace steelyard::metadata {
namespace {

constexpr std::int64_t kCooldownMs = 300'000;
const LastUse kNow{2, 1'000'000};

Memory memory_of(std::uint64_t capacity, std::uint64_t used) {
  Memory memory;
  memory.instance = std::string(32, '1');
  memory.boot_id = "boot-a";
  memory.capacity_bytes = capacity;
  memory.used_bytes = used;
  return memory;
}

/// HOT with one replica of its own, used at `used_ms`.
PlacedRevision hot(const std::string& name, std::uint64_t bytes, std::int64_t used_ms,
                   PolicyMode mode = PolicyMode::kAuto, Residency prefer = Residency::kHot) {
  PlacedRevision revision;
  RevisionRecord& record = revision.record;
  record.identity = {{"t", "n", name, "main"}, 1};
  record.availability = Availability::kReady;
  record.metadata_generation = 7;
  record.summary.payload_count = 3;
  record.residency = Residency::kHot;
  record.hot_instance = std::string(32, '1');
  record.hot_boot_id = "boot-a";
  record.policy = {prefer, {}, mode};
  if (prefer == Residency::kMixed) record.policy.ratio_millionths = 500'000;
  revision.last_use = {2, used_ms};
  revision.cold_whole = true;
  revision.hot = {{std::hash<std::string>()(name), bytes}};
  revision.hot_members = 3;
  revision.hot_bytes = bytes;
  return revision;
}

PlacedRevision cold(const std::string& name, std::uint64_t bytes, PolicyMode mode = PolicyMode::kAuto,
                    Residency prefer = Residency::kHot) {
  PlacedRevision revision = hot(name, bytes, 0, mode, prefer);
  revision.record.residency = Residency::kCold;
  revision.record.hot_instance.clear();
  revision.record.hot_boot_id.clear();
  revision.hot.clear();
  revision.hot_members = revision.hot_bytes = 0;
  revision.promotion_bytes = bytes;
  return revision;
}

PlacedRevision read_now(PlacedRevision revision) {
  revision.leased = true;
  revision.last_use = kNow;
  return revision;
}

/// "evict a COLD 10", ...
std::vector<std::string> told(const std::vector<Move>& moves) {
  std::vector<std::string> out;
  for (const Move& move : moves) {
    out.push_back((move.kind == OperationKind::kEvicting ? "evict " : "rehydrate ") +
                  move.identity.lineage.resource_id + " " + std::string(name_of(move.target)) + " " +
                  std::to_string(move.bytes));
  }
  return out;
}

std::vector<std::string> asked(const std::vector<PlacedRevision>& revisions, const Memory& memory) {
  return told(moves_of(revisions, memory, kNow, kCooldownMs).moves);
}

using Told = std::vector<std::string>;

TEST(Policy, PromotesWhatIsRead) {
  EXPECT_EQ(asked({cold("a", 40)}, memory_of(100, 0)), Told{}) << "nobody reads it";
  EXPECT_EQ(asked({read_now(cold("a", 40))}, memory_of(100, 0)), (Told{"rehydrate a HOT 40"}));
  EXPECT_EQ(asked({read_now(cold("a", 40))}, memory_of(100, 50)), (Told{"rehydrate a HOT 40"})) << "90 is not above 90";
  EXPECT_EQ(asked({read_now(cold("a", 40))}, memory_of(100, 51)), Told{});
  EXPECT_EQ(asked({read_now(cold("a", 91))}, memory_of(100, 0)), Told{});
  EXPECT_EQ(asked({read_now(cold("a", 40, PolicyMode::kAuto, Residency::kCold))}, memory_of(100, 0)), Told{});
  EXPECT_EQ(asked({read_now(cold("a", 40, PolicyMode::kManual))}, memory_of(100, 0)), Told{});
  EXPECT_EQ(asked({read_now(cold("a", 20, PolicyMode::kAuto, Residency::kMixed))}, memory_of(100, 0)),
            (Told{"rehydrate a MIXED 20"}));
  EXPECT_EQ(moves_of(std::vector{read_now(cold("a", 20, PolicyMode::kAuto, Residency::kMixed))}, memory_of(100, 0),
                     kNow, kCooldownMs)
                .moves[0]
                .ratio_millionths,
            500'000U);
}

TEST(Policy, WhatWasReadAMomentAgoComesWhereThereIsRoom) {
  const auto read = [](PlacedRevision revision, std::int64_t used_ms) {
    revision.last_use = {2, used_ms};
    return revision;
  };
  const std::int64_t lately = kNow.mono_ms - kCooldownMs + 1;
  EXPECT_EQ(asked({read(cold("a", 40), lately)}, memory_of(100, 50)), (Told{"rehydrate a HOT 40"}));
  EXPECT_EQ(asked({read(cold("a", 40), lately - 1)}, memory_of(100, 50)), Told{}) << "too long ago";
  PlacedRevision before = read(cold("a", 40), lately);
  before.last_use.epoch_ordinal = 1;
  EXPECT_EQ(asked({before}, memory_of(100, 0)), Told{}) << "in another boot";
  EXPECT_EQ(asked({read(cold("a", 40), lately), hot("idle", 60, 1)}, memory_of(100, 60)), Told{})
      << "nothing goes for who has left";
  EXPECT_EQ(asked({read_now(cold("a", 40)), hot("idle", 60, 1)}, memory_of(100, 60)),
            (Told{"evict idle COLD 60", "rehydrate a HOT 40"}));
  EXPECT_EQ(asked({read(cold("a", 40), lately), read_now(cold("b", 60))}, memory_of(100, 0)),
            (Told{"rehydrate b HOT 60"}))
      << "who waits comes first";

  // What went under pressure stays away for the use that it had before, and after the next one for a while.
  PlacedRevision gone = read(cold("a", 40), kNow.mono_ms - 20'000);
  Operation eviction;
  eviction.kind = OperationKind::kEvicting;
  eviction.state = OperationState::kDone;
  eviction.ended_epoch_ordinal = 2;
  eviction.ended_mono_ms = kNow.mono_ms - 10'000;
  gone.record.finished_operations = {eviction};
  EXPECT_EQ(asked({gone}, memory_of(100, 0)), Told{});
  gone.last_use.mono_ms = kNow.mono_ms - 5'000;
  EXPECT_EQ(asked({gone}, memory_of(100, 0)), Told{});
  gone.record.finished_operations[0].ended_mono_ms = kNow.mono_ms - kCooldownMs;
  EXPECT_EQ(asked({gone}, memory_of(100, 0)), (Told{"rehydrate a HOT 40"}));
}

TEST(Policy, WhatIsNotPlannedIsNotBrought) {
  PlacedRevision other = read_now(cold("a", 40));
  other.promotion_bytes.reset();
  EXPECT_EQ(asked({other, read_now(cold("b", 90))}, memory_of(100, 0)), (Told{"rehydrate b HOT 90"}));
  const auto may = [](const PlacedRevision& revision) {
    return may_be_brought(revision, memory_of(100, 0), kNow, kCooldownMs);
  };
  EXPECT_TRUE(may(read_now(cold("a", 1))));
  EXPECT_TRUE(may(cold("a", 1, PolicyMode::kPinned)));
  EXPECT_FALSE(may(cold("a", 1)));
  EXPECT_FALSE(may(read_now(hot("a", 1, 0))));
  EXPECT_FALSE(may(read_now(cold("a", 1, PolicyMode::kManual))));
}

TEST(Policy, WhoIsReadAndHasNoRoomIsNamed) {
  const std::vector<PlacedRevision> revisions{read_now(cold("a", 40)), cold("p", 50, PolicyMode::kPinned)};
  const PolicyPlan plan = moves_of(revisions, memory_of(100, 60), kNow, kCooldownMs);
  EXPECT_TRUE(plan.moves.empty());
  EXPECT_EQ(told(plan.stay_cold), (Told{"rehydrate a HOT 40"}));
  EXPECT_EQ(told(plan.without_room), (Told{"rehydrate p HOT 50"}));
}

TEST(Policy, AMixedPreferenceIsAPlan) {
  PlacedRevision mixed = read_now(hot("a", 30, 0, PolicyMode::kAuto, Residency::kMixed));
  mixed.record.residency = Residency::kMixed;
  mixed.record.hot_millionths = 333'333;
  mixed.promotion_bytes = 20;
  EXPECT_EQ(asked({mixed}, memory_of(100, 30)), Told{}) << "as far as is known it is where it should be";
  mixed.plan_millionths = 333'333;
  EXPECT_EQ(asked({mixed}, memory_of(100, 30)), Told{});
  mixed.plan_millionths = 500'000;
  EXPECT_EQ(asked({mixed}, memory_of(100, 30)), (Told{"rehydrate a MIXED 20"}));
  mixed.plan_millionths = 200'000;
  EXPECT_EQ(asked({mixed}, memory_of(100, 30)), Told{}) << "AUTO gets colder under pressure alone";
  mixed.record.policy.mode = PolicyMode::kPinned;
  mixed.leased = false;
  EXPECT_EQ(asked({mixed}, memory_of(100, 30)), (Told{"evict a MIXED 0"}));
}

TEST(Policy, UnderPressureTheOldestUseGoesFirstThenTheLargest) {
  const std::vector<PlacedRevision> revisions{hot("new", 20, 900), hot("old", 20, 100), hot("small", 5, 500),
                                              hot("large", 30, 500)};
  EXPECT_EQ(asked(revisions, memory_of(100, 90)), Told{}) << "not above the high watermark";
  EXPECT_EQ(asked(revisions, memory_of(100, 95)), (Told{"evict old COLD 20"})) << "down to 80";
  EXPECT_EQ(asked(revisions, memory_of(100, 101)), (Told{"evict old COLD 20", "evict large COLD 30"}));
  PlacedRevision before = hot("before", 1, 99'999);
  before.last_use.epoch_ordinal = 1;
  EXPECT_EQ(asked({before, hot("old", 100, 100)}, memory_of(100, 91)),
            (Told{"evict before COLD 1", "evict old COLD 100"}))
      << "another boot is older";
}

TEST(Policy, WhoIsLeftAlone) {
  const auto alone = [](PlacedRevision revision) { return asked({std::move(revision)}, memory_of(100, 99)); };
  ASSERT_EQ(alone(hot("a", 50, 1)).size(), 1U);
  EXPECT_EQ(alone(read_now(hot("a", 50, 1))), Told{});
  EXPECT_EQ(alone(hot("a", 50, 1, PolicyMode::kManual)), Told{});
  EXPECT_EQ(alone(hot("a", 50, 1, PolicyMode::kPinned)), Told{});
  PlacedRevision changed = hot("a", 50, 1);
  changed.cold_whole = false;
  EXPECT_EQ(alone(changed), Told{});
  changed = hot("a", 50, 1);
  changed.record.availability = Availability::kDegraded;
  EXPECT_EQ(alone(changed), Told{});
  changed = hot("a", 50, 1);
  changed.record.operation = Operation{};
  EXPECT_EQ(alone(changed), Told{});
  changed = hot("a", 50, 1);
  changed.record.hot_instance = std::string(32, '2');
  EXPECT_EQ(alone(changed), Told{}) << "another instance of this boot";
  changed.record.hot_instance = std::string(24, '1') + std::string(8, '2');
  EXPECT_EQ(alone(changed), Told{"evict a COLD 50"}) << "it lay in the folder that has the one of today";
  changed.record.hot_instance = std::string(32, '2');
  changed.record.hot_boot_id = "boot-z";
  EXPECT_EQ(alone(changed), Told{"evict a COLD 50"}) << "what lies here is not what its record names";
  changed.hot.clear();
  EXPECT_EQ(alone(changed), Told{}) << "nothing of it is here";
  changed = read_now(std::move(changed));
  changed.promotion_bytes = 10;
  EXPECT_EQ(asked({changed}, memory_of(100, 10)), (Told{"rehydrate a HOT 10"}))
      << "its hot replicas went with the boot";
}

TEST(Policy, WhatLayInAnInstanceThatWasReplacedComesBack) {
  const Memory memory = memory_of(100, 10);
  PlacedRevision wiped = hot("a", 50, 1, PolicyMode::kPinned);
  wiped.hot.clear();
  wiped.promotion_bytes = 50;
  wiped.record.hot_instance = std::string(23, '1') + std::string(9, '2');
  EXPECT_EQ(asked({wiped}, memory), Told{}) << "made in another folder, where it may still be";
  wiped.record.hot_instance = std::string(24, '1') + std::string(8, '2');
  EXPECT_EQ(asked({wiped}, memory), Told{"rehydrate a HOT 50"}) << "made in the folder that has another one now";
  wiped.record.policy.mode = PolicyMode::kAuto;
  EXPECT_EQ(asked({wiped}, memory), Told{});
  EXPECT_EQ(asked({read_now(wiped)}, memory), Told{"rehydrate a HOT 50"});
  wiped.record.operation = Operation{};
  EXPECT_EQ(asked({read_now(wiped)}, memory), Told{});
}

TEST(Policy, AMoveIsFollowedByACoolDown) {
  Operation last;
  last.kind = OperationKind::kRehydrating;
  last.state = OperationState::kFailed;
  last.ended_epoch_ordinal = 2;
  last.ended_mono_ms = kNow.mono_ms - kCooldownMs + 1;
  PlacedRevision revision = hot("a", 50, 1);
  revision.record.finished_operations = {last};
  EXPECT_EQ(asked({revision}, memory_of(100, 99)), Told{});
  PlacedRevision promoted = read_now(cold("a", 50));
  promoted.record.finished_operations = {last};
  EXPECT_EQ(asked({promoted}, memory_of(100, 0)), Told{});
  EXPECT_EQ(told(moves_of(std::vector{promoted}, memory_of(100, 0), kNow, kCooldownMs).cooling),
            (Told{"rehydrate a HOT 50"}))
      << "who reads it can be told";
  EXPECT_TRUE(moves_of(std::vector{revision}, memory_of(100, 0), kNow, kCooldownMs).cooling.empty());
  --revision.record.finished_operations[0].ended_mono_ms;
  EXPECT_EQ(asked({revision}, memory_of(100, 99)).size(), 1U);
  revision.record.finished_operations[0] = last;
  revision.record.finished_operations[0].ended_epoch_ordinal = 1;
  EXPECT_EQ(asked({revision}, memory_of(100, 99)).size(), 1U) << "that was before the boot";
  revision.record.finished_operations[0] = last;
  revision.record.finished_operations[0].kind = OperationKind::kRepairing;
  EXPECT_EQ(asked({revision}, memory_of(100, 99)).size(), 1U) << "a repair is no move";
}

TEST(Policy, WhatIsReadTakesTheRoomOfWhatIsIdle) {
  const std::vector<PlacedRevision> revisions{hot("older", 30, 100), hot("newer", 30, 200), read_now(cold("a", 40))};
  EXPECT_EQ(asked(revisions, memory_of(100, 60)), (Told{"evict older COLD 30", "rehydrate a HOT 40"}));
  EXPECT_EQ(asked({read_now(hot("older", 30, 100)), read_now(cold("a", 70))}, memory_of(100, 30)), Told{})
      << "and nothing goes when that would not be enough";
  EXPECT_EQ(asked({hot("older", 5, 100), read_now(hot("b", 30, 1)), read_now(cold("a", 70))}, memory_of(100, 35)),
            Told{});
}

TEST(Policy, AMoveSaysForWhomRoomIsMade) {
  const auto why = [](const PlacedRevision& wanted) {
    return moves_of(std::vector{wanted, hot("idle", 60, 1)}, memory_of(100, 60), kNow, kCooldownMs).moves[0].why;
  };
  EXPECT_EQ(why(read_now(cold("a", 40))), "room is made for what is read now");
  EXPECT_EQ(why(cold("a", 40, PolicyMode::kPinned)), "room is made for what is pinned");
}

TEST(Policy, TheFirstCoolDownToEndIsToBeWaitedFor) {
  const auto again = [](const std::vector<PlacedRevision>& revisions) {
    return moves_of(revisions, memory_of(100, 0), kNow, kCooldownMs).again_at_mono_ms;
  };
  const auto moved = [](PlacedRevision revision, std::int64_t ended_mono_ms) {
    Operation operation;
    operation.kind = OperationKind::kRehydrating;
    operation.state = OperationState::kDone;
    operation.ended_epoch_ordinal = kNow.epoch_ordinal;
    operation.ended_mono_ms = ended_mono_ms;
    revision.record.finished_operations.push_back(operation);
    return revision;
  };
  EXPECT_EQ(again({hot("a", 10, 1)}), std::nullopt);
  EXPECT_EQ(again({moved(hot("a", 10, 1), kNow.mono_ms - 10), moved(hot("b", 10, 1), kNow.mono_ms - 20)}),
            kNow.mono_ms - 20 + kCooldownMs);
  EXPECT_EQ(again({moved(hot("a", 10, 1, PolicyMode::kPinned), kNow.mono_ms - 10)}), std::nullopt) << "it has none";
  EXPECT_EQ(again({moved(hot("a", 10, 1), kNow.mono_ms - kCooldownMs)}), std::nullopt) << "it is over";
}

TEST(Policy, PinnedGoesWhereItIsPinned) {
  EXPECT_EQ(asked({cold("a", 40, PolicyMode::kPinned)}, memory_of(100, 0)), (Told{"rehydrate a HOT 40"}));
  EXPECT_EQ(asked({cold("a", 40, PolicyMode::kPinned, Residency::kCold)}, memory_of(100, 0)), Told{});
  const auto warm = hot("a", 40, 1, PolicyMode::kPinned, Residency::kCold);
  EXPECT_EQ(asked({warm}, memory_of(100, 40)), (Told{"evict a COLD 40"}));
  EXPECT_EQ(asked({read_now(warm)}, memory_of(100, 40)), Told{});
  EXPECT_EQ(asked({hot("a", 40, 1, PolicyMode::kPinned, Residency::kMixed)}, memory_of(100, 40)),
            (Told{"evict a MIXED 0"}));
  // Before what is only read; and its room counts for the others.
  EXPECT_EQ(asked({read_now(cold("a", 60)), cold("b", 50, PolicyMode::kPinned)}, memory_of(100, 0)),
            (Told{"rehydrate b HOT 50"}));
  EXPECT_EQ(asked({warm, read_now(cold("b", 80))}, memory_of(100, 40)),
            (Told{"evict a COLD 40", "rehydrate b HOT 80"}));
}

TEST(Policy, APinWithoutRoomWaits) {
  const auto waiting = [](const std::vector<PlacedRevision>& revisions, std::uint64_t used) {
    return told(moves_of(revisions, memory_of(100, used), kNow, kCooldownMs).without_room);
  };
  const PlacedRevision pin = cold("pin", 40, PolicyMode::kPinned);
  EXPECT_EQ(waiting({pin}, 50), Told{});
  EXPECT_EQ(waiting({pin}, 51), (Told{"rehydrate pin HOT 40"}));
  EXPECT_EQ(waiting({cold("large", 91, PolicyMode::kPinned)}, 0), (Told{"rehydrate large HOT 91"}));
  EXPECT_EQ(waiting({pin, hot("idle", 20, 1)}, 60), Told{}) << "it takes that room";
  EXPECT_EQ(waiting({read_now(cold("read", 91))}, 0), Told{}) << "AUTO is no promise";
}

TEST(Policy, WhatHasNoObjectsIsNeverAsked) {
  PlacedRevision empty = cold("a", 0, PolicyMode::kPinned);
  empty.record.summary.payload_count = 0;
  EXPECT_EQ(asked({empty}, memory_of(100, 0)), Told{});
}

TEST(Room, WhatARecordDoesNotKnowYetCanBeFreed) {
  PlacedRevision left = hot("left", 40, 1);
  left.record.residency = Residency::kCold;
  left.record.hot_instance.clear();
  left.record.hot_boot_id.clear();
  const RoomPlan plan = make_room(std::vector{left}, memory_of(100, 40), cold("whom", 1).record.identity, 30);
  EXPECT_EQ(told(plan.evictions), (Told{"evict left COLD 40"}));
}

TEST(Room, TheLeastRecentlyUsedThatAreNeeded) {
  const Identity whom = cold("whom", 1).record.identity;
  const auto room = [&](const std::vector<PlacedRevision>& revisions, std::uint64_t wanted) {
    return make_room(revisions, memory_of(100, 90), whom, wanted);
  };
  const std::vector<PlacedRevision> revisions{hot("c", 30, 300, PolicyMode::kManual), hot("a", 10, 100),
                                              hot("b", 20, 200), hot("pinned", 30, 1, PolicyMode::kPinned)};
  EXPECT_EQ(told(room(revisions, 1).evictions), (Told{"evict a COLD 10"}));
  EXPECT_EQ(told(room(revisions, 11).evictions), (Told{"evict a COLD 10", "evict b COLD 20"}));
  EXPECT_EQ(told(room(revisions, 30).evictions), (Told{"evict a COLD 10", "evict b COLD 20"}));
  EXPECT_EQ(room(revisions, 30).freed_bytes, 30U);
  const RoomPlan none = room(revisions, 61);
  EXPECT_FALSE(none.enough);
  EXPECT_EQ(told(none.evictions), Told{});
  EXPECT_EQ(none.possible_bytes, 60U);
  EXPECT_EQ(none.held_by_leases_bytes, 0U);
  EXPECT_TRUE(room(revisions, 0).enough);

  const RoomPlan held = room({read_now(hot("a", 40, 1)), hot("b", 10, 1)}, 20);
  EXPECT_FALSE(held.enough);
  EXPECT_EQ(held.possible_bytes, 10U);
  EXPECT_EQ(held.held_by_leases_bytes, 40U);
  EXPECT_FALSE(room({hot("whom", 40, 1)}, 1).enough) << "not its own";
  EXPECT_TRUE(room({hot("a", 40, 1, PolicyMode::kPinned, Residency::kCold)}, 1).enough);
}

TEST(Room, WhatIsLeavingAlreadyGoesFirst) {
  const Identity whom = cold("whom", 1).record.identity;
  PlacedRevision leaving = hot("leaving", 10, 900);
  leaving.record.operation.emplace();
  leaving.record.operation->kind = OperationKind::kEvicting;
  leaving.record.operation->target = Residency::kCold;
  leaving.record.operation->hot_instance = std::string(32, '1');
  const auto room = [&](std::uint64_t wanted) {
    return told(make_room(std::vector{hot("old", 10, 1), leaving}, memory_of(100, 90), whom, wanted).evictions);
  };
  EXPECT_EQ(room(10), (Told{"evict leaving COLD 10"}));
  EXPECT_EQ(room(11), (Told{"evict leaving COLD 10", "evict old COLD 10"}));
  // Its first removal was permitted, so the record counts nothing hot any more.
  leaving.record.residency = Residency::kCold;
  leaving.record.hot_instance.clear();
  EXPECT_EQ(room(10), (Told{"evict leaving COLD 10"}));
  leaving.record.operation->hot_instance = std::string(32, '2');
  EXPECT_EQ(room(10), (Told{"evict old COLD 10"})) << "in a memory that is not mounted here";
  leaving.record.operation->hot_instance = std::string(32, '1');
  leaving.record.operation->target = Residency::kMixed;
  EXPECT_EQ(room(10), (Told{"evict old COLD 10"})) << "what its ratio keeps stays";
  leaving.record.operation->kind = OperationKind::kRepairing;
  leaving.record.operation->target = Residency::kCold;
  EXPECT_EQ(room(10), (Told{"evict old COLD 10"}));
}

TEST(Room, WhatNoRecordCountsGoesFirst) {
  const Identity whom = cold("whom", 1).record.identity;
  PlacedRevision stray = read_now(hot("stray", 10, 900, PolicyMode::kPinned));
  stray.record.hot_instance = std::string(32, '2');
  const auto room = [&](std::uint64_t wanted) {
    return told(make_room(std::vector{hot("old", 10, 1), stray}, memory_of(100, 90), whom, wanted).evictions);
  };
  EXPECT_EQ(room(10), (Told{"evict stray COLD 10"})) << "whoever reads it reads nothing of it here";
  EXPECT_EQ(room(11), (Told{"evict stray COLD 10", "evict old COLD 10"}));
  stray.cold_whole = false;
  EXPECT_EQ(room(10), (Told{"evict old COLD 10"})) << "a repair may need it";
  stray.cold_whole = true;
  stray.record.operation.emplace();
  EXPECT_EQ(room(10), (Told{"evict old COLD 10"})) << "it may be about to be adopted";
  stray.record.operation.reset();
  EXPECT_FALSE(make_room(std::vector{stray}, memory_of(100, 90), stray.record.identity, 1).enough) << "not its own";
}

TEST(Room, WhatNoRecordCountsGoesBeforeWhatIsLeaving) {
  PlacedRevision leaving = hot("leaving", 10, 1);
  leaving.record.operation.emplace();
  leaving.record.operation->kind = OperationKind::kEvicting;
  leaving.record.operation->target = Residency::kCold;
  leaving.record.operation->hot_instance = leaving.record.hot_instance;
  PlacedRevision stray = hot("stray", 10, 900);
  stray.record.hot_instance = std::string(32, '2');
  const RoomPlan plan = make_room(std::vector{leaving, stray}, memory_of(100, 90), cold("whom", 1).record.identity, 11);
  EXPECT_EQ(told(plan.evictions), (Told{"evict stray COLD 10", "evict leaving COLD 10"}));
}

TEST(Room, WhatIsMoreThanTheRecordCountsIsOneLikeAnyOther) {
  const Identity whom = cold("whom", 1).record.identity;
  const auto more_here = [](PolicyMode mode) {
    PlacedRevision more = hot("more", 10, 900, mode);
    more.record.hot_instance = std::string(32, '2');
    more.record.residency = Residency::kMixed;
    more.record.hot_millionths = 400'000;
    return more;
  };
  const auto room = [&](const PlacedRevision& more) {
    return make_room(std::vector{hot("old", 10, 1), more}, memory_of(100, 90), whom, 11);
  };
  EXPECT_EQ(told(room(more_here(PolicyMode::kManual)).evictions), (Told{"evict old COLD 10", "evict more COLD 10"}));
  const RoomPlan pinned = room(more_here(PolicyMode::kPinned));
  EXPECT_FALSE(pinned.enough);
  EXPECT_TRUE(pinned.evictions.empty());
  const RoomPlan leased = room(read_now(more_here(PolicyMode::kManual)));
  EXPECT_FALSE(leased.enough);
  EXPECT_EQ(leased.held_by_leases_bytes, 10U);
  PlacedRevision moving = more_here(PolicyMode::kManual);
  moving.record.operation.emplace();
  EXPECT_FALSE(room(moving).enough);
}

TEST(Room, WhatWasJustMadeHotIsNotTheFirstToGo) {
  PlacedRevision imported = hot("imported", 10, 0);
  imported.last_use = {};
  Operation made;
  made.kind = OperationKind::kRehydrating;
  made.state = OperationState::kDone;
  made.ended_epoch_ordinal = 2;
  made.ended_mono_ms = 500;
  imported.record.finished_operations = {made};
  const RoomPlan plan =
      make_room(std::vector{imported, hot("used", 10, 400)}, memory_of(100, 20), cold("whom", 1).record.identity, 5);
  EXPECT_EQ(told(plan.evictions), (Told{"evict used COLD 10"}));
}

TEST(Room, SharedBytesGoWithTheLastOfTheirHolders) {
  PlacedRevision a = hot("a", 0, 100);
  PlacedRevision b = hot("b", 0, 200);
  PlacedRevision c = hot("c", 0, 300);
  a.hot = {{1, 40}, {2, 1}};
  b.hot = {{1, 40}, {3, 5}};
  c.hot = {{4, 50}};
  const Identity whom = cold("whom", 1).record.identity;
  const Memory memory = memory_of(100, 96);
  EXPECT_EQ(told(make_room(std::vector{a, b, c}, memory, whom, 6).evictions),
            (Told{"evict a COLD 1", "evict b COLD 45"}));
  EXPECT_EQ(told(make_room(std::vector{a, read_now(b), c}, memory, whom, 6).evictions),
            (Told{"evict a COLD 1", "evict c COLD 50"}));
  a.hot = {{1, 40}};
  EXPECT_EQ(told(make_room(std::vector{a, read_now(b), c}, memory, whom, 6).evictions), (Told{"evict c COLD 50"}))
      << "a would free nothing";
  a.hot = {{1, 40}, {2, 1}};
  EXPECT_EQ(make_room(std::vector{a, read_now(b)}, memory, whom, 6).possible_bytes, 1U);
  EXPECT_EQ(make_room(std::vector{a, read_now(b)}, memory, whom, 6).held_by_leases_bytes, 45U);
}

/// Random memories: what is freed is what a plain count says, nobody goes for nothing, and nobody who reads goes.
TEST(Room, AgainstAPlainCount) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 500; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    std::vector<PlacedRevision> revisions;
    for (std::uint64_t i = 0, n = 1 + random() % 6; i < n; ++i) {
      PlacedRevision revision = hot("r" + std::to_string(i), 0, static_cast<std::int64_t>(random() % 3));
      revision.hot.clear();
      std::set<std::uint64_t> of;
      for (std::uint64_t k = 0; k < 4; ++k) of.insert(random() % 8);
      for (const std::uint64_t storage : of) revision.hot.push_back({storage, 1 + storage * 3});
      revision.leased = random() % 4 == 0;
      revisions.push_back(std::move(revision));
    }
    const auto freed_without = [&](const std::set<std::string>& gone) {
      std::set<std::uint64_t> all;
      std::set<std::uint64_t> kept;
      for (const PlacedRevision& revision : revisions) {
        for (const HotReplica& replica : revision.hot) {
          all.insert(replica.storage);
          if (!gone.contains(revision.record.identity.lineage.resource_id)) kept.insert(replica.storage);
        }
      }
      std::uint64_t bytes = 0;
      for (const std::uint64_t storage : all) bytes += kept.contains(storage) ? 0 : 1 + storage * 3;
      return bytes;
    };
    const std::uint64_t wanted = 1 + random() % 60;
    const RoomPlan plan = make_room(revisions, memory_of(1'000, 500), cold("whom", 1).record.identity, wanted);
    std::set<std::string> idle;
    for (const auto& revision : revisions) {
      if (!revision.leased) idle.insert(revision.record.identity.lineage.resource_id);
    }
    EXPECT_EQ(plan.possible_bytes, freed_without(idle));
    EXPECT_EQ(plan.enough, freed_without(idle) >= wanted);
    if (!plan.enough) continue;
    std::set<std::string> gone;
    std::uint64_t sum = 0;
    for (const Move& move : plan.evictions) {
      const std::string& name = move.identity.lineage.resource_id;
      EXPECT_TRUE(idle.contains(name));
      const std::uint64_t before = freed_without(gone);
      gone.insert(name);
      EXPECT_EQ(move.bytes, freed_without(gone) - before);
      sum += move.bytes;
    }
    EXPECT_EQ(plan.freed_bytes, sum);
    EXPECT_GE(sum, wanted);
    for (const std::string& name : gone) {
      std::set<std::string> fewer = gone;
      fewer.erase(name);
      EXPECT_LT(freed_without(fewer), sum) << name << " goes for nothing";
    }
  }
}

}  // namespace
}  // namespace steelyard::metadata
