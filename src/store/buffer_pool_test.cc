#include "store/buffer_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "base/limits.h"

namespace steelyard::store {
namespace {

using limits::kMiB;

TEST(BufferPool, StaysInsideTheBudget) {
  for (const std::uint64_t budget : {limits::kIoMemoryMin, 37 * kMiB, 256 * kMiB, 1024 * kMiB}) {
    for (const unsigned workers : {1U, 2U, 7U, 256U}) {
      const BufferPool pool(real_runtime(), budget, workers);
      EXPECT_GE(pool.piece_bytes(), limits::kBlockBytes);
      EXPECT_GE(pool.pairs_max(), 1U);
      EXPECT_LE(pool.pairs_max() * 2 * pool.piece_bytes(), budget) << budget << " " << workers;
    }
  }
}

TEST(BufferPool, WhatIsGivenBackIsLentAgain) {
  BufferPool pool(real_runtime(), 2 * kMiB, 1);
  ASSERT_EQ(pool.pairs_max(), 1U);
  const std::byte* first = nullptr;
  {
    auto loan = pool.borrow();
    ASSERT_TRUE(loan.ok());
    first = loan->buffers().buffers[0].span().data();
  }
  EXPECT_EQ(pool.borrow()->buffers().buffers[0].span().data(), first);
}

TEST(BufferPool, EverybodyGetsATurnAndNobodyShares) {
  BufferPool pool(real_runtime(), 4 * kMiB, 2);
  ASSERT_EQ(pool.pairs_max(), 2U);
  std::atomic<int> inside{0};
  std::atomic<int> most{0};
  std::atomic<int> turns{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int turn = 0; turn < 200; ++turn) {
        const auto loan = pool.borrow();
        if (!loan.ok()) continue;
        const int now = ++inside;
        for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) continue;
        ++turns;
        --inside;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(turns, 8 * 200);
  EXPECT_LE(most, 2);
}

}  // namespace
}  // namespace steelyard::store
