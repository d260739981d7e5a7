#include "tiers/fill.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/limits.h"
#include "hash/sha256.h"
#include "hash/xxh3.h"
#include "tiers/fault_injecting.h"
#include "tiers/open.h"
#include "tiers/simulated.h"

namespace steelyard::tiers {
namespace {

using limits::kMiB;
using testing::HasSubstr;

const std::string kGroup(64, 'a');
const ObjectName kCold{{kGroup, 1}, ObjectKind::kPayload, 3};
const ObjectName kHot{{kGroup, 1, std::string(32, 'b')}, ObjectKind::kPayload, 3};

class Fill : public testing::TestWithParam<std::uint64_t> {
 protected:
  void SetUp() override {
    cold_ = std::move(open_simulated(real_runtime(), disk_)).value();
    hot_ = std::move(open_simulated(real_runtime(), ram_)).value();
  }
  /// An object in the cold tier, and what its manifest says of it.
  FillRequest make(std::uint64_t bytes) {
    data_ = AlignedBuffer::allocate(bytes).value();
    real_runtime().fill_random(data_.span());
    const ByteView view = data_.span().first(bytes);
    sums_.clear();
    hash::append_block_sums(view, limits::kBlockBytes, sums_);
    FillRequest request{kCold, kHot, bytes, hash::sha256(view), sums_};
    auto put = cold_->start_put(kCold, view, request.sha256);
    EXPECT_TRUE(put.ok() && (*put)->finish().ok());
    EXPECT_TRUE(cold_->flush(kCold.in).ok());
    return request;
  }
  Result<PutOutcome> run(const FillRequest& request) { return fill(*cold_, *hot_, request, memory_.span()); }
  bool hot_holds(const FillRequest& request) {
    std::vector<std::byte> found(request.bytes);
    return hot_->read(kHot, {{0, found}}).ok() && std::equal(found.begin(), found.end(), data_.data());
  }

  std::shared_ptr<SimulatedDisk> disk_ = std::make_shared<SimulatedDisk>(1);
  std::shared_ptr<SimulatedDisk> ram_ = std::make_shared<SimulatedDisk>(2, SimulatedMedium::kMemory);
  std::unique_ptr<Tier> cold_;
  std::unique_ptr<Tier> hot_;
  AlignedBuffer memory_ = AlignedBuffer::allocate(3 * kMiB).value();
  AlignedBuffer data_;
  std::vector<std::uint64_t> sums_;
};

TEST_P(Fill, CopiesEveryByteAndLinksTheNextTime) {
  const FillRequest request = make(GetParam());
  std::uint64_t last = 0;
  const auto outcome = fill(*cold_, *hot_, request, memory_.span(), [&](std::uint64_t done) {
    EXPECT_GE(done, last);
    last = done;
    return Status();
  });
  ASSERT_TRUE(outcome.ok()) << outcome.status().to_string();
  EXPECT_EQ(*outcome, PutOutcome::kWritten);
  EXPECT_EQ(last, request.bytes);
  EXPECT_TRUE(hot_holds(request));
  ASSERT_TRUE(cold_->remove_attempt(kCold.in).ok());
  FillRequest again = request;
  again.to.in.operation = std::string(32, 'c');
  EXPECT_EQ(*run(again), PutOutcome::kLinked) << "nothing is read for content that is there";
}

INSTANTIATE_TEST_SUITE_P(Sizes, Fill, testing::Values(0, 1, kMiB - 1, kMiB, kMiB + 1, 3 * kMiB, 11 * kMiB + 77));

TEST_F(Fill, DamageIsNamedAndShowsNothing) {
  for (const std::uint64_t at : {std::uint64_t{0}, 4 * kMiB + 9, 7 * kMiB + 99}) {
    const FillRequest request = make(7 * kMiB + 100);
    ASSERT_TRUE(disk_->rot(kCold, at));
    const Status status = run(request).status();
    EXPECT_EQ(status.code(), Code::kCorrupt);
    EXPECT_THAT(status.message(), HasSubstr("payload 00000003"));
    EXPECT_THAT(status.message(), HasSubstr("block " + std::to_string(at / kMiB)));
    EXPECT_THAT(status.message(), HasSubstr(hash::xxh3_hex(sums_[at / kMiB])));
    EXPECT_EQ(hot_->stat(kHot).code(), Code::kNotFound);
    ASSERT_TRUE(cold_->remove_attempt(kCold.in).ok());
    ASSERT_TRUE(cold_->remove_content(request.sha256).ok());
  }
  const FillRequest request = make(5 * kMiB);
  ASSERT_TRUE(disk_->truncate(kCold, 4 * kMiB));
  EXPECT_EQ(run(request).code(), Code::kCorrupt);
  EXPECT_EQ(hot_->stat(kHot).code(), Code::kNotFound);
}

TEST_F(Fill, EndsWhereItIsToldTo) {
  const FillRequest request = make(5 * kMiB);
  int asked = 0;
  const auto cancel = [&](std::uint64_t) { return ++asked == 2 ? Status(Code::kBusy, "cancelled") : Status(); };
  EXPECT_EQ(fill(*cold_, *hot_, request, memory_.span(), cancel).code(), Code::kBusy);
  EXPECT_EQ(hot_->stat(kHot).code(), Code::kNotFound);
  EXPECT_EQ(ram_->temporaries(), 0U);
  EXPECT_TRUE(run(request).ok());
}

TEST_F(Fill, SumsAreAsManyAsBlocks) {
  FillRequest request = make(2 * kMiB + 1);
  request.blocks = std::span(sums_).first(2);
  EXPECT_EQ(run(request).code(), Code::kInvalidArgument);
}

TEST_F(Fill, FaultsOnEitherSideNeverShowOtherBytes) {
  const FillRequest request = make(5 * kMiB + 5);
  int failed = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    FaultPlan plan;
    plan.seed = seed;
    plan.error = plan.no_space = plan.short_write = plan.bit_rot = plan.lost_answer = 60'000;
    const auto cold =
        make_fault_injecting(real_runtime(), std::move(open_simulated(real_runtime(), disk_)).value(), plan);
    const auto hot =
        make_fault_injecting(real_runtime(), std::move(open_simulated(real_runtime(), ram_)).value(), plan);
    const auto outcome = fill(*cold, *hot, request, memory_.span());
    failed += outcome.ok() ? 0 : 1;
    if (outcome.ok() || hot_->stat(kHot).ok()) {
      EXPECT_TRUE(hot_holds(request)) << seed;
    }
    ASSERT_TRUE(hot_->remove_attempt(kHot.in).ok());
  }
  EXPECT_GT(failed, 5);
}

}  // namespace
}  // namespace steelyard::tiers
