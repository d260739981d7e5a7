// Failures of the queue itself: the kernel does not take requests, or cannot be waited on.
#include "tiers/directory/io_queue.h"

#include <errno.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "base/unique_fd.h"
#include "hash/sha256.h"
#include "tiers/directory/layout.h"
#include "tiers/directory/test_folder.h"

namespace steelyard::tiers::directory {
namespace {

using testing::HasSubstr;

constexpr std::size_t kBytes = 4096;
constexpr std::size_t kMiB = 1024 * 1024;

class IoQueueTest : public testing::Test {
 protected:
  void SetUp() override {
    runtime_.skip_sleeps();
    const std::string path = folder_.path() + "/file";
    fd_ = UniqueFd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    const std::vector<char> data(kIoQueueDepth * kBytes, 'x');
    ASSERT_EQ(::pwrite(fd_.get(), data.data(), data.size(), 0), static_cast<ssize_t>(data.size()));
    queue_ = engine_.acquire();
    if (!engine_.fall_back_reason().empty()) GTEST_SKIP() << engine_.fall_back_reason();
  }
  void TearDown() override {
    runtime_.disarm();
    while (queue_ && queue_->under_way() > 0) static_cast<void>(queue_->wait());
  }
  void add_read(std::uint64_t tag) {
    queue_->add({IoRequest::Kind::kRead, fd_.get(), memory_[tag].data(), kBytes, tag * kBytes, tag});
  }
  /// Everything that is under way, by tag.
  std::map<std::uint64_t, IoDone> reap() {
    std::map<std::uint64_t, IoDone> all;
    while (queue_->under_way() > 0) {
      const IoDone done = queue_->wait();
      EXPECT_TRUE(all.emplace(done.tag, done).second) << "tag " << done.tag << " ended twice";
    }
    return all;
  }
  void expect_read(const IoDone& done) const {
    EXPECT_TRUE(done.started);
    EXPECT_EQ(done.result, static_cast<std::int64_t>(kBytes));
    const auto& bytes = memory_[done.tag];
    EXPECT_TRUE(std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{'x'}; }));
  }
  void expect_untouched(const IoDone& done, int error) const {
    EXPECT_FALSE(done.started);
    EXPECT_FALSE(done.again());
    EXPECT_EQ(done.result, -error);
    const auto& bytes = memory_[done.tag];
    EXPECT_TRUE(std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{}; }));
  }

  TestFolder folder_;
  FaultRuntime runtime_;
  IoEngine engine_{runtime_};
  UniqueFd fd_;
  std::array<std::array<std::byte, kBytes>, kIoQueueDepth> memory_{};
  std::unique_ptr<IoQueue> queue_;  // last: what is under way ends before its memory goes
};

TEST_F(IoQueueTest, WhatPassesIsTriedAgain) {
  for (const int error : {EINTR, EAGAIN, EBUSY, ENOMEM}) {
    runtime_.disarm();
    runtime_.arm("tier.io_submit", error, 5);
    for (std::uint64_t tag = 0; tag < 4; ++tag) add_read(tag);
    queue_->start();
    const auto done = reap();
    ASSERT_EQ(done.size(), 4U) << error;
    for (const auto& [tag, one] : done) expect_read(one);
    EXPECT_TRUE(queue_->works());
  }
  engine_.release(std::move(queue_));
  EXPECT_EQ(engine_.idle_queues(), 1U);
}

TEST_F(IoQueueTest, WhatDoesNotPassEndsWithItsError) {
  for (const int error : {EINTR, EAGAIN, EBUSY, ENOMEM}) {
    runtime_.disarm();
    runtime_.arm("tier.io_submit", error);
    for (std::uint64_t tag = 0; tag < kIoQueueDepth; ++tag) add_read(tag);
    queue_->start();
    const auto done = reap();
    ASSERT_EQ(done.size(), kIoQueueDepth) << error;
    for (const auto& [tag, one] : done) expect_untouched(one, error);
    EXPECT_FALSE(queue_->works());
    engine_.release(std::move(queue_));
    EXPECT_EQ(engine_.idle_queues(), 0U) << "a ring that failed is not used again";
    queue_ = engine_.acquire();
  }
}

TEST_F(IoQueueTest, AfterAnUnexplainedFailureNothingIsStartedAndWhatWasTakenIsReaped) {
  for (std::uint64_t tag = 0; tag < 3; ++tag) add_read(tag);
  queue_->start();
  runtime_.arm("tier.io_submit", EBADF, 1);
  for (std::uint64_t tag = 3; tag < 6; ++tag) add_read(tag);
  queue_->start();
  add_read(6);  // after the failure
  queue_->start();
  const auto done = reap();
  ASSERT_EQ(done.size(), 7U);
  for (std::uint64_t tag = 0; tag < 3; ++tag) expect_read(done.at(tag));
  for (std::uint64_t tag = 3; tag < 7; ++tag) expect_untouched(done.at(tag), EBADF);
  engine_.release(std::move(queue_));
  EXPECT_EQ(engine_.idle_queues(), 0U);
}

TEST_F(IoQueueTest, ARingThatCannotBeWaitedOnGivesBackWhatItTook) {
  // A read of an empty pipe is under way for certain.
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd read_end(ends[0]);
  const UniqueFd write_end(ends[1]);
  std::array<std::byte, kBytes> into{};
  queue_->add({IoRequest::Kind::kRead, read_end.get(), into.data(), 1, 0, 1});
  queue_->start();
  runtime_.arm("tier.io_wait", EBADF);
  runtime_.on("tier.io_wait", [&] { ASSERT_EQ(::write(write_end.get(), "y", 1), 1); });
  const IoDone done = queue_->wait();
  EXPECT_TRUE(done.started);
  EXPECT_EQ(done.result, 1);
  EXPECT_EQ(into[0], std::byte{'y'});
  EXPECT_FALSE(queue_->works());
}

TEST_F(IoQueueTest, WaitingThatIsInterruptedGoesOn) {
  for (const int error : {EINTR, EAGAIN, EBUSY}) {
    runtime_.disarm();
    runtime_.arm("tier.io_wait", error, 3);
    add_read(0);
    queue_->start();
    expect_read(queue_->wait());
    EXPECT_TRUE(queue_->works());
  }
}

/// The tier above such a queue.
class IoQueueFailures : public testing::Test {
 protected:
  void SetUp() override {
    runtime_.skip_sleeps();
    auto opened = open_directory(runtime_, test_options(folder_.path() + "/tier"));
    ASSERT_TRUE(opened.ok()) << opened.status().to_string();
    tier_ = std::move(opened).value();
    real_runtime().fill_random(data_.span());
  }
  Result<PutOutcome> put(std::uint32_t index) {
    SY_ASSIGN_OR_RETURN(auto pending, tier_->start_put(name(index), data_.span(), hash::sha256(data_.span())));
    return pending->finish();
  }
  static ObjectName name(std::uint32_t index) { return {{std::string(64, 'a'), 1}, ObjectKind::kPayload, index}; }

  TestFolder folder_;
  FaultRuntime runtime_;
  std::unique_ptr<Tier> tier_;
  AlignedBuffer data_ = AlignedBuffer::allocate(40 * kMiB).value();
};

TEST_F(IoQueueFailures, APutFailsAndLeavesNothing) {
  // EINVAL and EAGAIN mean something else as the result of a write.
  for (const int error : {EBADF, EINVAL, ENOMEM, EAGAIN}) {
    runtime_.arm("tier.io_submit", error);
    const auto outcome = put(0);
    EXPECT_EQ(outcome.code(), Code::kUnavailable) << error << ": " << outcome.status().to_string();
    runtime_.disarm();
    EXPECT_EQ(tier_->stat(name(0)).code(), Code::kNotFound);
  }
  for (const std::string& fact : tier_->facts()) EXPECT_THAT(fact, testing::Not(HasSubstr("direct I/O")));
  const auto outcome = put(0);
  ASSERT_TRUE(outcome.ok()) << outcome.status().to_string();
  EXPECT_EQ(*outcome, PutOutcome::kWritten);
}

TEST_F(IoQueueFailures, APutWhosePiecesWereStartedInPartFails) {
  for (int skip = 1; skip < 4; ++skip) {
    runtime_.arm("tier.io_submit", EBADF, 0, skip);
    // In appends: one submit for each of them.
    auto stream = tier_->open_put(name(0), data_.size(), hash::sha256(data_.span()));
    ASSERT_TRUE(stream.ok()) << stream.status().to_string();
    Status status;
    for (std::size_t at = 0; at < data_.size() && status.ok(); at += kMiB) {
      status = (*stream)->append(data_.span().subspan(at, kMiB));
    }
    if (status.ok()) status = (*stream)->finish().status();
    EXPECT_EQ(status.code(), Code::kUnavailable) << status.to_string();
    stream->reset();
    runtime_.disarm();
    EXPECT_EQ(tier_->stat(name(0)).code(), Code::kNotFound);
  }
}

TEST_F(IoQueueFailures, AReadFailsAndNamesTheObject) {
  ASSERT_TRUE(put(0).ok());
  AlignedBuffer into = AlignedBuffer::allocate(data_.size()).value();
  for (const int error : {EBADF, EINVAL, ENOMEM, EAGAIN}) {
    for (const int skip : {0, 1}) {
      runtime_.arm("tier.io_submit", error, 0, skip);
      const Status status = tier_->read(name(0), {{0, into.span()}});
      EXPECT_EQ(status.code(), Code::kUnavailable) << status.to_string();
      EXPECT_THAT(status.message(), HasSubstr(describe(name(0))));
      runtime_.disarm();
    }
  }
  const Status status = tier_->read(name(0), {{0, into.span()}});
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_TRUE(std::equal(data_.span().begin(), data_.span().end(), into.span().begin()));
}

TEST_F(IoQueueFailures, AFlushThatWasNotStartedIsNoSuccess) {
  ASSERT_TRUE(put(0).ok());
  for (const int error : {EBADF, EINVAL}) {
    runtime_.arm("tier.io_submit", error);
    EXPECT_EQ(tier_->flush(name(0).in).code(), Code::kUnavailable) << "EINVAL is not that of a folder without fsync";
    runtime_.disarm();
  }
  EXPECT_TRUE(tier_->flush(name(0).in).ok());
}

}  // namespace
}  // namespace steelyard::tiers::directory
