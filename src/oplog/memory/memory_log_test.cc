#include <gtest/gtest.h>

#include "oplog/fault_injecting.h"
#include "oplog/open.h"
#include "oplog/replay.h"
#include "tests/conformance/op_log_conformance.h"

namespace steelyard::oplog::testing {
namespace {

class MemoryFixture final : public LogFixture {
 public:
  explicit MemoryFixture(bool standbys) : log_(open_memory(real_runtime(), standbys, plain_codec())) {}
  OpLog& log() override { return *log_; }
  void reopen() override {}

 private:
  std::unique_ptr<OpLog> log_;
};

class FaultlessFixture final : public LogFixture {
 public:
  OpLog& log() override { return outer_; }
  void reopen() override {}

 private:
  std::unique_ptr<OpLog> inner_ = open_memory(real_runtime(), false, plain_codec());
  FaultInjectingLog outer_{real_runtime(), *inner_, LogFaultPlan{}};
};

INSTANTIATE_TEST_SUITE_P(
    Memory, OpLogConformance,
    ::testing::Values(OpLogFactory{"Memory", [] { return std::make_unique<MemoryFixture>(false); },
                                   Capabilities{false, false, false, "memory"}},
                      OpLogFactory{"MemoryWithStandbys", [] { return std::make_unique<MemoryFixture>(true); },
                                   Capabilities{false, true, false, "memory"}},
                      OpLogFactory{"FaultInjectingWithoutFaults", [] { return std::make_unique<FaultlessFixture>(); },
                                   Capabilities{false, false, false, "memory"}}),
    factory_name);

class FaultInjecting : public ::testing::Test {
 protected:
  Code write(const std::string& value) {
    return log_
        .write([&](const StateView&, const Now&) -> Result<std::vector<Entry>> {
          return std::vector<Entry>{put("a", value)};
        })
        .code();
  }
  std::size_t appends() { return inner_->read(0, 1000)->size(); }

  std::vector<std::string> crashes_;
  std::unique_ptr<OpLog> inner_ = open_memory(real_runtime(), false, plain_codec());
  LogFaultPlan plan_ = [this] {
    LogFaultPlan plan;
    plan.on_crash = [this](std::string_view place) { crashes_.emplace_back(place); };
    return plan;
  }();
  FaultInjectingLog log_{real_runtime(), *inner_, plan_};
};

TEST_F(FaultInjecting, AnswersAreTrueOrUnknown) {
  log_.script({LogFault::kBefore, LogFault::kLostAnswer, LogFault::kLostAnswerUnreadable, LogFault::kLostRequest,
               LogFault::kLostRequestUnreadable});
  EXPECT_EQ(write("1"), Code::kDurabilityFailed);
  EXPECT_EQ(appends(), 0U);
  EXPECT_EQ(write("2"), Code::kOk);
  EXPECT_EQ(appends(), 1U);
  EXPECT_EQ(write("3"), Code::kUnknownOutcome);
  EXPECT_EQ(appends(), 2U);
  EXPECT_EQ(write("4"), Code::kDurabilityFailed);
  EXPECT_EQ(write("5"), Code::kUnknownOutcome);
  EXPECT_EQ(appends(), 2U);
  EXPECT_EQ(write("6"), Code::kOk);
}

TEST_F(FaultInjecting, CrashPointsStandBeforeAndAfterTheAppend) {
  log_.script({LogFault::kCrashBefore, LogFault::kCrashAfter});
  EXPECT_EQ(write("1"), Code::kOk);
  EXPECT_EQ(write("2"), Code::kOk);
  EXPECT_EQ(crashes_, (std::vector<std::string>{"log.crash_before", "log.crash_after"}));
}

TEST_F(FaultInjecting, ReadsCanBeUnavailable) {
  log_.set_reads_unavailable(true);
  EXPECT_EQ(log_.view([](const StateView&) { return Status(); }).code(), Code::kUnavailable);
  EXPECT_EQ(log_.read(0, 1).code(), Code::kUnavailable);
  log_.set_reads_unavailable(false);
  EXPECT_TRUE(log_.read(0, 1).ok());
}

TEST(FaultPlan, ASeedGivesTheSameFaultsAgain) {
  const auto history = [](std::uint64_t seed) {
    const auto inner = open_memory(real_runtime(), false, plain_codec());
    LogFaultPlan plan;
    plan.seed = seed;
    plan.before = plan.lost_answer = plan.lost_request = 200;
    plan.unreadable_after_loss = 500;
    FaultInjectingLog log(real_runtime(), *inner, plan);
    std::string codes;
    for (int i = 0; i < 100; ++i) codes.append(code_name(write_step(log, "w").status().code())).append(" ");
    return codes;
  };
  EXPECT_EQ(history(1), history(1));
  EXPECT_NE(history(1), history(2));
}

TEST(Replay, RefusesGapsAndIllegalSteps) {
  metadata::MemoryState state;
  Append append{1, std::string(16, 'x'), Now{"e", 1, 1}, {step(1)}};
  EXPECT_TRUE(replay(append, plain_codec(), state).ok());
  append.sequence = 3;
  append.entries = {step(2)};
  EXPECT_EQ(replay(append, plain_codec(), state).code(), Code::kCorrupt);
  append.sequence = 2;
  append.entries = {step(3)};
  EXPECT_EQ(replay(append, plain_codec(), state).code(), Code::kCorrupt);
  append.entries = {Entry{"fly away"}};
  EXPECT_EQ(replay(append, plain_codec(), state).code(), Code::kUnavailable);
}

}  // namespace
}  // namespace steelyard::oplog::testing
