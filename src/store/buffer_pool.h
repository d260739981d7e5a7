// BufferPool: the I/O budget of readers that come from any number of threads.
//
// Thread-safety: may be used from any thread.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/runtime.h"
#include "store/verified_reader.h"

namespace steelyard::store {

/// As many pairs of buffers as fit into the budget, allocated when they are first needed and kept. Whoever comes when
/// all are taken waits its turn.
class BufferPool {
 public:
  BufferPool(Runtime& runtime, std::uint64_t io_budget, unsigned workers);

  /// Gives the buffers back in the end. May not outlive the pool.
  class Loan {
   public:
    Loan(BufferPool& pool, ReadBuffers buffers) : pool_(&pool), buffers_(std::move(buffers)) {}
    Loan(Loan&& other) noexcept : pool_(std::exchange(other.pool_, nullptr)), buffers_(std::move(other.buffers_)) {}
    Loan& operator=(Loan&&) = delete;
    ~Loan() {
      if (pool_ != nullptr) pool_->give_back(std::move(buffers_));
    }
    ReadBuffers& buffers() { return buffers_; }

   private:
    BufferPool* pool_;
    ReadBuffers buffers_;
  };
  /// NO_SPACE when there is no memory.
  Result<Loan> borrow();

  std::uint64_t piece_bytes() const { return piece_bytes_; }
  std::size_t pairs_max() const { return pairs_max_; }

 private:
  /// Somebody who waits. Without buffers after its event: it may allocate some itself.
  struct Turn {
    std::unique_ptr<Event> come;
    std::optional<ReadBuffers> buffers;
  };

  Result<Loan> allocate();
  void give_back(ReadBuffers buffers);
  /// Lets the first of those who wait have `buffers`, or the right to allocate; false when nobody waits.
  bool pass_on(std::unique_lock<std::mutex>& lock, std::optional<ReadBuffers>& buffers);

  Runtime& runtime_;
  const std::uint64_t piece_bytes_;
  const std::size_t pairs_max_;
  std::mutex mutex_;
  std::size_t pairs_ = 0;  ///< allocated, or about to be
  std::vector<ReadBuffers> free_;
  std::deque<std::shared_ptr<Turn>> waiting_;
};

}  // namespace steelyard::store
