#include "store/drop_behind.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "tiers/directory/test_folder.h"

namespace steelyard::store {
namespace {

constexpr std::uint64_t kWindow = DropBehind::kWindowBytes;
constexpr std::uint64_t kPage = 4096;
/// To drop a page is a request: the kernel keeps one that somebody holds at that moment, and does not come back to it.
constexpr std::uint64_t kMayStay = kWindow;

class DropBehindTest : public testing::Test {
 protected:
  /// A durable file of `bytes` that is not in the page cache. Skips where the cache cannot be emptied (tmpfs).
  void make(std::uint64_t bytes) {
    const std::string path = folder_.path() + "/file";
    fd_ = UniqueFd(open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    ASSERT_TRUE(fd_.valid());
    bytes_ = bytes;
    const std::vector<char> data(bytes, 'x');
    ASSERT_EQ(pwrite(fd_.get(), data.data(), data.size(), 0), static_cast<ssize_t>(bytes));
    ASSERT_EQ(fsync(fd_.get()), 0);
    forget();
    if (cached(0, bytes) != 0) GTEST_SKIP() << "this filesystem keeps its pages";
  }
  void forget() const { ASSERT_EQ(posix_fadvise(fd_.get(), 0, 0, POSIX_FADV_DONTNEED), 0); }
  /// Bytes of the range that are in the page cache.
  std::uint64_t cached(std::uint64_t offset, std::uint64_t bytes) const {
    void* const at = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd_.get(), static_cast<off_t>(offset));
    EXPECT_NE(at, MAP_FAILED);
    std::vector<unsigned char> pages((bytes + kPage - 1) / kPage);
    EXPECT_EQ(mincore(at, bytes, pages.data()), 0);
    munmap(at, bytes);
    return static_cast<std::uint64_t>(std::count_if(pages.begin(), pages.end(), [](auto p) { return p & 1; })) * kPage;
  }
  /// Somebody else reads the range and nothing more.
  void read_elsewhere(std::uint64_t offset, std::uint64_t bytes) const {
    ASSERT_EQ(posix_fadvise(fd_.get(), 0, 0, POSIX_FADV_RANDOM), 0);
    read(offset, bytes);
    ASSERT_EQ(posix_fadvise(fd_.get(), 0, 0, POSIX_FADV_NORMAL), 0);
  }
  void read(std::uint64_t offset, std::uint64_t bytes) const {
    std::vector<char> into(bytes);
    ASSERT_EQ(pread(fd_.get(), into.data(), bytes, static_cast<off_t>(offset)), static_cast<ssize_t>(bytes));
  }
  /// Reads [begin, end) in steps of 1 MiB as an import does; the most that was cached at any time.
  std::uint64_t read_through(DropBehind& cache, std::uint64_t begin, std::uint64_t end) const {
    std::uint64_t most = 0;
    while (begin < end) {
      const std::uint64_t step = std::min({cache.enter(begin), end - begin, limits::kMiB});
      EXPECT_GT(step, 0U);
      read(begin, step);
      most = std::max(most, cached(0, bytes_));
      begin += step;
    }
    return most;
  }

  tiers::TestFolder folder_;
  UniqueFd fd_;
  std::uint64_t bytes_ = 0;
};

TEST_F(DropBehindTest, NothingOfAFileStaysAndLittleIsThereAtATime) {
  make(6 * kWindow + 12345);
  if (IsSkipped()) return;
  {
    DropBehind cache(fd_.get(), bytes_);
    EXPECT_LE(read_through(cache, 0, bytes_), 2 * kWindow);
  }
  EXPECT_LE(cached(0, bytes_), kMayStay);
}

TEST_F(DropBehindTest, WhatWasCachedBeforeStays) {
  make(6 * kWindow);
  if (IsSkipped()) return;
  read_elsewhere(2 * kWindow, 2 * kWindow);
  {
    DropBehind cache(fd_.get(), bytes_);
    read_through(cache, 0, bytes_);
  }
  EXPECT_LE(cached(0, 2 * kWindow), kMayStay);
  EXPECT_EQ(cached(2 * kWindow, 2 * kWindow), 2 * kWindow);
  EXPECT_LE(cached(4 * kWindow, 2 * kWindow), kMayStay);
}

TEST_F(DropBehindTest, WhatIsReadTwiceIsNotTakenForSomebodyElses) {
  make(3 * kWindow);
  if (IsSkipped()) return;
  {
    DropBehind cache(fd_.get(), bytes_);
    read_through(cache, 0, 2 * kWindow + limits::kMiB);
    read_through(cache, limits::kMiB, bytes_);
  }
  EXPECT_LE(cached(0, bytes_), kMayStay);
}

TEST_F(DropBehindTest, AReaderThatStopsEarlyLeavesNothing) {
  make(5 * kWindow);
  if (IsSkipped()) return;
  {
    DropBehind cache(fd_.get(), bytes_);
    read_through(cache, 0, kWindow + 4096);
  }
  EXPECT_LE(cached(0, bytes_), kMayStay);
}

TEST_F(DropBehindTest, AReadNeverGoesPastItsWindow) {
  make(2 * kWindow);
  if (IsSkipped()) return;
  DropBehind cache(fd_.get(), bytes_);
  EXPECT_EQ(cache.enter(0), kWindow);
  EXPECT_EQ(cache.enter(kWindow - 1), 1U);
  EXPECT_EQ(cache.enter(kWindow), kWindow);
}

}  // namespace
}  // namespace steelyard::store
