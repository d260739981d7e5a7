#include "store/lease_guard.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <iterator>

#include "base/limits.h"
#include "base/log.h"
#include "oplog/forwarding.h"
#include "oplog/open.h"
#include "store/open_revision.h"
#include "store/open_store.h"
#include "store/test_one_wait.h"
#include "tiers/simulated.h"

namespace steelyard::store {
namespace {

/// A log whose next writes end as a test says; the rest reaches the one within.
class RefusingLog final : public oplog::ForwardingLog {
 public:
  using ForwardingLog::ForwardingLog;
  std::deque<Status> refusals;

  Result<std::uint64_t> write(const Prepare& prepare) override {
    if (refusals.empty()) return inner_.write(prepare);
    Status refusal = std::move(refusals.front());
    refusals.pop_front();
    return refusal;
  }
};

/// A published revision without members: a lease asks the catalog alone.
class LeaseGuardTest : public testing::Test {
 protected:
  void SetUp() override {
    record_ = publish_without_members(catalog_, *log_);
    former_sink_ = set_log_sink([this](LogLevel, std::string_view line) { said_ += std::string(line) + "\n"; });
  }
  void TearDown() override { set_log_sink(std::move(former_sink_)); }

  static Selector selector() {
    Selector one;
    one.ref = {"model", "main", 1};
    return one;
  }
  Result<std::unique_ptr<LeaseGuard>> acquire() { return LeaseGuard::acquire(context_, record_, {}, stop_); }
  std::size_t live() { return catalog_.list_leases(record_.identity)->size(); }

  OneWait runtime_;
  std::shared_ptr<tiers::SimulatedDisk> disk_ = std::make_shared<tiers::SimulatedDisk>(1);
  std::unique_ptr<tiers::Tier> cold_ = std::move(tiers::open_simulated(runtime_, disk_)).value();
  std::unique_ptr<oplog::OpLog> log_ = oplog::open_memory(runtime_);
  RefusingLog refusing_{*log_};
  TierObserver observer_{*cold_};
  catalog::Catalog catalog_{runtime_, refusing_, observer_, {}};
  metadata::RevisionRecord record_;
  StoreOptions options_;
  Context context_{runtime_, options_, *cold_, catalog_, observer_, 0, false};
  const CancelFlag cancel_{false};
  StopSignal stop_{cancel_};
  LogSink former_sink_;
  std::string said_;
};

TEST_F(LeaseGuardTest, ALostLeaseIsExpiredWhetherItIsStillKnown) {
  runtime_.while_waiting = [&] { runtime_.now_ms += options_.lease_ttl_ms; };  // the process stood still
  const auto guard = acquire();
  ASSERT_TRUE(guard.ok()) << guard.status().to_string();
  EXPECT_EQ(stop_.status("reading").code(), Code::kLeaseExpired);
}

TEST_F(LeaseGuardTest, ALostLeaseIsExpiredWhenItIsNotKnownAnyMore) {
  runtime_.while_waiting = [&] {
    runtime_.now_ms += options_.lease_ttl_ms;
    ASSERT_TRUE(catalog_.reap_leases(record_.identity).ok());
  };
  const auto guard = acquire();
  ASSERT_TRUE(guard.ok()) << guard.status().to_string();
  EXPECT_EQ(stop_.status("reading").code(), Code::kLeaseExpired);
}

TEST_F(LeaseGuardTest, TheClockSaysItBeforeAnyAnswerOfTheCatalog) {
  runtime_.while_waiting = [&] { refusing_.refusals = {Status(Code::kNoSpace, "in the way")}; };
  const auto held = HeldRevision::hold(context_, selector(), {.required = true});
  ASSERT_TRUE(held.ok()) << held.status().to_string();
  EXPECT_TRUE((*held)->check().ok()) << "a renewal may come in time";
  runtime_.now_ms = 1000 + options_.lease_ttl_ms - 1;
  EXPECT_TRUE((*held)->check().ok());
  runtime_.now_ms += 1;
  EXPECT_EQ((*held)->check().code(), Code::kLeaseExpired);
}

TEST_F(LeaseGuardTest, ARenewalMovesTheEnd) {
  runtime_.while_waiting = [] {};
  const auto held = HeldRevision::hold(context_, selector(), {.required = true});
  ASSERT_TRUE(held.ok()) << held.status().to_string();
  runtime_.now_ms = 1000 + options_.lease_ttl_ms;
  EXPECT_TRUE((*held)->check().ok());
  runtime_.now_ms += options_.lease_ttl_ms / 3;
  EXPECT_EQ((*held)->check().code(), Code::kLeaseExpired);
}

TEST_F(LeaseGuardTest, ALeaseThatIsTakenLaterHasAnEndToo) {
  refusing_.refusals = {Status(Code::kBusy, "in the way")};
  runtime_.while_waiting = [] {};
  const auto held = HeldRevision::hold(context_, selector(), {});
  ASSERT_TRUE(held.ok()) << held.status().to_string();
  EXPECT_TRUE((*held)->check().ok());
  runtime_.now_ms += options_.lease_ttl_ms;
  EXPECT_EQ((*held)->check().code(), Code::kLeaseExpired);
}

TEST_F(LeaseGuardTest, ACatalogThatCannotBeWrittenNowTakesNothingAway) {
  for (const Code code : {Code::kBusy, Code::kNoSpace, Code::kDurabilityFailed, Code::kUnknownOutcome}) {
    refusing_.refusals = {Status(code, "in the way"), Status(code, "still in the way")};
    runtime_.while_waiting = [] {};
    said_.clear();
    const auto guard = acquire();
    ASSERT_TRUE(guard.ok()) << guard.status().to_string();
    EXPECT_TRUE(stop_.status("reading").ok());
    EXPECT_NE(said_.find("model@main#1 is read without a lease (in the way)"), std::string::npos) << said_;
    EXPECT_EQ(live(), 0U);
  }
}

TEST_F(LeaseGuardTest, ALeaseThatIsRequiredIsNotDoneWithout) {
  for (const Code code : {Code::kBusy, Code::kNoSpace, Code::kDurabilityFailed, Code::kUnknownOutcome}) {
    refusing_.refusals = {Status(code, "in the way")};
    EXPECT_EQ(LeaseGuard::acquire(context_, record_, {.required = true}, stop_).code(), code);
    EXPECT_EQ(live(), 0U);
  }
  runtime_.while_waiting = [&] { EXPECT_EQ(catalog_.list_leases(record_.identity)->at(0).lease.holder, "engine"); };
  const auto guard = LeaseGuard::acquire(context_, record_, {.holder = "engine", .required = true}, stop_);
  ASSERT_TRUE(guard.ok()) << guard.status().to_string();
  EXPECT_EQ((*guard)->lease_id(), catalog_.list_leases(record_.identity)->at(0).lease.lease_id);
}

TEST_F(LeaseGuardTest, TheLeaseIsTakenLaterWhereItCan) {
  refusing_.refusals = {Status(Code::kBusy, "in the way")};
  runtime_.while_waiting = [&] { EXPECT_EQ(live(), 0U); };
  {
    const auto guard = acquire();
    ASSERT_TRUE(guard.ok()) << guard.status().to_string();
    EXPECT_EQ(live(), 1U);
  }
  EXPECT_EQ(live(), 0U) << "released";
}

TEST_F(LeaseGuardTest, WhoReadsWithoutOneStopsWhenTheRevisionGoes) {
  refusing_.refusals = {Status(Code::kBusy, "in the way")};
  runtime_.while_waiting = [&] {
    metadata::DeleteWeightRevision command;
    command.identity = record_.identity;
    command.expected_metadata_generation = record_.metadata_generation;
    ASSERT_TRUE(catalog_.delete_weight_revision(command).ok());
  };
  const auto guard = acquire();
  ASSERT_TRUE(guard.ok()) << guard.status().to_string();
  EXPECT_EQ(stop_.status("reading").code(), Code::kNotReady);
}

TEST_F(LeaseGuardTest, TooManyLeasesAreStillRefused) {
  metadata::AcquireLease command;
  command.identity = record_.identity;
  command.holder = "h";
  command.ttl_ms = limits::kLeaseTtlMsMax;
  ASSERT_TRUE(
      log_->write([&](const oplog::StateView& view, const oplog::Now& now) -> Result<std::vector<oplog::Entry>> {
            std::vector<oplog::Entry> entries;
            for (std::size_t i = 0; i < limits::kLeasesPerRevisionMax; ++i) {
              command.nonce = std::to_string(i);
              SY_ASSIGN_OR_RETURN(auto prepared, metadata::WeightMetadataStore::prepare(view, command, now));
              std::ranges::move(prepared.entries, std::back_inserter(entries));
            }
            return entries;
          })
          .ok());
  ASSERT_EQ(live(), limits::kLeasesPerRevisionMax);
  const auto guard = acquire();
  EXPECT_EQ(guard.code(), Code::kBusy);
  EXPECT_NE(guard.status().message().find("the cap is 10000"), std::string::npos) << guard.status().to_string();
}

}  // namespace
}  // namespace steelyard::store
