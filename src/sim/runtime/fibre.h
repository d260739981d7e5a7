// Fibre: a body with a stack of its own, resumed and suspended by hand.
//
// Thread-safety: none; one simulation runs on one thread.
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

namespace steelyard::sim {

/// A stack with an inaccessible page below it, so that an overflow ends the program instead of damaging a neighbour.
class Stack {
 public:
  Stack();
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;
  ~Stack();
  void* bottom() const;
  static std::size_t bytes();

 private:
  void* mapping_ = nullptr;
};

/// Stacks of fibres that have ended, for the next ones.
class StackPool {
 public:
  std::unique_ptr<Stack> take();
  void give_back(std::unique_ptr<Stack> stack) { free_.push_back(std::move(stack)); }

 private:
  std::vector<std::unique_ptr<Stack>> free_;
};

/// A fibre always runs to its end: its stack holds live objects, so that destroying a suspended one is a programmer's
/// error.
class Fibre {
 public:
  /// `pool` must outlive the fibre.
  Fibre(StackPool& pool, std::function<void()> body);
  Fibre(const Fibre&) = delete;
  Fibre& operator=(const Fibre&) = delete;
  ~Fibre();

  /// Runs the body until it suspends or ends. Called by the scheduler, outside of every fibre.
  void resume();
  /// Back to the scheduler. Called by the body.
  void suspend();
  bool ended() const { return ended_; }

 private:
  static void enter(unsigned high, unsigned low);
  void run();

  StackPool& pool_;
  std::function<void()> body_;
  std::unique_ptr<Stack> stack_;
  ucontext_t here_{};
  ucontext_t scheduler_{};
  bool ended_ = false;
  // What the sanitizers have to be told at a switch; unused without them.
  void* fake_stack_ = nullptr;
  void* scheduler_fake_stack_ = nullptr;
  const void* scheduler_stack_ = nullptr;
  std::size_t scheduler_stack_bytes_ = 0;
  void* tsan_fibre_ = nullptr;
  void* tsan_scheduler_ = nullptr;
};

}  // namespace steelyard::sim
