// What deletes and gc do with replicas in memory.
#include <gtest/gtest.h>

#include "hash/sha256.h"
#include "store/delete.h"
#include "store/gc.h"
#include "store/test_hot_store.h"

namespace steelyard::store {
namespace {

class HotRemovalTest : public HotStoreTest {
 protected:
  /// As another user's, in which this process may only read.
  void use_read_only() {
    hot_.emplace([this](bool /*create*/) {
      tiers::MemoryOptions foreign;
      foreign.path = memory_.path();
      foreign.store_id = parts_.store_id;
      foreign.read_only = true;
      return tiers::open_memory(runtime_, foreign);
    });
  }
  Result<RemovalResult> remove() {
    DeleteRequest request;
    request.target = request_.target;
    return run_delete(*context_, request, cancel_);
  }
};

TEST_F(HotRemovalTest, MemoryOfOthersDoesNotKeepARevision) {
  ASSERT_TRUE(rehydrate().ok());
  use_read_only();
  const auto removed = remove();
  ASSERT_TRUE(removed.ok()) << removed.status().to_string();
  EXPECT_EQ(record().availability, metadata::Availability::kDeleted);
  const auto in_vain = run_gc(*context_, false, cancel_);
  ASSERT_TRUE(in_vain.ok()) << in_vain.status().to_string();
  EXPECT_EQ(in_vain->bytes, 0U) << "nothing went";
  ASSERT_EQ(in_vain->kept.size(), 1U);
  EXPECT_NE(in_vain->kept[0].find("in memory"), std::string::npos) << in_vain->kept[0];
  hot_.emplace(parts_.open_hot);
  EXPECT_EQ(hot_bytes(), kObjects * kMiB);
  ASSERT_TRUE(run_gc(*context_, false, cancel_).ok());
  EXPECT_EQ(hot_bytes(), 0U) << "theirs ends it";
}

TEST_F(HotRemovalTest, ALateGcRemovesWhatItHeld) {
  ASSERT_TRUE(rehydrate().ok());
  tiers::AttemptName begun = attempt_of(record());
  use_read_only();
  ASSERT_TRUE(remove().ok());
  hot_.emplace(parts_.open_hot);
  begun.operation = std::string(32, 'f');
  const auto tier = hot_->make().value();
  const std::vector<std::byte> bytes(kMiB, std::byte{1});
  bool put = false;
  runtime_.on("gc.after_hold_hot", [&] {
    // What lies there by now, this gc has not judged.
    auto pending = tier->start_put({begun, tiers::ObjectKind::kPayload, 0}, bytes, hash::sha256(bytes));
    put = pending.ok() && (*pending)->finish().ok();
  });
  ASSERT_TRUE(run_gc(*context_, false, cancel_).ok());
  runtime_.on("gc.after_hold_hot", {});
  EXPECT_TRUE(put);
  EXPECT_EQ(hot_bytes(), kMiB);
}

}  // namespace
}  // namespace steelyard::store
