// Policies and room that is made, where a test holds the parts of the store in its hands.
#include "store/policies.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "store/make_room.h"
#include "store/placement.h"
#include "store/test_hot_store.h"
#include "store/verify.h"

namespace steelyard::store {
namespace {

using metadata::PolicyMode;

class PoliciesTest : public HotStoreTest {
 protected:
  /// Another revision, with bytes of its own.
  metadata::Identity import_other(const std::string& resource, char fill) {
    return import_file(resource, std::string(kObjects * kMiB, fill) + resource, 4 * kMiB);
  }
  /// Up to what brings it there.
  Result<ImportResult> import_into_memory(const std::string& folder, const std::string& resource) {
    ImportRequest request;
    request.source = root_.path() + "/" + folder;
    request.target.ref = {resource, "main", std::nullopt};
    request.chunk_bytes = kMiB;
    request.into_memory = true;
    const auto source = open_source(request.source, false).value();
    progress_.phases.clear();
    return run_import(*context_, request, *source, progress_, cancel_);
  }
  class Phases final : public Observer {
   public:
    void progress(const Progress& progress) override { phases.insert(progress.phase); }
    void warning(const std::string& /*message*/) override {}
    std::set<std::string> phases;
  };
  metadata::RevisionRecord record_of(const metadata::Identity& identity) {
    return catalog_->get_weight_revision(identity).value();
  }
  Result<ResidencyResult> rehydrate(const metadata::Identity& identity, bool room = false) {
    ResidencyRequest request;
    request.target = {identity.lineage.tenant_id,
                      identity.lineage.namespace_id,
                      {identity.lineage.resource_id, identity.lineage.revision, identity.weight_generation}};
    request.make_room = room;
    return run_rehydrate(*context_, request, silent_, cancel_);
  }
  /// What comes next is used later than what was before.
  void later() {
    for (const std::int64_t now = runtime_.mono_ms(); runtime_.mono_ms() == now;) runtime_.sleep_ms(1);
  }

  Phases progress_;
};

TEST_F(PoliciesTest, APlacementHoldsOnlyWhatMayMove) {
  const auto pinned = import_other("pinned", 'p');
  import_other("cold", 'c');
  const auto now = catalog_->use_now().value();
  EXPECT_FALSE(find_placement_for(*context_, {}, now).value().has_value()) << "no policy moves anything";
  ASSERT_TRUE(rehydrate(identity_).ok());
  set_policy(pinned, PolicyMode::kPinned, Residency::kHot);
  const auto identities = [](const Placement& placement) {
    std::vector<metadata::Identity> found;
    for (const auto& placed : placement.revisions) found.push_back(placed.record.identity);
    return found;
  };
  EXPECT_EQ(identities(find_placement(*context_).value()), std::vector{identity_});
  EXPECT_EQ(identities(*find_placement_for(*context_, {}, now).value()), (std::vector{identity_, pinned}));
  EXPECT_EQ(identities(*find_placement_for(*context_, Asked({pinned}), now).value()), (std::vector{identity_, pinned}));
  EXPECT_FALSE(find_placement_for(*context_, Asked({identity_}), now).value().has_value()) << "it has no policy";
}

TEST_F(PoliciesTest, RoomIsMadeByEvictingWhatWasUsedLongestAgo) {
  use_capacity(10 * kMiB);
  const auto b = import_other("b", 'b');
  const auto c = import_other("c", 'c');
  ASSERT_TRUE(rehydrate(identity_).ok());
  ASSERT_TRUE(rehydrate(b).ok());
  release(lease(identity_));  // used after b
  const auto refused = rehydrate(c);
  EXPECT_EQ(refused.code(), Code::kNoSpace) << refused.status().to_string();
  EXPECT_NE(refused.status().message().find("evicting 1 idle revision would free 4.00MiB (b@main#1)"),
            std::string::npos)
      << refused.status().message();
  EXPECT_EQ(refused.status().hint(),
            "`steelyard rehydrate c@main#1 --make-room` evicts what is idle; or raise hot.capacity "
            "(--hot-capacity, STEELYARD_HOT_CAPACITY)");
  const auto done = rehydrate(c, true);
  ASSERT_TRUE(done.ok()) << done.status().to_string();
  EXPECT_EQ(done->evicted, std::vector<std::string>{"b@main#1"});
  EXPECT_EQ(record_of(b).residency, Residency::kCold);
  EXPECT_EQ(record_of(b).finished_operations.back().kind, metadata::OperationKind::kEvicting);
  EXPECT_EQ(record_of(identity_).residency, Residency::kHot);
  EXPECT_EQ(record_of(c).residency, Residency::kHot);
}

TEST_F(PoliciesTest, RoomIsMadeForWhatOthersBegan) {
  use_capacity(6 * kMiB);
  const auto c = import_other("c", 'c');
  const auto begin = [&] {
    ResidencyRequest request;
    request.target.ref = {"c", "main", 1};
    request.wait = false;
    ASSERT_TRUE(run_rehydrate(*context_, request, silent_, cancel_).ok());
  };
  begin();  // there is room, and it goes before somebody carries that out
  ASSERT_TRUE(rehydrate(identity_).ok());
  const auto refused = rehydrate(c);
  EXPECT_EQ(refused.code(), Code::kNoSpace) << refused.status().to_string();
  EXPECT_NE(refused.status().hint().find("--make-room"), std::string::npos) << refused.status().hint();
  EXPECT_EQ(record_of(c).finished_operations.back().state, metadata::OperationState::kFailed);
  ASSERT_TRUE(evict().ok());
  begin();
  ASSERT_TRUE(rehydrate(identity_).ok());
  const auto done = rehydrate(c, true);
  ASSERT_TRUE(done.ok()) << done.status().to_string();
  EXPECT_EQ(done->evicted, std::vector<std::string>{"m@main#1"});
  EXPECT_EQ(record_of(c).residency, Residency::kHot);
}

TEST_F(PoliciesTest, RoomIsMadeAgainWhereItGoesUnderWay) {
  use_capacity(10 * kMiB);
  const auto c = import_other("c", 'c');
  const auto b = import_other("b", 'b');
  ASSERT_TRUE(rehydrate(identity_).ok());
  // Another process's revision takes the room between the look and the claim.
  bool taken = false;
  runtime_.on("residency.after_start", [&] {
    if (std::exchange(taken, true)) return;
    ASSERT_TRUE(rehydrate(b).ok());
  });
  const auto done = rehydrate(c, true);
  ASSERT_TRUE(done.ok()) << done.status().to_string();
  EXPECT_EQ(done->evicted, std::vector<std::string>{"m@main#1"});
  EXPECT_EQ(record_of(b).residency, Residency::kHot);
  EXPECT_EQ(record_of(c).residency, Residency::kHot);
}

TEST_F(PoliciesTest, WhatLeasesKeepFromItsRoomUnderWayIsGivenUp) {
  use_capacity(6 * kMiB);
  const auto c = import_other("c", 'c');
  ResidencyRequest request;
  request.target.ref = {"c", "main", 1};
  request.wait = false;
  ASSERT_TRUE(run_rehydrate(*context_, request, silent_, cancel_).ok());
  ASSERT_TRUE(rehydrate(identity_).ok());
  const auto held = lease(identity_);
  EXPECT_EQ(rehydrate(c, true).code(), Code::kBusy);
  EXPECT_EQ(record_of(c).finished_operations.back().state, metadata::OperationState::kFailed)
      << "it would hold memory that others wait for";
  release(held);
}

TEST_F(PoliciesTest, AnotherLimitThanTheCapacityCounts) {
  tiers::MemoryOptions memory;
  memory.path = memory_.path();
  memory.store_id = parts_.store_id;
  memory.capacity = 64 * kMiB;
  memory.process_reserve_bytes = 0;
  memory.memory_limits = [] { return std::vector<MemoryLimit>{{"/sys/fs/cgroup/memory.max", 3 * kMiB, 0}}; };
  hot_.emplace([this, memory](bool create) mutable {
    memory.create = create;
    return tiers::open_memory(runtime_, memory);
  });
  const Placement placement = find_placement(*context_).value();
  EXPECT_EQ(placement.memory.capacity_bytes, 3 * kMiB);
  const auto refused = rehydrate(identity_, true);
  EXPECT_EQ(refused.code(), Code::kNoSpace);
  EXPECT_NE(refused.status().message().find("memory.max allows 3"), std::string::npos) << refused.status().message();
  EXPECT_EQ(refused.status().hint(), "raise the memory limit of the cgroup (the container's --memory)");
  set_policy(identity_, PolicyMode::kPinned, Residency::kHot);
  const ReconcileReport report = reconcile();
  ASSERT_EQ(report.waiting.size(), 1U);
  EXPECT_NE(report.waiting[0].why.hint().find("raise the memory limit of the cgroup"), std::string::npos);
}

TEST_F(PoliciesTest, AReadThatIsOverBringsAnAutoRevisionIn) {
  set_policy(identity_, PolicyMode::kAuto, Residency::kHot);
  EXPECT_TRUE(reconcile().changes.empty()) << "nobody read it";
  cat();
  ReconcileReport report = reconcile();
  ASSERT_EQ(report.changes.size(), 1U);
  EXPECT_EQ(report.changes[0].what, "HOT by its policy: read a moment ago");
  ASSERT_TRUE(evict().ok());
  cat();
  EXPECT_TRUE(reconcile().changes.empty()) << "it was moved a moment ago";
}

TEST_F(PoliciesTest, AManifestIsReadOnceForManyPlans) {
  set_policy(identity_, PolicyMode::kPinned, Residency::kHot);
  const auto now = catalog_->use_now().value();
  const auto promotion = [&] { return find_placement_for(*context_, {}, now).value()->revisions[0].promotion_bytes; };
  EXPECT_EQ(promotion(), 4 * kMiB);
  const fs::path manifest = cold_object(0).parent_path().parent_path() / "manifest";
  fs::rename(manifest, root_.path() + "/aside");
  EXPECT_EQ(promotion(), 4 * kMiB);
  fs::rename(root_.path() + "/aside", manifest);
}

TEST_F(PoliciesTest, RoomIsMadeByAnEvictionThatWasBegun) {
  use_capacity(6 * kMiB);
  const auto c = import_other("c", 'c');
  ASSERT_TRUE(rehydrate(identity_).ok());
  ResidencyRequest begin;
  begin.target.ref = {identity_.lineage.resource_id, identity_.lineage.revision, identity_.weight_generation};
  begin.wait = false;
  ASSERT_TRUE(run_evict(*context_, begin, silent_, cancel_).ok());
  const auto done = rehydrate(c, true);
  ASSERT_TRUE(done.ok()) << done.status().to_string();
  EXPECT_EQ(done->evicted.size(), 1U);
  EXPECT_EQ(record_of(identity_).residency, Residency::kCold);
  EXPECT_FALSE(record_of(identity_).operation);
}

TEST_F(PoliciesTest, WhatIsReadIsNotEvicted) {
  use_capacity(10 * kMiB);
  const auto b = import_other("b", 'b');
  const auto c = import_other("c", 'c');
  ASSERT_TRUE(rehydrate(identity_).ok());
  ASSERT_TRUE(rehydrate(b).ok());
  const auto first = lease(identity_);
  later();
  const auto second = lease(b);
  for (const bool room : {false, true}) {
    const auto refused = rehydrate(c, room);
    EXPECT_EQ(refused.code(), Code::kBusy) << refused.status().to_string();
    EXPECT_NE(refused.status().message().find("2 leases of reader on m@main#1, b@main#1, the nearest expiry in"),
              std::string::npos)
        << refused.status().message();
    EXPECT_NE(refused.status().hint().find("steelyard lease list m@main#1"), std::string::npos);
  }
  EXPECT_EQ(record_of(identity_).residency, Residency::kHot);
  EXPECT_EQ(record_of(b).residency, Residency::kHot);
  EXPECT_FALSE(record_of(c).operation);
  release(first);
  EXPECT_TRUE(rehydrate(c, true).ok());
  release(second);
}

TEST_F(PoliciesTest, RoomThatCannotBeMadeIsSaidAndNothingGoes) {
  use_capacity(6 * kMiB);
  ASSERT_TRUE(rehydrate(identity_).ok());
  std::vector<std::string> evicted;
  const auto c = import_other("c", 'c');
  const Status refused = make_room(*context_, c, 7 * kMiB, silent_, cancel_, evicted);
  EXPECT_EQ(refused.code(), Code::kNoSpace) << refused.to_string();
  EXPECT_NE(refused.message().find("4MiB"), std::string::npos) << refused.message();
  EXPECT_TRUE(evicted.empty());
  EXPECT_EQ(record_of(identity_).residency, Residency::kHot);
}

TEST_F(PoliciesTest, AReconcileCarriesOutWhatIsPinned) {
  set_policy(identity_, PolicyMode::kPinned, Residency::kHot);
  EXPECT_EQ(record().residency, Residency::kCold) << "a policy is a promise for later";
  ReconcileReport report = reconcile();
  EXPECT_EQ(report.changes.size(), 1U);
  EXPECT_EQ(record().residency, Residency::kHot);
  EXPECT_TRUE(reconcile().changes.empty());
  const auto refused = evict();
  EXPECT_EQ(refused.code(), Code::kPolicyUnsatisfiable) << refused.status().to_string();
  set_policy(identity_, PolicyMode::kPinned, Residency::kCold);
  const auto held = lease(identity_);
  EXPECT_TRUE(reconcile().changes.empty()) << "not while somebody reads it";
  release(held);
  report = reconcile();
  EXPECT_EQ(report.changes.size(), 1U);
  EXPECT_EQ(record().residency, Residency::kCold);
}

TEST_F(PoliciesTest, APinnedRevisionWhoseMemoryWasWipedComesBack) {
  set_policy(identity_, PolicyMode::kPinned, Residency::kHot);
  reconcile();
  const std::string before = record().hot_instance;
  ASSERT_EQ(record().residency, Residency::kHot);
  wipe_memory();
  const ReconcileReport report = reconcile();
  EXPECT_TRUE(report.failed.empty());
  EXPECT_TRUE(report.waiting.empty()) << report.waiting.front().why.to_string();
  EXPECT_EQ(record().residency, Residency::kHot);
  EXPECT_NE(record().hot_instance, before);
  EXPECT_EQ(hot_bytes(), kObjects * kMiB);
  const std::uint64_t settled = record().metadata_generation;
  EXPECT_TRUE(reconcile().changes.empty());
  EXPECT_EQ(record().metadata_generation, settled);
}

TEST_F(PoliciesTest, AutoPromotesWhatIsReadAndDemotesUnderPressure) {
  options_.policy_cooldown_ms = 0;
  use_capacity(10 * kMiB);
  const auto b = import_other("b", 'b');
  const auto c = import_other("c", 'c');
  for (const auto& one : {identity_, b, c}) set_policy(one, PolicyMode::kAuto, Residency::kHot);
  EXPECT_TRUE(reconcile().changes.empty()) << "nobody reads them";
  std::vector<std::string> moves;
  const auto note = [&](const metadata::Move& move, const Status& status) {
    moves.push_back(move.identity.lineage.resource_id + " " + std::string(name_of(move.target)) +
                    (status.ok() ? "" : status.to_string()));
  };
  for (const auto& one : {identity_, b, c}) {
    const auto held = lease(one);
    ASSERT_TRUE(follow_policies(*context_, Asked({one}), silent_, cancel_, {.on_move = note}).ok());
    release(held);
  }
  EXPECT_EQ(moves, (std::vector<std::string>{"m HOT", "b HOT", "m COLD", "c HOT"}));
}

TEST_F(PoliciesTest, OneThatCannotBePlannedKeepsNoOtherWhereItIs) {
  // It has one object, which is hot or cold as a whole.
  fs::create_directories(root_.path() + "/one");
  std::ofstream(root_.path() + "/one/notes.txt") << "one object";
  ImportRequest request;
  request.source = root_.path() + "/one";
  request.checkpoint.allow_empty = true;
  request.target.ref = {"one", "main", std::nullopt};
  request.chunk_bytes = kMiB;
  request.policy = {.prefer = Residency::kMixed, .ratio_millionths = 500'000, .mode = PolicyMode::kPinned};
  const auto source = open_source(request.source, false).value();
  const auto one = run_import(*context_, request, *source, silent_, cancel_);
  ASSERT_TRUE(one.ok()) << one.status().to_string();
  metadata::UpdateWeightPolicy mixed;
  mixed.identity = one->record.identity;
  mixed.expected_metadata_generation = one->record.metadata_generation;
  mixed.policy = request.policy;
  mixed.policy.ratio_millionths = 250'000;
  const auto refused = catalog_->update_weight_policy(mixed);
  EXPECT_EQ(refused.code(), Code::kInvalidArgument);
  EXPECT_EQ(refused.status().message(), "one@main#1 has 1 object and cannot be MIXED, wanted 2 or more");
  set_policy(identity_, PolicyMode::kPinned, Residency::kHot);
  EXPECT_EQ(reconcile().changes.size(), 1U);
  EXPECT_EQ(record().residency, Residency::kHot);
}

TEST_F(PoliciesTest, WithoutMemoryAReconcileDoesTheRest) {
  set_policy(identity_, PolicyMode::kPinned, Residency::kHot);
  hot_.emplace([](bool) -> Result<std::unique_ptr<tiers::Tier>> {
    return Status(Code::kUnauthorized, "somebody else's instance");
  });
  const auto report = run_reconcile(*context_, std::nullopt, silent_, cancel_);
  ASSERT_TRUE(report.ok()) << report.status().to_string();
  EXPECT_TRUE(report->failed.empty());
  ASSERT_EQ(report->waiting.size(), 1U);
  EXPECT_EQ(report->waiting[0].ref, "m@main#1");
  EXPECT_EQ(report->waiting[0].why.message(), "somebody else's instance");
}

TEST_F(PoliciesTest, APinWithoutRoomWaits) {
  use_capacity(4 * kMiB);  // 3.6 MiB below the mark
  set_policy(identity_, PolicyMode::kPinned, Residency::kHot);
  const ReconcileReport report = reconcile();
  EXPECT_TRUE(report.failed.empty());
  ASSERT_EQ(report.waiting.size(), 1U);
  EXPECT_EQ(report.waiting[0].why.code(), Code::kNoSpace);
  EXPECT_NE(report.waiting[0].why.message().find("hot.high_watermark is 0.9"), std::string::npos);
  EXPECT_EQ(record().residency, Residency::kCold);
}

TEST_F(PoliciesTest, ARevisionWithoutAPolicyAsksNobody) {
  int opened = 0;
  hot_.emplace([&](bool) -> Result<std::unique_ptr<tiers::Tier>> {
    ++opened;
    return Status(Code::kUnavailable, "no memory");
  });
  const auto other = import_other("b", 'b');
  set_policy(other, PolicyMode::kPinned, Residency::kHot);
  opened = 0;
  const auto note = [](const metadata::Move&, const Status&) { FAIL(); };
  EXPECT_TRUE(follow_policies(*context_, Asked({identity_}), silent_, cancel_, {.on_move = note}).ok());
  EXPECT_EQ(opened, 0);
  EXPECT_EQ(follow_policies(*context_, Asked({other}), silent_, cancel_, {.on_move = note}).code(), Code::kUnavailable);
}

TEST_F(PoliciesTest, WhatIsSharedNeedsNoRoom) {
  use_capacity(5 * kMiB);
  ASSERT_TRUE(rehydrate(identity_).ok());
  // The same bytes in another revision.
  const auto same = import_into_memory("src", "same");
  ASSERT_TRUE(same.ok()) << same.status().to_string();
  EXPECT_EQ(hot_->make().value()->check_fits(4 * kMiB).code(), Code::kNoSpace);
  const auto done = rehydrate(same->record.identity);
  ASSERT_TRUE(done.ok()) << done.status().to_string();
  EXPECT_EQ(done->record.residency, Residency::kHot);
  EXPECT_EQ(hot_bytes(), 4 * kMiB);
}

TEST_F(PoliciesTest, AnImportThatMemoryCanNeverHoldIsRefusedUnread) {
  use_capacity(3 * kMiB);
  const auto refused = import_into_memory("src", "other");
  EXPECT_EQ(refused.code(), Code::kNoSpace) << refused.status().to_string();
  EXPECT_EQ(refused.status().message().find("finding room in memory for other@main, which was not imported: the hot "),
            0U);
  EXPECT_NE(refused.status().message().find("cannot take 4MiB, 3MiB are available: hot.capacity is 3MiB"),
            std::string::npos)
      << refused.status().message();
  EXPECT_EQ(refused.status().message().find("evicting"), std::string::npos) << "nothing is there";
  EXPECT_EQ(refused.status().hint(),
            "raise hot.capacity (--hot-capacity, STEELYARD_HOT_CAPACITY); or import it with --residency cold");
  EXPECT_EQ(progress_.phases, std::set<std::string>{});
}

TEST_F(PoliciesTest, AnImportThatHasNoRoomNowIsRefusedBeforeItIsCopied) {
  use_capacity(7 * kMiB);
  ASSERT_TRUE(rehydrate(identity_).ok());
  fs::create_directories(root_.path() + "/other");
  std::ofstream file(root_.path() + "/other/w.bin", std::ios::binary);
  for (char object = 0; object < 4; ++object) file << std::string(kMiB, object);
  file.close();
  const auto refused = import_into_memory("other", "new");
  EXPECT_EQ(refused.code(), Code::kNoSpace) << refused.status().to_string();
  EXPECT_NE(refused.status().message().find("evicting 1 idle revision would free 4MiB (m@main#1)"), std::string::npos)
      << refused.status().message();
  EXPECT_EQ(refused.status().hint(),
            "import it with --residency cold, and `steelyard rehydrate REF --make-room` evicts what is idle for it; or "
            "raise hot.capacity (--hot-capacity, STEELYARD_HOT_CAPACITY)");
  EXPECT_EQ(progress_.phases, std::set<std::string>{"verify"});
  EXPECT_TRUE(catalog_->list_lineage({"default", "default", "new", "main"}).value().empty());

  const auto held = lease(identity_);
  const auto busy = import_into_memory("other", "new");
  EXPECT_EQ(busy.code(), Code::kBusy) << busy.status().to_string();
  EXPECT_NE(busy.status().hint().find("or import it with --residency cold"), std::string::npos) << busy.status().hint();
  release(held);
}

TEST_F(PoliciesTest, ARepeatedObjectIsCountedOnceAndEveryObjectInPages) {
  const auto tier = hot_->make().value();
  formats::StoredManifest manifest;
  for (const std::uint64_t bytes : {1, 5000, 1}) {
    formats::ObjectEntry entry;
    entry.bytes = bytes;
    entry.sha256.bytes[0] = static_cast<std::byte>(bytes % 251);
    manifest.objects.push_back(entry);
  }
  EXPECT_EQ(room_for(*tier, manifest, {}, [](std::uint32_t) { return true; }).value(), 3 * 4096U);
  EXPECT_EQ(room_for(*tier, manifest, {}, [](std::uint32_t object) { return object == 1; }).value(), 2 * 4096U);
}

TEST_F(PoliciesTest, RoomIsMadeWithoutWhatIsDamaged) {
  use_capacity(10 * kMiB);
  const auto b = import_other("b", 'b');
  const auto c = import_other("c", 'c');
  ASSERT_TRUE(rehydrate(identity_).ok());
  ASSERT_TRUE(rehydrate(b).ok());
  damage_cold(2);  // of what was used longest ago
  std::vector<std::string> evicted;
  const Status made = make_room(*context_, c, 4 * kMiB, silent_, cancel_, evicted);
  ASSERT_TRUE(made.ok()) << made.to_string();
  EXPECT_EQ(evicted, std::vector<std::string>{"b@main#1"});
  EXPECT_EQ(record().residency, Residency::kHot);
}

TEST_F(PoliciesTest, AFailureSaysWhatWasEvictedForIt) {
  use_capacity(5 * kMiB);
  const auto c = import_other("c", 'c');
  ASSERT_TRUE(rehydrate(identity_).ok());
  runtime_.on("rehydrate.after_object", [&] { cancel_ = true; });
  const auto refused = rehydrate(c, true);
  cancel_ = false;
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().hint().find("evicted to make room: m@main#1"), std::string::npos)
      << refused.status().to_string();
}

TEST_F(PoliciesTest, WhatACancelledRehydrationLeftMakesRoom) {
  use_capacity(5 * kMiB);
  const auto c = import_other("c", 'c');
  runtime_.on("rehydrate.after_object", [&] { cancel_ = true; });
  EXPECT_FALSE(HotStoreTest::rehydrate().ok());
  runtime_.on("rehydrate.after_object", [] {});
  cancel_ = false;
  ASSERT_TRUE(catalog_->cancel_operation({record().operation->operation_id}).ok());
  EXPECT_EQ(record().residency, Residency::kCold);
  ASSERT_EQ(hot_bytes(), kMiB);
  const auto done = rehydrate(c, true);
  ASSERT_TRUE(done.ok()) << done.status().to_string();
  EXPECT_EQ(done->evicted, std::vector<std::string>{"m@main#1"});
}

TEST_F(PoliciesTest, ACooldownKeepsARevisionWhereItCameTo) {
  set_policy(identity_, PolicyMode::kAuto, Residency::kHot);
  const auto held = lease(identity_);
  EXPECT_EQ(reconcile().changes.size(), 1U);
  release(held);
  ASSERT_TRUE(evict().ok()) << "AUTO does not refuse who asks for it";
  const auto again = lease(identity_);
  const ReconcileReport cools = reconcile();
  EXPECT_TRUE(cools.changes.empty()) << "it was moved less than five minutes ago";
  ASSERT_EQ(cools.waiting.size(), 1U) << "and it says so";
  EXPECT_EQ(cools.waiting.front().why.to_string(), why_it_waits(*context_, record()).to_string());
  release(again);
}

TEST_F(PoliciesTest, NothingGoesForWhatAPolicyRefuses) {
  use_capacity(6 * kMiB);
  const auto c = import_other("c", 'c');
  ASSERT_TRUE(rehydrate(identity_).ok());
  set_policy(c, PolicyMode::kPinned, Residency::kCold);
  for (const bool room : {false, true}) {
    const auto refused = rehydrate(c, room);
    EXPECT_EQ(refused.code(), Code::kPolicyUnsatisfiable) << refused.status().to_string();
  }
  EXPECT_EQ(record().residency, Residency::kHot);
  EXPECT_TRUE(record_of(identity_).finished_operations.size() == 1) << "it was brought, and never evicted";
}

TEST_F(PoliciesTest, NothingGoesWhereTheCapacityWasLoweredTooFar) {
  const auto c = import_other("c", 'c');
  ASSERT_TRUE(rehydrate(identity_).ok());
  use_capacity(3 * kMiB);
  const auto refused = rehydrate(c, true);
  EXPECT_EQ(refused.code(), Code::kNoSpace) << refused.status().to_string();
  EXPECT_EQ(record().residency, Residency::kHot);
  use_capacity(4 * kMiB + kMiB / 2);
  const auto b = import_other("b", 'b');
  ASSERT_TRUE(rehydrate(b, true).ok()) << "where it is enough it goes";
  EXPECT_EQ(record().residency, Residency::kCold);
}

TEST_F(PoliciesTest, RoomThatAMoveOfTheSamePassMadeIsUsed) {
  use_capacity(7 * kMiB);
  const auto b = import_other("b", 'b');
  ASSERT_TRUE(rehydrate(identity_).ok());
  metadata::UpdateWeightPolicy mixed;
  mixed.identity = identity_;
  mixed.expected_metadata_generation = record().metadata_generation;
  mixed.policy = {.prefer = Residency::kMixed, .ratio_millionths = 250'000, .mode = PolicyMode::kPinned};
  ASSERT_TRUE(catalog_->update_weight_policy(mixed).ok());
  set_policy(b, PolicyMode::kPinned, Residency::kHot);
  const ReconcileReport report = reconcile();
  EXPECT_TRUE(report.waiting.empty());
  EXPECT_EQ(record().residency, Residency::kMixed);
  EXPECT_EQ(record_of(b).residency, Residency::kHot);
}

TEST_F(PoliciesTest, AMemoryIsMadeOnlyForWhatComesIntoIt) {
  set_policy(identity_, PolicyMode::kPinned, Residency::kCold);
  bool made = false;
  hot_.emplace([&](bool create) -> Result<std::unique_ptr<tiers::Tier>> {
    made = made || create;
    return Status(Code::kNotFound, "there is none");
  });
  EXPECT_TRUE(reconcile().waiting.empty());
  EXPECT_FALSE(made);
}

TEST_F(PoliciesTest, AMoveThatOthersAreInTheWayOfWaits) {
  ASSERT_TRUE(rehydrate(identity_).ok());
  set_policy(identity_, PolicyMode::kPinned, Residency::kCold);
  // Somebody begins to read it.
  std::optional<metadata::Lease> held;
  runtime_.on("evict.after_read_back", [&] {
    if (!held) held = lease(identity_);
  });
  const ReconcileReport report = reconcile();
  ASSERT_EQ(report.waiting.size(), 1U);
  EXPECT_EQ(report.waiting[0].why.code(), Code::kBusy);
  EXPECT_TRUE(report.failed.empty());
}

TEST_F(PoliciesTest, WhatOthersBeginDuringALookIsNotTakenForItsOwn) {
  ASSERT_TRUE(rehydrate(identity_).ok());
  const auto look = [&] {
    return look_at_revisions(*context_, std::nullopt, silent_, cancel_, nullptr).value().report;
  };
  const std::uint64_t before = runtime_.passes("tier.instance");
  EXPECT_TRUE(look().left_at.empty());
  std::uint64_t left = runtime_.passes("tier.instance") - before;
  ResidencyRequest begin;
  begin.target.ref = {"m", "main", 1};
  begin.wait = false;
  // The last that a look asks is where memory is.
  runtime_.on("tier.instance", [&] {
    if (--left != 0) return;
    EXPECT_TRUE(run_evict(*context_, begin, silent_, cancel_).ok());
  });
  const ReconcileReport report = look();
  runtime_.on("tier.instance", [] {});
  ASSERT_TRUE(record().operation);
  EXPECT_TRUE(report.left_at.empty());
}

TEST_F(PoliciesTest, WhatARevisionWaitsForIsTold) {
  const auto why = [&] { return why_it_waits(*context_, record()); };
  EXPECT_TRUE(why().ok()) << "MANUAL";
  set_policy(identity_, PolicyMode::kAuto, Residency::kHot);
  EXPECT_EQ(why().code(), Code::kBusy);
  EXPECT_NE(why().message().find("nobody reads it"), std::string::npos) << why().message();
  EXPECT_EQ(hot_->find().value(), nullptr) << "who only looks makes no memory";
  const auto held = lease(identity_);
  EXPECT_TRUE(why().ok()) << "nothing is known to be in the way";
  use_capacity(2 * kMiB);
  ASSERT_TRUE(hot_->make().ok());
  EXPECT_EQ(why().code(), Code::kNoSpace);
  EXPECT_NE(why().message().find("is read now, would be HOT"), std::string::npos) << why().message();
  use_capacity(64 * kMiB);
  EXPECT_TRUE(why().ok()) << "the next reconcile brings it";
  ASSERT_TRUE(rehydrate(identity_).ok());
  EXPECT_TRUE(why().ok()) << "it is there";
  set_policy(identity_, PolicyMode::kPinned, Residency::kCold);
  EXPECT_EQ(why().code(), Code::kBusy);
  EXPECT_NE(why().message().find("is pinned to COLD and HOT, and somebody reads it"), std::string::npos)
      << why().message();
  release(held);
  EXPECT_TRUE(why().ok()) << "the next reconcile evicts it";
  request_.wait = false;
  ASSERT_TRUE(evict().ok());
  EXPECT_EQ(why().code(), Code::kBusy);
  EXPECT_NE(why().message().find("which nobody carries out"), std::string::npos) << why().message();
  reconcile();
  ASSERT_EQ(record().residency, Residency::kCold);
  EXPECT_TRUE(why().ok()) << "it is there";
  set_policy(identity_, PolicyMode::kAuto, Residency::kHot);
  fs::remove(cold_object(0));
  reconcile();
  EXPECT_EQ(why().code(), Code::kNotReady) << "nothing moves what is DEGRADED";
}

TEST_F(PoliciesTest, WhatIsWhereItsPolicyWantsItWaitsForNothing) {
  const auto why = [&] { return why_it_waits(*context_, record()); };
  set_policy(identity_, PolicyMode::kPinned, Residency::kHot);
  std::optional<Status> under_way;
  runtime_.on("rehydrate.after_object", [&] {
    if (!under_way) under_way = why();
  });
  reconcile();
  ASSERT_TRUE(under_way.has_value());
  EXPECT_TRUE(under_way->ok()) << "its own move brings it: " << under_way->to_string();
  ASSERT_EQ(record().residency, Residency::kHot);
  damage_cold(0);
  ASSERT_TRUE(run_verify(*context_, request_.target, silent_, cancel_).ok());
  ASSERT_EQ(record().residency, Residency::kHot);
  ASSERT_TRUE(record().operation);
  EXPECT_TRUE(why().ok()) << "it is there: " << why().to_string();
  reconcile();
  set_policy(identity_, PolicyMode::kManual, Residency::kCold);
  ASSERT_TRUE(evict().ok());
  set_policy(identity_, PolicyMode::kPinned, Residency::kHot);
  EXPECT_TRUE(why().ok()) << why().to_string();
  options_.hot_path = memory_.path() + "/nowhere";
  EXPECT_EQ(why().code(), Code::kInvalidArgument) << why().to_string();
}

}  // namespace
}  // namespace steelyard::store
