// The executor and rebinding: what they refuse before a byte moves, and what they copy.
#include "reshard/execute.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "reshard/copy_runs.h"
#include "reshard/rebind.h"
#include "reshard/test_models.h"

namespace steelyard::reshard {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using testing::sharded;
using testing::TestMemory;
using testing::TestModel;

class Execute : public ::testing::Test {
 protected:
  placement::RuntimeBindingManifest bind(const placement::PlacementManifest& placement, TestMemory& memory,
                                         const std::string& revision = "r") {
    placement::BindingBuilder builder(
        {"m", revision, placement.placement_id(), placement.digest(), "instance", 7, "lease"});
    const auto ranges = memory.ranges();
    for (std::size_t f = 0; f < ranges.size(); ++f) {
      const std::string id = "f" + std::to_string(f);
      const Status added = builder.add_fragment(
          {placement.fragments().ids.at(f), id, {ranges[f].address, "w", "e", "cpu"}, ranges[f].nbytes, nullptr});
      EXPECT_TRUE(added.ok()) << added.to_string();
    }
    return std::move(builder).build().value();
  }

  std::string refusal(const std::vector<FragmentMemory>& source_memory,
                      const std::vector<FragmentMemory>& target_memory, ExecuteOptions options = {}) {
    const auto report = execute(plan, source_memory, target_memory, options);
    EXPECT_FALSE(report.ok());
    for (std::size_t f = 0; f < 2; ++f) EXPECT_THAT(to.block(f), Each(std::byte{0xee}));
    return report.status().message();
  }

  placement::PlacementManifest source = sharded("s", {8, 4}, 0, 4).build().value();
  placement::PlacementManifest target = sharded("d", {8, 4}, 1, 2).build().value();
  TransferPlan plan = plan_transfer(source, target).value();
  TestMemory from{plan.source()};
  TestMemory to{plan.target()};
};

TEST_F(Execute, MemoryThatDoesNotFitIsRefusedBeforeAByteMoves) {
  auto ranges = from.ranges();
  ranges.pop_back();
  EXPECT_THAT(refusal(ranges, to.ranges()), HasSubstr("source_memory: 3 ranges for the 4 fragments"));
  ranges = from.ranges();
  ranges[1].address = 0;
  EXPECT_THAT(refusal(ranges, to.ranges()), HasSubstr("source fragment \"s0.1\": it has no address"));
  ranges = from.ranges();
  ranges[3].nbytes -= 1;
  EXPECT_THAT(refusal(ranges, to.ranges()),
              HasSubstr("source fragment \"s0.3\": its memory has 15 bytes, the plan needs 16"));
  ranges = from.ranges();
  ranges[0] = {UINT64_MAX - 8, 16};
  EXPECT_THAT(refusal(ranges, to.ranges()), HasSubstr("address range must fit in an unsigned 64-bit integer"));
  ranges = from.ranges();
  ranges[2].address = to.ranges()[0].address + 8;
  EXPECT_THAT(refusal(ranges, to.ranges()), HasSubstr("address ranges overlap"));
  auto targets = to.ranges();
  targets[1].address = targets[0].address + 1;
  EXPECT_THAT(refusal(from.ranges(), targets), HasSubstr("address ranges overlap"));
  ExecuteOptions none;
  none.threads = 0;
  EXPECT_THAT(refusal(from.ranges(), to.ranges(), none), HasSubstr("threads must be at least 1"));
}

TEST_F(Execute, TwoTargetsShareARangeOnlyWhereBothDeclareIt) {
  // An output layer that is the embedding: one piece of memory under two names.
  const auto tied = [](const std::string& prefix, const std::vector<std::string>& head_aliases) {
    const std::vector<std::string> names{"embed", "head"};
    TestModel model;
    model.tensors = {{"embed", {8, 4}}, {"head", {8, 4}}};
    model.fragments = {{prefix + "embed", "embed", {0, 0}, {8, 4}, {}, names},
                       {prefix + "head", "head", {0, 0}, {8, 4}, {}, head_aliases}};
    return model.build().value();
  };
  const auto run = [&](const std::vector<std::string>& head_aliases) {
    const auto tied_plan = plan_transfer(tied("s", {}), tied("d", head_aliases)).value();
    TestMemory tied_source(tied_plan.source());
    TestMemory tied_target(tied_plan.target());
    for (std::size_t f = 0; f < 2; ++f) std::ranges::fill(tied_source.block(f), std::byte{5});
    auto targets = tied_target.ranges();
    targets[1] = targets[0];
    const auto report = execute(tied_plan, tied_source.ranges(), targets);
    EXPECT_THAT(tied_target.block(0), Each(report.ok() ? std::byte{5} : std::byte{0xee}));
    return report.status().message();
  };
  EXPECT_EQ(run({"embed", "head"}), "");
  EXPECT_THAT(run({}), HasSubstr("target fragment \"dembed\" and target fragment \"dhead\": address ranges overlap"));
  EXPECT_THAT(run({"embed", "other"}), HasSubstr("address ranges overlap"));
}

TEST_F(Execute, ALostFenceRefuses) {
  ExecuteOptions options;
  options.fence = [] { return Status(Code::kLeaseExpired, "the lease is over"); };
  EXPECT_THAT(refusal(from.ranges(), to.ranges(), options), HasSubstr("the lease is over"));
  int asked = 0;
  options.fence = [&] { return ++asked == 1 ? Status() : Status(Code::kLeaseExpired, "the lease is over"); };
  const auto late = execute(plan, from.ranges(), to.ranges(), options);
  EXPECT_EQ(late.code(), Code::kLeaseExpired);
}

TEST_F(Execute, ADryRunCountsAndCopiesNothing) {
  ExecuteOptions options;
  options.dry_run = true;
  const auto report = execute(plan, from.ranges(), to.ranges(), options);
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->bytes, 64U);
  EXPECT_EQ(report->regions, 8U);
  EXPECT_EQ(report->segments, 16U);
  EXPECT_EQ(report->source_fragments, 4U);
  EXPECT_THAT(to.block(0), Each(std::byte{0xee}));
}

TEST_F(Execute, VerifyFindsAFragmentThatChanged) {
  ExecuteOptions options;
  options.verify = true;
  options.fence = [&, asked = 0]() mutable {
    if (++asked == 2) to.block(1)[5] ^= std::byte{1};  // after the copy, before the comparison
    return Status();
  };
  const auto report = execute(plan, from.ranges(), to.ranges(), options);
  EXPECT_EQ(report.code(), Code::kCorrupt);
  EXPECT_THAT(report.status().message(), HasSubstr("target fragment \"d0.1\""));
}

TEST_F(Execute, ReboundPlansCopyFromTheirBindings) {
  const auto bound = rebind(plan, nullptr, bind(target, to));
  EXPECT_THAT(bound.status().message(), HasSubstr("it needs their binding"));
  const auto source_binding = bind(source, from);
  const auto both = rebind(plan, &source_binding, bind(target, to));
  ASSERT_TRUE(both.ok()) << both.status().to_string();
  for (std::size_t f = 0; f < 4; ++f) std::fill(from.block(f).begin(), from.block(f).end(), std::byte{1});
  const auto lost = execute(*both, ExpectedFence{"lease", 8}, std::nullopt);
  EXPECT_THAT(lost.status().message(), HasSubstr("generation"));
  EXPECT_FALSE(execute(*both, std::nullopt, ExpectedFence{"other", 7}).ok());
  EXPECT_THAT(to.block(0), Each(std::byte{0xee}));
  ASSERT_TRUE(execute(*both, ExpectedFence{"lease", 7}, ExpectedFence{"lease", 7}).ok());
  EXPECT_THAT(to.block(0), Each(std::byte{1}));
  EXPECT_THAT(to.block(1), Each(std::byte{1}));
}

TEST_F(Execute, AnotherRevisionIsReboundByItsLayout) {
  TestModel next_model = sharded("s", {8, 4}, 0, 4);
  next_model.revision = "next";
  const auto next = next_model.build().value();
  const auto next_binding = bind(next, from, "next");
  const auto target_binding = bind(target, to);
  EXPECT_THAT(rebind(plan, &next_binding, target_binding).status().message(), HasSubstr("revision differ"));
  EXPECT_TRUE(rebind(plan, &next_binding, target_binding, &next).ok());
  const auto other = sharded("s", {8, 4}, 1, 4).build().value();
  EXPECT_THAT(rebind(plan, &next_binding, target_binding, &other).status().message(),
              HasSubstr("source: the layout digests differ"));
}

TEST_F(Execute, AnIncompleteBindingIsNamed) {
  placement::BindingBuilder builder({"m", "r", source.placement_id(), source.digest(), "instance", 7, "lease"});
  ASSERT_TRUE(builder.add_fragment({source.fragments().ids.at(0), "f", {4096, "w", "e", "cpu"}, 16, nullptr}).ok());
  const auto part = std::move(builder).build().value();
  EXPECT_THAT(rebind(plan, &part, bind(target, to)).status().message(), HasSubstr("missing placement fragment"));
}

TEST(CopyRuns, EverySizeAndAlignmentIsExact) {
  constexpr std::uint64_t kGaps[] = {5, 16, 64};  // between runs of the target: alignment changes, or stays
  for (const std::uint64_t bytes :
       {1U, 2U, 3U, 4U, 7U, 8U, 16U, 31U, 32U, 64U, 128U, 511U, 512U, 513U, 528U, 1000U, 4096U}) {
    for (const std::uint64_t gap : kGaps) {
      for (const std::uint64_t shift : {0U, 1U, 13U, 16U, 26U, 32U, 39U, 48U, 52U, 63U}) {
        std::vector<std::byte> source(3 * (bytes + 9) + 128);
        for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<std::byte>(i * 131 + i / 251);
        for (const bool past_cache : {false, true}) {
          std::vector<std::byte> target(3 * (bytes + gap) + 128, std::byte{0xee});
          std::vector<std::byte> wanted = target;
          copy_runs({source.data() + shift, target.data() + 64 - shift, bytes, 3, bytes + 9, bytes + gap}, past_cache);
          finish_copies();
          for (std::uint64_t run = 0; run < 3; ++run) {
            std::copy_n(source.begin() + static_cast<std::ptrdiff_t>(shift + run * (bytes + 9)), bytes,
                        wanted.begin() + static_cast<std::ptrdiff_t>(64 - shift + run * (bytes + gap)));
          }
          ASSERT_EQ(target, wanted) << bytes << " " << gap << " " << shift;
        }
      }
    }
  }
}

}  // namespace
}  // namespace steelyard::reshard
