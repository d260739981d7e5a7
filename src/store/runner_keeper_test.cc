// How soon a runner hears that its operation is its own no more.
#include "store/runner_keeper.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "oplog/open.h"
#include "store/group_observer.h"
#include "store/test_one_wait.h"
#include "tiers/simulated.h"

namespace steelyard::store {
namespace {

constexpr std::int64_t kTtlMs = 60'000;

class RunnerKeeperTest : public testing::Test {
 protected:
  void SetUp() override {
    record_ = publish_without_members(catalog_, *log_);
    metadata::StartOperation start;
    start.identity = record_.identity;
    start.expected_metadata_generation = record_.metadata_generation;
    start.operation_id = std::string(32, '1');
    start.kind = metadata::OperationKind::kRepairing;
    start.total_members = 1;
    start.total_bytes = 1;
    start.runner = runner_grant(runtime_, kTtlMs);
    const auto started = catalog_.start_operation(start);
    ASSERT_TRUE(started.ok()) << started.status().to_string();
    record_ = *started->record;
    token_ = {start.operation_id, started->runner->token, started->runner->run_attempt};
  }
  /// Runs a keeper while this happens; how long it waited for its look.
  std::int64_t look_during(std::function<void()> happens) {
    const std::int64_t began = runtime_.now_ms;
    runtime_.while_waiting = std::move(happens);
    const RunnerKeeper keeper(runtime_, catalog_, record_, token_, {}, kTtlMs, stop_);
    return runtime_.now_ms - began;
  }

  OneWait runtime_;
  std::shared_ptr<tiers::SimulatedDisk> disk_ = std::make_shared<tiers::SimulatedDisk>(1);
  std::unique_ptr<tiers::Tier> cold_ = std::move(tiers::open_simulated(runtime_, disk_)).value();
  std::unique_ptr<oplog::OpLog> log_ = oplog::open_memory(runtime_);
  TierObserver observer_{*cold_};
  catalog::Catalog catalog_{runtime_, *log_, observer_, {}};
  metadata::RevisionRecord record_;
  metadata::RunnerToken token_;
  const CancelFlag cancel_{false};
  StopSignal stop_{cancel_};
};

TEST_F(RunnerKeeperTest, ACancelIsHeardAtTheNextLook) {
  EXPECT_LE(look_during([&] { ASSERT_TRUE(catalog_.cancel_operation({token_.operation_id}).ok()); }), 200);
  EXPECT_EQ(stop_.status("the repair").code(), Code::kStaleGeneration);
}

TEST_F(RunnerKeeperTest, SoIsATakeover) {
  const auto take = [&] {
    metadata::ReportOperation back;
    back.identity = record_.identity;
    back.token = token_;
    back.give_back = true;
    ASSERT_TRUE(catalog_.report_operation(back).ok());
    metadata::TakeOperation command;
    command.identity = record_.identity;
    command.operation_id = token_.operation_id;
    command.runner = runner_grant(runtime_, kTtlMs);
    ASSERT_TRUE(catalog_.take_operation(command).ok());
  };
  EXPECT_LE(look_during(take), 200);
  EXPECT_EQ(stop_.status("the repair").code(), Code::kStaleGeneration);
}

TEST_F(RunnerKeeperTest, ALookAppendsNothing) {
  std::uint64_t before = 0;
  look_during([&] { before = catalog_.sequence().value(); });
  EXPECT_TRUE(stop_.status("the repair").ok());
  EXPECT_EQ(catalog_.sequence().value(), before + 1) << "the end of the keeper, which gives the token back";
}

}  // namespace
}  // namespace steelyard::store
