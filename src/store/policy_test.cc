#include "store/policy.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/limits.h"
#include "tiers/directory/test_folder.h"

namespace steelyard::store {
namespace {

using metadata::PolicyMode;
using metadata::Residency;

class Silent final : public Observer {
 public:
  void progress(const Progress& /*progress*/) override {}
  void warning(const std::string& /*message*/) override {}
};

class PolicyTest : public testing::Test {
 protected:
  void SetUp() override {
    StoreOptions options;
    options.path = root_.path() + "/store";
    options.cold_reserve_free = 0;
    store_ = Store::open(real_runtime(), options, OpenMode::kCreate).value();
    std::filesystem::create_directory(root_.path() + "/src");
    std::ofstream(root_.path() + "/src/config.json") << "{}";
    std::ofstream(root_.path() + "/src/weights.bin") << std::string(3 * limits::kMiB, 'w');  // two objects and more
    ImportRequest request;
    request.chunk_bytes = limits::kMiB;
    request.source = root_.path() + "/src";
    request.target.ref = {"m", "main", std::nullopt};
    request.checkpoint.allow_empty = true;
    request.policy = {Residency::kMixed, 250'000, PolicyMode::kAuto};
    Silent silent;
    const CancelFlag never{false};
    const auto imported = store_->import(request, silent, never);
    ASSERT_TRUE(imported.ok()) << imported.status().to_string();
    request_.target.ref = {"m", "main", std::nullopt};
  }
  PolicyRequest changing(std::optional<Residency> prefer, std::optional<std::uint32_t> ratio = std::nullopt) const {
    PolicyRequest request;
    request.target = request_.target;
    request.prefer = prefer;
    request.ratio_millionths = ratio;
    return request;
  }
  metadata::RevisionRecord record() { return store_->find(request_.target).value(); }

  tiers::TestFolder root_;
  std::unique_ptr<Store> store_;
  PolicyRequest request_;
};

TEST_F(PolicyTest, WhatIsAbsentStaysAndARatioGoesWithMixedAlone) {
  request_.mode = PolicyMode::kManual;
  EXPECT_EQ(store_->update_policy(request_)->policy,
            (metadata::Policy{Residency::kMixed, 250'000, PolicyMode::kManual}));
  request_ = changing({}, 500'000);
  EXPECT_EQ(store_->update_policy(request_)->policy,
            (metadata::Policy{Residency::kMixed, 500'000, PolicyMode::kManual}));
  request_ = changing(Residency::kHot);
  EXPECT_EQ(store_->update_policy(request_)->policy, (metadata::Policy{Residency::kHot, {}, PolicyMode::kManual}));
  const std::uint64_t before = record().metadata_generation;
  request_.ratio_millionths = 500'000;
  EXPECT_EQ(store_->update_policy(request_).code(), Code::kInvalidArgument);
  request_ = changing(Residency::kMixed);
  EXPECT_EQ(store_->update_policy(request_).code(), Code::kInvalidArgument) << "what ratio?";
  request_ = changing(Residency::kMixed, 1'000'000);
  EXPECT_EQ(store_->update_policy(request_).code(), Code::kInvalidArgument);
  request_ = changing(Residency::kAbsent);
  EXPECT_EQ(store_->update_policy(request_).code(), Code::kInvalidArgument);
  EXPECT_EQ(record().metadata_generation, before);
}

TEST_F(PolicyTest, TheSameAgainAppendsNothingAndAFenceHolds) {
  const std::uint64_t before = record().metadata_generation;
  request_.mode = PolicyMode::kAuto;
  EXPECT_EQ(store_->update_policy(request_)->metadata_generation, before);
  request_.mode = PolicyMode::kPinned;
  request_.expected_generation = before;
  EXPECT_EQ(store_->update_policy(request_)->metadata_generation, before + 1);
  EXPECT_EQ(store_->update_policy(request_)->metadata_generation, before + 1) << "a retry";
  request_.mode = PolicyMode::kManual;
  EXPECT_EQ(store_->update_policy(request_).code(), Code::kStaleGeneration);
  request_.target.ref.weight_generation = 2;
  EXPECT_EQ(store_->update_policy(request_).code(), Code::kNotFound);
}

}  // namespace
}  // namespace steelyard::store
