#include <gtest/gtest.h>

#include "hash/sha256.h"
#include "tests/conformance/tier_conformance.h"
#include "tiers/directory/test_folder.h"
#include "tiers/open.h"
#include "tiers/simulated.h"

namespace steelyard::tiers {
namespace {

constexpr std::size_t kMiB = 1024 * 1024;
const std::string kGroup(64, 'a');

Status put(Tier& tier, const ObjectName& name, ByteView data) {
  SY_ASSIGN_OR_RETURN(auto pending, tier.start_put(name, data, hash::sha256(data)));
  return pending->finish().status();
}

class SimulatedConformance : public testing::TestWithParam<SimulatedMedium> {};

TEST_P(SimulatedConformance, AllCases) {
  const auto disk = std::make_shared<SimulatedDisk>(1, GetParam());
  if (GetParam() == SimulatedMedium::kMemory) disk->set_capacity(64 * kMiB);
  conformance::TierUnderTest subject;
  subject.open = [&] { return open_simulated(real_runtime(), disk); };
  subject.add_foreign = [&](const AttemptName& attempt, const std::string& name) {
    disk->add_foreign(attempt, name);
    return Status();
  };
  subject.block_removal = [&](const ObjectName& name) -> std::function<void()> {
    disk->block_removal(name, true);
    return [disk, name] { disk->block_removal(name, false); };
  };
  for (const auto& result : conformance::run_tier_conformance(real_runtime(), subject)) {
    EXPECT_EQ(result.outcome, conformance::CaseResult::Outcome::kPassed) << result.name << ": " << result.detail;
  }
}

INSTANTIATE_TEST_SUITE_P(Media, SimulatedConformance,
                         testing::Values(SimulatedMedium::kDisk, SimulatedMedium::kMemory));

TEST(SimulatedTier, AMemoryThatVanishesTakesItsInstanceAndLeavesMappings) {
  const auto memory = std::make_shared<SimulatedDisk>(1, SimulatedMedium::kMemory);
  EXPECT_EQ(open_simulated(real_runtime(), memory, false).code(), Code::kNotFound);
  auto before = std::move(open_simulated(real_runtime(), memory)).value();
  const std::vector<std::byte> bytes(5000, std::byte{7});
  const ObjectName name{{kGroup, 1, std::string(32, 'f')}, ObjectKind::kPayload, 0};
  ASSERT_TRUE(put(*before, name, bytes).ok());
  const AddressRange range = AddressRange::reserve(5000).value();
  ASSERT_TRUE(before->map(name, 5000, range, 0).ok());
  const std::string instance = *before->instance();
  memory->vanish();
  EXPECT_EQ(before->instance().code(), Code::kUnavailable);
  EXPECT_EQ(before->stat(name).code(), Code::kUnavailable) << "nothing is known of it";
  EXPECT_EQ(range.view(0, 1)[0], std::byte{7});
  auto after = std::move(open_simulated(real_runtime(), memory)).value();
  EXPECT_EQ(after->stat(name).code(), Code::kNotFound);
  EXPECT_NE(*after->instance(), instance);
  ASSERT_TRUE(put(*after, name, bytes).ok());
  memory->crash();
  EXPECT_EQ(after->stat(name).code(), Code::kUnavailable);
  EXPECT_EQ((*open_simulated(real_runtime(), memory))->usage()->bytes, 0U);
}

TEST(SimulatedTier, WhatWasFlushedSurvivesEveryCrashAndWhatWasNotMayBeLostOrTorn) {
  const std::vector<std::byte> small(5000, std::byte{7});
  const std::vector<std::byte> large(2 * kMiB, std::byte{9});
  int lost = 0;
  int torn = 0;
  int whole = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const auto disk = std::make_shared<SimulatedDisk>(seed);
    auto before = std::move(open_simulated(real_runtime(), disk)).value();
    const ObjectName flushed{{kGroup, 1}, ObjectKind::kPayload, 0};
    const ObjectName not_flushed{{kGroup, 2}, ObjectKind::kPayload, 0};
    const ObjectName not_flushed_large{{kGroup, 2}, ObjectKind::kPayload, 1};
    ASSERT_TRUE(put(*before, flushed, std::span(small).first(4000)).ok());
    ASSERT_TRUE(before->flush(flushed.in).ok());
    ASSERT_TRUE(put(*before, not_flushed, small).ok());
    ASSERT_TRUE(put(*before, not_flushed_large, large).ok());
    disk->crash();
    EXPECT_EQ(before->stat(flushed).code(), Code::kUnavailable) << "the machine is gone";
    auto after = std::move(open_simulated(real_runtime(), disk)).value();
    std::vector<std::byte> found(4000);
    ASSERT_TRUE(after->read(flushed, {{0, found}}).ok());
    EXPECT_TRUE(std::equal(found.begin(), found.end(), small.begin()));
    if (const auto stat = after->stat(not_flushed_large); stat.ok()) {
      std::vector<std::byte> bytes(large.size());
      ASSERT_TRUE(after->read(not_flushed_large, {{0, bytes}}).ok());
      EXPECT_EQ(bytes, large) << "large bytes are durable before they have a name";
    }
    const auto entries = after->list_content();
    ASSERT_TRUE(entries.ok());
    for (const auto& entry : *entries) {
      const ObjectName linked{{kGroup, 3}, ObjectKind::kPayload, 0};
      ASSERT_TRUE(*after->link(linked, entry.sha256, entry.bytes));
      std::vector<std::byte> bytes(entry.bytes);
      ASSERT_TRUE(after->read(linked, {{0, bytes}}).ok());
      EXPECT_EQ(hash::sha256(bytes), entry.sha256) << "an entry is never there without its bytes";
      ASSERT_TRUE(after->remove(linked).ok());
    }
    std::vector<std::byte> bytes(small.size());
    if (after->stat(not_flushed).code() == Code::kNotFound) {
      ++lost;
    } else if (after->read(not_flushed, {{0, bytes}}).ok() && bytes == small) {
      ++whole;
    } else {
      ++torn;
    }
  }
  EXPECT_GT(lost, 6);
  EXPECT_GT(torn, 6);
  EXPECT_GT(whole, 3);
}

TEST(SimulatedTier, OneSeedGivesOneCrash) {
  const auto history = [](std::uint64_t seed) {
    const auto disk = std::make_shared<SimulatedDisk>(seed);
    auto tier = std::move(open_simulated(real_runtime(), disk)).value();
    std::string shape;
    for (std::uint32_t i = 0; i < 32; ++i) {
      const std::vector<std::byte> bytes(100 + i, std::byte{1});
      EXPECT_TRUE(put(*tier, {{kGroup, 1}, ObjectKind::kPayload, i}, bytes).ok());
    }
    disk->crash();
    tier = std::move(open_simulated(real_runtime(), disk)).value();
    const auto objects = tier->list_attempt({kGroup, 1});
    for (const auto& object : *objects) {
      shape += std::to_string(object.name.index) + ":" + std::to_string(object.bytes) + " ";
    }
    return shape;
  };
  EXPECT_EQ(history(5), history(5));
  EXPECT_NE(history(5), history(6));
}

TEST(SimulatedTier, AKilledWritersTemporaryStaysUntilItIsRemoved) {
  const auto disk = std::make_shared<SimulatedDisk>(1);
  auto tier = std::move(open_simulated(real_runtime(), disk)).value();
  const std::vector<std::byte> bytes(100, std::byte{1});
  const ObjectName name{{kGroup, 1}, ObjectKind::kPayload, 0};
  auto pending = tier->start_put(name, bytes, hash::sha256(bytes));
  ASSERT_TRUE(pending.ok());
  disk->kill_pending_puts();
  EXPECT_FALSE((*pending)->finish().ok());
  pending->reset();
  EXPECT_EQ(disk->temporaries(), 1U);
  ASSERT_TRUE(tier->remove_temporaries(name.in, 0).ok());
  EXPECT_EQ(disk->temporaries(), 0U);
}

TEST(SimulatedTier, AReplacementWhoseTemporaryNameGoesIsDoneAgain) {
  const auto disk = std::make_shared<SimulatedDisk>(1);
  FaultRuntime runtime;
  auto tier = std::move(open_simulated(runtime, disk)).value();
  auto other = std::move(open_simulated(real_runtime(), disk)).value();
  const std::vector<std::byte> before(100, std::byte{1});
  const std::vector<std::byte> after(100, std::byte{2});
  const ObjectName name{{kGroup, 1}, ObjectKind::kPayload, 0};
  ASSERT_TRUE(put(*tier, name, before).ok());
  ASSERT_TRUE(put(*tier, {{kGroup, 2}, ObjectKind::kPayload, 0}, after).ok());
  ASSERT_TRUE(tier->flush({kGroup, 2}).ok());
  std::vector<std::byte> found(100);
  int thefts = 1000;
  runtime.on("replace.after_link", [&] {
    EXPECT_EQ(disk->temporaries(), 1U);
    if (thefts-- <= 0) return;
    EXPECT_TRUE(other->remove_temporaries(name.in, 0).ok());
  });
  EXPECT_EQ(tier->relink({name}, hash::sha256(after), 100).code(), Code::kUnavailable);
  ASSERT_TRUE(tier->read(name, {{0, found}}).ok());
  EXPECT_EQ(found, before);
  thefts = 3;
  EXPECT_TRUE(*tier->relink({name}, hash::sha256(after), 100));
  ASSERT_TRUE(tier->read(name, {{0, found}}).ok());
  EXPECT_EQ(found, after);
  EXPECT_EQ(disk->temporaries(), 0U);
}

TEST(SimulatedTier, FullIsNoSpaceAndShowsNothing) {
  const auto disk = std::make_shared<SimulatedDisk>(1);
  disk->set_capacity(1000);
  auto tier = std::move(open_simulated(real_runtime(), disk)).value();
  const std::vector<std::byte> bytes(600, std::byte{1});
  ASSERT_TRUE(put(*tier, {{kGroup, 1}, ObjectKind::kPayload, 0}, bytes).ok());
  const Status status = put(*tier, {{kGroup, 1}, ObjectKind::kPayload, 1}, std::span(bytes).first(500));
  EXPECT_EQ(status.code(), Code::kNoSpace);
  EXPECT_EQ(tier->list_attempt({kGroup, 1})->size(), 1U);
  EXPECT_EQ(disk->temporaries(), 0U);
  EXPECT_EQ(disk->written_bytes(), 600U);
}

}  // namespace
}  // namespace steelyard::tiers
