#include "sim/workload/history.h"

#include <gtest/gtest.h>

#include <string>

#include "base/log.h"

namespace steelyard::sim {
namespace {

constexpr std::uint64_t kHistories = 500;
constexpr std::uint64_t kFirstSeed = 1;
/// Within so many histories a broken part must have been seen.
constexpr std::uint64_t kCanaryHistories = 60;

class Histories : public ::testing::Test {
 protected:
  // What the store says about injected faults is in nobody's interest.
  void SetUp() override { set_log_level(LogLevel::kError); }
  void TearDown() override { set_log_level(LogLevel::kWarn); }
};

std::string explain(const History& history) {
  std::string text = history.trace;
  for (const std::string& violation : history.violations) text += "violated: " + violation + "\n";
  return text + "replay it with: " + replay_command(history.seed);
}

TEST_F(Histories, KeepEveryRule) {
  History sum;
  for (std::uint64_t seed = kFirstSeed; seed < kFirstSeed + kHistories; ++seed) {
    const History history = run_history(seed);
    ASSERT_TRUE(history.violations.empty()) << explain(history);
    sum.published += history.published;
    sum.deleted += history.deleted;
    sum.takeovers += history.takeovers;
    sum.leases += history.leases;
    sum.kills += history.kills;
    sum.reboots += history.reboots;
    sum.damages += history.damages;
    sum.late_puts += history.late_puts;
    sum.late_streams += history.late_streams;
    sum.watched += history.watched;
    sum.anew += history.anew;
    sum.moves += history.moves;
  }
  // They are worth nothing where nothing happens.
  EXPECT_GT(sum.published, kHistories);
  EXPECT_GT(sum.deleted, kHistories);
  EXPECT_GT(sum.takeovers, kHistories / 2);
  EXPECT_GT(sum.leases, kHistories);
  EXPECT_GT(sum.kills, kHistories / 4);
  EXPECT_GT(sum.reboots, kHistories);
  EXPECT_GT(sum.damages, kHistories / 10);
  EXPECT_GT(sum.late_puts, kHistories / 20);
  EXPECT_GT(sum.late_streams, 0U);
  EXPECT_GT(sum.watched, kHistories);
  EXPECT_GT(sum.anew, kHistories / 50);
  EXPECT_GT(sum.moves.evicted, kHistories / 4);
  EXPECT_GT(sum.moves.rehydrated, kHistories);
  EXPECT_GT(sum.moves.repaired, kHistories / 50);
  EXPECT_GT(sum.moves.mixed, kHistories / 10);
  EXPECT_GT(sum.moves.resumed, kHistories / 20);
  EXPECT_GT(sum.moves.cancelled, kHistories / 10);
  EXPECT_GT(sum.moves.for_room, 0U);
  EXPECT_GT(sum.moves.by_policy, kHistories / 20);
  EXPECT_GT(sum.moves.paused, kHistories / 100);
}

TEST_F(Histories, OneSeedGivesOneTrace) {
  for (const std::uint64_t seed : {3U, 1234U, 99999U}) {
    EXPECT_EQ(run_history(seed).trace, run_history(seed).trace);
    EXPECT_NE(run_history(seed).trace, run_history(seed + 1).trace);
  }
}

/// A part broken on purpose, and what a checker must say about it.
struct Broken {
  const char* name;
  Canary canary;
  const char* said;
};

class Canaries : public Histories, public ::testing::WithParamInterface<Broken> {};

TEST_P(Canaries, AreCaught) {
  for (std::uint64_t seed = 1; seed <= kCanaryHistories; ++seed) {
    for (const std::string& violation : run_history(seed, GetParam().canary).violations) {
      if (violation.find(GetParam().said) != std::string::npos) return;
    }
  }
  FAIL() << "nobody said \"" << GetParam().said << "\" in " << kCanaryHistories << " histories";
}

INSTANTIATE_TEST_SUITE_P(
    Sim, Canaries,
    ::testing::Values(Broken{"FlushLies", Canary::kFlushLies, "missing on the disk"},
                      Broken{"AppendLies", Canary::kAppendLies, "which the log does not have"},
                      Broken{"GoneLies", Canary::kGoneLies, "which lives and renewed its token"},
                      Broken{"RemoveLies", Canary::kRemoveLies, "is left after a gc"},
                      Broken{"GcLies", Canary::kGcLies, "is used by nobody after a gc"},
                      Broken{"RepairLies", Canary::kRepairLies, "is damaged after its repair"},
                      Broken{"MarkerLies", Canary::kMarkerLies, "a recovery does not bring"},
                      Broken{"HotPutLies", Canary::kHotPutLies, "is other in memory"},
                      Broken{"ClaimLies", Canary::kClaimLies, "bytes in memory, where"},
                      Broken{"HotRemoveLies", Canary::kHotRemoveLies, "is left in memory after"},
                      Broken{"ProgressLies", Canary::kProgressLies, "its progress goes back"},
                      Broken{"HistoryLies", Canary::kHistoryLies, "not retained as they were"},
                      Broken{"ShareLies", Canary::kShareLies, "millionths in memory, and"},
                      Broken{"PermitLies", Canary::kPermitLies, "without a permission"},
                      Broken{"NameLies", Canary::kNameLies, "without a permission"},
                      Broken{"ReadyLies", Canary::kReadyLies, "is READY again and"},
                      Broken{"RunnerLies", Canary::kRunnerLies, "which it does not run"},
                      // READY over a member that nobody can read, and HOT without its bytes.
                      Broken{"ListLies", Canary::kListLies, "is missing on the disk"},
                      Broken{"ListLiesOfMemory", Canary::kListLies, "is HOT with"},
                      // Leases that protect nothing.
                      Broken{"LeaseLiesToDelete", Canary::kLeaseLies, "is deleted under lease"},
                      Broken{"LeaseLiesToTombstone", Canary::kLeaseLies, "a tombstone under lease"},
                      Broken{"LeaseLiesToEvict", Canary::kLeaseLies, "begins under lease"},
                      Broken{"LeaseLiesToPermit", Canary::kLeaseLies, "are permitted under lease"},
                      Broken{"LeaseLiesToRemove", Canary::kLeaseLies, "from the disk under lease"},
                      Broken{"HotRemoveSpreads", Canary::kHotRemoveSpreads, "the last readable replica of"},
                      // Space that does not come back.
                      Broken{"ReservationLies", Canary::kReservationLies, "bytes are left in memory"},
                      Broken{"GcLiesOfBytes", Canary::kGcLies, "bytes are left on the disk"},
                      Broken{"GenerationLies", Canary::kGenerationLies, "metadata generation"},
                      Broken{"GenerationLiesInTheLog", Canary::kGenerationLies, "the log does not imply"},
                      Broken{"RequestLies", Canary::kRequestLies, "a repeated Commit of"},
                      // What nobody asked for, and what no append says.
                      Broken{"PolicyLies", Canary::kPolicyLies, "whose policy is manual"},
                      Broken{"BoundLies", Canary::kBoundLies, "is granted with another bound"},
                      Broken{"RowLies", Canary::kRowLies, "the log does not imply the state"},
                      Broken{"RowLiesToWatchers", Canary::kRowLies, "as it was not"}),
    [](const ::testing::TestParamInfo<Broken>& broken) { return broken.param.name; });

}  // namespace
}  // namespace steelyard::sim
