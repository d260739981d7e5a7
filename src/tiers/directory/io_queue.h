// IoQueue: reads, writes and syncs that run while the caller does something else.
//
// Thread-safety: an IoQueue belongs to one thread at a time; IoEngine may be used from any thread.
//
// With io_uring the kernel runs them. Where it may not be used (an old kernel, a seccomp filter), one task per batch
// runs them in order instead; the engine finds out once, when the first queue is made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/runtime.h"

namespace steelyard::tiers::directory {

struct IoRequest {
  enum class Kind : std::uint8_t { kRead, kWrite, kDataSync, kSync } kind = Kind::kRead;
  int fd = -1;
  std::byte* data = nullptr;  ///< never written for kWrite
  std::size_t bytes = 0;      ///< at most 1 GiB
  std::uint64_t offset = 0;
  std::uint64_t tag = 0;
  bool after_all = false;  ///< starts when everything submitted before it has ended
};

struct IoDone {
  std::uint64_t tag = 0;
  std::int64_t result = 0;  ///< as the system call: bytes, 0, or -errno
  /// False: the request was never started, for the reason in `result`, and its memory was not touched. Nothing that is
  /// added to the queue from now on will be.
  bool started = true;

  /// The request may be made again as it is.
  bool again() const;
};

/// At most kIoQueueDepth requests may be under way at once.
inline constexpr std::size_t kIoQueueDepth = 16;

class IoQueue {
 public:
  virtual ~IoQueue() = default;
  virtual void add(const IoRequest& request) = 0;
  /// Starts what was added since the last call. Does not wait for the device.
  virtual void start() = 0;
  /// The next request that ended, in any order. Only while one is under way. The memory of a request is the kernel's
  /// until it was returned from here.
  virtual IoDone wait() = 0;
  std::size_t under_way() const { return under_way_; }
  /// False after a failure of the queue itself: it is not used again.
  virtual bool works() const { return true; }

 protected:
  std::size_t under_way_ = 0;
};

class IoEngine {
 public:
  explicit IoEngine(Runtime& runtime) : runtime_(runtime) {}

  /// An idle queue, from the pool where one is there.
  std::unique_ptr<IoQueue> acquire();
  /// Gives back a queue with nothing under way. One that no longer works goes.
  void release(std::unique_ptr<IoQueue> queue);
  std::size_t idle_queues();
  /// Why io_uring is not used; empty while it is.
  std::string fall_back_reason();

 private:
  Runtime& runtime_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<IoQueue>> idle_;
  bool uring_works_ = true;
  std::string fall_back_reason_;
};

}  // namespace steelyard::tiers::directory
