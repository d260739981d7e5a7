#include "store/buffer_pool.h"

#include <algorithm>

namespace steelyard::store {

BufferPool::BufferPool(Runtime& runtime, std::uint64_t io_budget, unsigned workers)
    : runtime_(runtime),
      piece_bytes_(read_piece_bytes(io_budget, workers)),
      pairs_max_(std::max<std::uint64_t>(io_budget / (2 * piece_bytes_), 1)) {}

Result<BufferPool::Loan> BufferPool::borrow() {
  std::shared_ptr<Turn> turn;
  {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      ReadBuffers buffers = std::move(free_.back());
      free_.pop_back();
      return Loan(*this, std::move(buffers));
    }
    if (pairs_ == pairs_max_) {
      turn = std::make_shared<Turn>();
      turn->come = runtime_.make_event();
      waiting_.push_back(turn);
    } else {
      free_.reserve(pairs_ + 1);  // giving back must not need memory
      ++pairs_;
    }
  }
  if (turn == nullptr) return allocate();
  turn->come->wait_until(INT64_MAX);
  if (turn->buffers) return Loan(*this, std::move(*turn->buffers));
  return allocate();
}

Result<BufferPool::Loan> BufferPool::allocate() {
  auto buffers = ReadBuffers::allocate(piece_bytes_);
  if (buffers.ok()) return Loan(*this, std::move(buffers).value());
  // The right to allocate goes to the next one, who would wait for ever otherwise.
  std::unique_lock lock(mutex_);
  std::optional<ReadBuffers> none;
  if (!pass_on(lock, none)) --pairs_;
  return std::move(buffers).status();
}

void BufferPool::give_back(ReadBuffers buffers) {
  std::unique_lock lock(mutex_);
  std::optional<ReadBuffers> offered(std::move(buffers));
  if (!pass_on(lock, offered)) free_.push_back(std::move(*offered));
}

bool BufferPool::pass_on(std::unique_lock<std::mutex>& lock, std::optional<ReadBuffers>& buffers) {
  if (waiting_.empty()) return false;
  const std::shared_ptr<Turn> turn = std::move(waiting_.front());
  waiting_.pop_front();
  turn->buffers = std::move(buffers);
  lock.unlock();
  turn->come->set();
  return true;
}

}  // namespace steelyard::store
