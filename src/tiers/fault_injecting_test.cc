#include "tiers/fault_injecting.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "hash/sha256.h"
#include "tests/conformance/tier_conformance.h"
#include "tiers/simulated.h"

namespace steelyard::tiers {
namespace {

constexpr std::uint32_t kAlways = 1'000'000;
const std::string kGroup(64, 'a');
const ObjectName kName{{kGroup, 1}, ObjectKind::kPayload, 0};

struct Subject {
  explicit Subject(FaultPlan plan) {
    plain = std::move(open_simulated(real_runtime(), disk)).value();
    faulty =
        make_fault_injecting(real_runtime(), std::move(open_simulated(real_runtime(), disk)).value(), plan, counts);
  }
  Status put(Tier& tier, const ObjectName& name = kName) {
    SY_ASSIGN_OR_RETURN(auto pending, tier.start_put(name, bytes, hash::sha256(bytes)));
    return pending->finish().status();
  }
  std::shared_ptr<SimulatedDisk> disk = std::make_shared<SimulatedDisk>(1);
  std::shared_ptr<FaultCounts> counts = std::make_shared<FaultCounts>();
  std::vector<std::byte> bytes = std::vector<std::byte>(3000, std::byte{5});
  std::unique_ptr<Tier> plain;
  std::unique_ptr<Tier> faulty;
};

TEST(FaultInjecting, WithoutFaultsItIsTheTierBelow) {
  const auto disk = std::make_shared<SimulatedDisk>(1);
  conformance::TierUnderTest subject;
  subject.open = [&]() -> Result<std::unique_ptr<Tier>> {
    SY_ASSIGN_OR_RETURN(auto inner, open_simulated(real_runtime(), disk));
    return make_fault_injecting(real_runtime(), std::move(inner), {});
  };
  for (const auto& result : conformance::run_tier_conformance(real_runtime(), subject)) {
    EXPECT_NE(result.outcome, conformance::CaseResult::Outcome::kFailed) << result.name << ": " << result.detail;
  }
}

TEST(FaultInjecting, TheConformanceSuiteNoticesARottenTier) {
  const auto disk = std::make_shared<SimulatedDisk>(1);
  conformance::TierUnderTest subject;
  subject.open = [&]() -> Result<std::unique_ptr<Tier>> {
    SY_ASSIGN_OR_RETURN(auto inner, open_simulated(real_runtime(), disk));
    return make_fault_injecting(real_runtime(), std::move(inner), {.bit_rot = kAlways});
  };
  const auto results = conformance::run_tier_conformance(real_runtime(), subject);
  EXPECT_TRUE(std::any_of(results.begin(), results.end(), [](const auto& result) {
    return result.outcome == conformance::CaseResult::Outcome::kFailed;
  }));
}

TEST(FaultInjecting, AnErrorDoesNothing) {
  Subject subject({.error = kAlways});
  EXPECT_EQ(subject.put(*subject.faulty).code(), Code::kUnavailable);
  EXPECT_EQ(subject.plain->stat(kName).code(), Code::kNotFound);
  EXPECT_GT(subject.counts->of("error"), 0U);
}

TEST(FaultInjecting, NoSpaceDoesNothingAndReadingGoesOn) {
  Subject subject({.no_space = kAlways});
  EXPECT_EQ(subject.put(*subject.faulty).code(), Code::kNoSpace);
  ASSERT_TRUE(subject.put(*subject.plain).ok());
  EXPECT_TRUE(subject.faulty->stat(kName).ok());
  EXPECT_TRUE(subject.faulty->remove(kName).ok());
}

TEST(FaultInjecting, AShortWriteShowsNothing) {
  Subject subject({.short_write = kAlways});
  EXPECT_EQ(subject.put(*subject.faulty).code(), Code::kUnavailable);
  auto stream = subject.faulty->open_put(kName, subject.bytes.size(), hash::sha256(subject.bytes));
  ASSERT_TRUE(stream.ok());
  EXPECT_FALSE((*stream)->append(subject.bytes).ok());
  EXPECT_FALSE((*stream)->finish().ok());
  stream->reset();
  EXPECT_EQ(subject.plain->stat(kName).code(), Code::kNotFound);
  EXPECT_EQ(subject.disk->temporaries(), 0U);
}

TEST(FaultInjecting, ALostAnswerWasDone) {
  Subject subject({.lost_answer = kAlways});
  EXPECT_EQ(subject.put(*subject.faulty).code(), Code::kUnavailable);
  EXPECT_TRUE(subject.plain->stat(kName).ok());
  EXPECT_EQ(subject.faulty->put_committed(kName.in, "record").code(), Code::kUnavailable);
  EXPECT_EQ(*subject.plain->read_committed(kName.in), "record");
}

TEST(FaultInjecting, BitRotChangesOneBitOfWhatIsReadOnly) {
  Subject subject({.bit_rot = kAlways});
  ASSERT_TRUE(subject.put(*subject.plain).ok());
  std::vector<std::byte> found(subject.bytes.size());
  ASSERT_TRUE(subject.faulty->read(kName, {{0, found}}).ok());
  int bits = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    bits += __builtin_popcount(std::to_integer<unsigned>(found[i] ^ subject.bytes[i]));
  }
  EXPECT_EQ(bits, 1);
  ASSERT_TRUE(subject.plain->read(kName, {{0, found}}).ok());
  EXPECT_EQ(found, subject.bytes);
}

TEST(FaultInjecting, OneSeedGivesOneSequence) {
  const auto history = [](std::uint64_t seed) {
    Subject subject({.seed = seed, .error = 200'000, .short_write = 200'000, .lost_answer = 200'000});
    std::string shape;
    for (std::uint32_t i = 0; i < 64; ++i) {
      shape += subject.put(*subject.faulty, {{kGroup, 1}, ObjectKind::kPayload, i}).ok() ? '1' : '0';
    }
    return shape;
  };
  EXPECT_EQ(history(3), history(3));
  EXPECT_NE(history(3), history(4));
}

}  // namespace
}  // namespace steelyard::tiers
