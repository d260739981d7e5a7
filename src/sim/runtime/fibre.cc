#include "sim/runtime/fibre.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <utility>

#include "base/check.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace steelyard::sim {
namespace {

/// The deepest calls are protobuf's and the manifest reader's; sanitizers multiply every frame.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::size_t kStackBytes = 1024 * 1024;
#else
constexpr std::size_t kStackBytes = 256 * 1024;
#endif

std::size_t page_bytes() {
  static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

}  // namespace

Stack::Stack() {
  mapping_ = mmap(nullptr, page_bytes() + kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  SY_CHECK(mapping_ != MAP_FAILED, "memory for a fibre's stack");
  SY_CHECK(mprotect(mapping_, page_bytes(), PROT_NONE) == 0, "a guard page below a fibre's stack");
}

Stack::~Stack() { munmap(mapping_, page_bytes() + kStackBytes); }

void* Stack::bottom() const { return static_cast<std::byte*>(mapping_) + page_bytes(); }

std::size_t Stack::bytes() { return kStackBytes; }

std::unique_ptr<Stack> StackPool::take() {
  if (free_.empty()) return std::make_unique<Stack>();
  auto stack = std::move(free_.back());
  free_.pop_back();
  return stack;
}

Fibre::Fibre(StackPool& pool, std::function<void()> body) : pool_(pool), body_(std::move(body)), stack_(pool.take()) {
  getcontext(&here_);
  here_.uc_stack.ss_sp = stack_->bottom();
  here_.uc_stack.ss_size = Stack::bytes();
  here_.uc_link = nullptr;
  const auto address = reinterpret_cast<std::uintptr_t>(this);
  makecontext(&here_, reinterpret_cast<void (*)()>(&Fibre::enter), 2, static_cast<unsigned>(address >> 32),
              static_cast<unsigned>(address & 0xffffffffU));
#if defined(__SANITIZE_THREAD__)
  tsan_fibre_ = __tsan_create_fiber(0);
#endif
}

Fibre::~Fibre() {
  SY_CHECK(ended_, "a fibre runs to its end before it is destroyed");
#if defined(__SANITIZE_THREAD__)
  __tsan_destroy_fiber(tsan_fibre_);
#endif
  pool_.give_back(std::move(stack_));
}

void Fibre::enter(unsigned high, unsigned low) {
  reinterpret_cast<Fibre*>((static_cast<std::uintptr_t>(high) << 32) | low)->run();
}

void Fibre::run() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &scheduler_stack_, &scheduler_stack_bytes_);
#endif
  body_();
  body_ = nullptr;
  ended_ = true;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(nullptr, scheduler_stack_, scheduler_stack_bytes_);
#endif
#if defined(__SANITIZE_THREAD__)
  __tsan_switch_to_fiber(tsan_scheduler_, 0);
#endif
  setcontext(&scheduler_);
}

void Fibre::resume() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&scheduler_fake_stack_, stack_->bottom(), Stack::bytes());
#endif
#if defined(__SANITIZE_THREAD__)
  tsan_scheduler_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(tsan_fibre_, 0);
#endif
  swapcontext(&scheduler_, &here_);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(scheduler_fake_stack_, nullptr, nullptr);
#endif
}

void Fibre::suspend() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&fake_stack_, scheduler_stack_, scheduler_stack_bytes_);
#endif
#if defined(__SANITIZE_THREAD__)
  __tsan_switch_to_fiber(tsan_scheduler_, 0);
#endif
  swapcontext(&here_, &scheduler_);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake_stack_, &scheduler_stack_, &scheduler_stack_bytes_);
#endif
}

}  // namespace steelyard::sim
