#include "tiers/directory/io_queue.h"

#include <errno.h>
#include <liburing.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/workers.h"

namespace steelyard::tiers::directory {
namespace {

/// Rings kept for reuse: making one costs some 50 us and a few pages.
constexpr std::size_t kIdleQueuesMax = 32;

/// How often a kernel that is short of memory is asked again while nothing is under way whose end could free some, and
/// the longest pause between: some 6 s in all.
constexpr int kSubmitAttemptsMax = 100;
constexpr std::int64_t kSubmitPauseMsMax = 64;
/// Between looks at the completions of a ring that cannot be waited on any more.
constexpr std::int64_t kLookPauseMs = 1;

/// The kernel takes requests from the ring in the order in which they were added: `added_` holds the tags of those that
/// it has not taken yet.
///
/// Failures. EINTR, EAGAIN, EBUSY and ENOMEM pass; after any other error, or when they do not pass, what was not taken
/// ends with that error and stays in the ring, which therefore is never submitted again. What was taken is still waited
/// for, since its memory is the kernel's.
class UringQueue final : public IoQueue {
 public:
  UringQueue(Runtime& runtime, io_uring ring) : runtime_(runtime), ring_(ring) {}
  UringQueue(const UringQueue&) = delete;
  UringQueue& operator=(const UringQueue&) = delete;
  ~UringQueue() override { io_uring_queue_exit(&ring_); }

  bool works() const override { return failure_ == 0; }

  void add(const IoRequest& request) override {
    SY_CHECK(under_way_ < kIoQueueDepth, "too many requests in an I/O queue");
    ++under_way_;
    added_.push_back(request.tag);
    if (failure_ != 0) return;
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    SY_CHECK(entry != nullptr, "the submission ring is as deep as the queue");
    switch (request.kind) {
      case IoRequest::Kind::kRead:
        io_uring_prep_read(entry, request.fd, request.data, static_cast<unsigned>(request.bytes), request.offset);
        break;
      case IoRequest::Kind::kWrite:
        io_uring_prep_write(entry, request.fd, request.data, static_cast<unsigned>(request.bytes), request.offset);
        break;
      case IoRequest::Kind::kDataSync:
        io_uring_prep_fsync(entry, request.fd, IORING_FSYNC_DATASYNC);
        break;
      case IoRequest::Kind::kSync:
        io_uring_prep_fsync(entry, request.fd, 0);
        break;
    }
    if (request.after_all) io_uring_sqe_set_flags(entry, IOSQE_IO_DRAIN);
    io_uring_sqe_set_data64(entry, request.tag);
  }

  /// What the kernel does not take now stays in the ring, and wait() offers it again.
  void start() override { submit(); }

  IoDone wait() override {
    SY_CHECK(under_way_ > 0, "nothing to wait for");
    for (;;) {
      if (failure_ != 0 && !added_.empty()) {
        const IoDone done{added_.front(), -failure_, false};
        added_.pop_front();
        --under_way_;
        return done;
      }
      io_uring_cqe* entry = nullptr;
      if (io_uring_peek_cqe(&ring_, &entry) == 0 && entry != nullptr) {
        const IoDone done{io_uring_cqe_get_data64(entry), entry->res};
        io_uring_cqe_seen(&ring_, entry);
        --taken_;
        --under_way_;
        return done;
      }
      const int error = submit();
      if (taken_ > 0) {
        wait_for_taken();
      } else if (error != 0 && failure_ == 0) {
        // Nothing is under way whose end could make room.
        if (++attempts_ >= kSubmitAttemptsMax) {
          give_up("submit", error);
        } else if (error != EINTR) {
          runtime_.sleep_ms(std::min(std::int64_t{1} << std::min(attempts_, 16), kSubmitPauseMsMax));
        }
      }
    }
  }

 private:
  static bool passes(int error) { return error == EINTR || error == EAGAIN || error == EBUSY || error == ENOMEM; }

  /// 0 when the kernel took something or there was nothing to take.
  int submit() {
    if (failure_ != 0 || added_.empty()) return 0;
    int result = -runtime_.point("tier.io_submit");
    if (result == 0) result = io_uring_submit(&ring_);
    if (result > 0) {
      for (int i = 0; i < result && !added_.empty(); ++i, ++taken_) added_.pop_front();
      attempts_ = 0;
      return 0;
    }
    const int error = result == 0 ? EAGAIN : -result;
    if (!passes(error)) give_up("submit", error);
    return error;
  }

  void give_up(const char* doing, int error) {
    if (failure_ != 0) return;
    failure_ = error;
    log_info("io_uring: {}: {}; {} requests were not started, {} are waited for", doing,
             std::generic_category().message(error), added_.size(), taken_);
  }

  /// Returns when one may have ended, without submitting.
  void wait_for_taken() {
    if (!wait_fails_) {
      int result = -runtime_.point("tier.io_wait");
      io_uring_cqe* entry = nullptr;
      if (result == 0) result = io_uring_wait_cqe(&ring_, &entry);
      if (result == 0 || result == -EINTR) return;
      if (!passes(-result)) {
        wait_fails_ = true;
        give_up("wait", -result);
      }
    }
    // The completions still arrive in shared memory, and any system call lets the kernel deliver them.
    runtime_.sleep_ms(kLookPauseMs);
  }

  Runtime& runtime_;
  io_uring ring_;
  std::deque<std::uint64_t> added_;
  std::size_t taken_ = 0;  ///< by the kernel, and not reaped
  int attempts_ = 0;
  int failure_ = 0;  ///< an errno
  bool wait_fails_ = false;
};

class TaskQueue final : public IoQueue {
 public:
  explicit TaskQueue(Runtime& runtime) : runtime_(runtime) {}

  void add(const IoRequest& request) override {
    added_.push_back(request);
    ++under_way_;
  }

  void start() override {
    if (added_.empty()) return;
    auto batch = std::make_shared<Batch>();
    batch->requests = std::exchange(added_, {});
    const auto work = [work = batch.get()] {
      for (const IoRequest& request : work->requests) work->done.push_back({request.tag, run(request)});
    };
    if (auto task = try_spawn(runtime_, "tier-io", work); task.ok()) {
      batch->task = std::move(task).value();
    } else {
      work();
    }
    batches_.push_back(std::move(batch));
  }

  IoDone wait() override {
    SY_CHECK(under_way_ > 0, "nothing to wait for");
    start();
    if (ready_.empty()) {
      if (batches_.front()->task) batches_.front()->task->join();
      for (const IoDone& done : batches_.front()->done) ready_.push_back(done);
      batches_.pop_front();
    }
    const IoDone done = ready_.front();
    ready_.pop_front();
    --under_way_;
    return done;
  }

 private:
  struct Batch {
    std::vector<IoRequest> requests;
    std::vector<IoDone> done;
    std::unique_ptr<Task> task;
  };

  static std::int64_t run(const IoRequest& request) {
    for (;;) {
      std::int64_t result = 0;
      switch (request.kind) {
        case IoRequest::Kind::kRead:
          result = pread(request.fd, request.data, request.bytes, static_cast<off_t>(request.offset));
          break;
        case IoRequest::Kind::kWrite:
          result = pwrite(request.fd, request.data, request.bytes, static_cast<off_t>(request.offset));
          break;
        case IoRequest::Kind::kDataSync:
          result = fdatasync(request.fd);
          break;
        case IoRequest::Kind::kSync:
          result = fsync(request.fd);
          break;
      }
      if (result >= 0) return result;
      if (errno != EINTR) return -errno;
    }
  }

  Runtime& runtime_;
  std::vector<IoRequest> added_;
  std::deque<std::shared_ptr<Batch>> batches_;
  std::deque<IoDone> ready_;
};

}  // namespace

bool IoDone::again() const { return started && (result == -EINTR || result == -EAGAIN || result == -ECANCELED); }

std::unique_ptr<IoQueue> IoEngine::acquire() {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      auto queue = std::move(idle_.back());
      idle_.pop_back();
      return queue;
    }
    if (!uring_works_) return std::make_unique<TaskQueue>(runtime_);
  }
  // What the kernel cannot do at once it does in threads of this user too, and without one it would stand for ever.
  if (auto probe = try_spawn(runtime_, "tier-io-probe", [] {}); probe.ok()) {
    (*probe)->join();
  } else {
    return std::make_unique<TaskQueue>(runtime_);
  }
  io_uring ring{};
  int error = runtime_.point("tier.io_uring");
  if (error == 0) error = -io_uring_queue_init(kIoQueueDepth, &ring, 0);
  if (error == 0) return std::make_unique<UringQueue>(runtime_, ring);
  // EMFILE and ENOMEM pass; only this queue does without. Anything else is how this kernel is.
  if (error != EMFILE && error != ENFILE && error != ENOMEM) {
    const std::string reason = "io_uring is not available here (" + std::generic_category().message(error) +
                               "); reads and writes run in tasks";
    bool first = false;
    {
      const std::lock_guard lock(mutex_);
      first = std::exchange(uring_works_, false);
      fall_back_reason_ = reason;
    }
    if (first) log_info("{}", reason);
  }
  return std::make_unique<TaskQueue>(runtime_);
}

void IoEngine::release(std::unique_ptr<IoQueue> queue) {
  SY_CHECK(queue->under_way() == 0, "a queue is given back idle");
  if (!queue->works()) return;
  const std::lock_guard lock(mutex_);
  if (idle_.size() < kIdleQueuesMax) idle_.push_back(std::move(queue));
}

std::size_t IoEngine::idle_queues() {
  const std::lock_guard lock(mutex_);
  return idle_.size();
}

std::string IoEngine::fall_back_reason() {
  const std::lock_guard lock(mutex_);
  return fall_back_reason_;
}

}  // namespace steelyard::tiers::directory
