#include "base/runtime.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <set>
#include <vector>

#include "base/process.h"
#include "base/workers.h"

namespace steelyard {
namespace {

TEST(RealRuntime, AnEventStaysSet) {
  Runtime& runtime = real_runtime();
  const auto event = runtime.make_event();
  EXPECT_FALSE(event->wait_until(runtime.mono_ms()));
  EXPECT_FALSE(event->wait_until(runtime.mono_ms() - 1));
  EXPECT_FALSE(event->wait_until(INT64_MIN));
  EXPECT_FALSE(event->wait_until(runtime.mono_ms() + 2));
  event->set();
  event->set();
  EXPECT_TRUE(event->wait_until(INT64_MIN));
  EXPECT_TRUE(event->wait_until(INT64_MAX));
}

TEST(RealRuntime, SetWakesEveryWaiterHoweverFarItsDeadline) {
  Runtime& runtime = real_runtime();
  const auto event = runtime.make_event();
  std::atomic<int> woken = 0;
  {
    std::vector<std::unique_ptr<Task>> tasks;
    for (int i = 0; i < 3; ++i) {
      tasks.push_back(runtime.spawn("waiter", [&] {
        if (event->wait_until(INT64_MAX)) ++woken;
      }));
    }
    event->set();
  }
  EXPECT_EQ(woken, 3);
}

TEST(RealRuntime, JoinWaitsForTheBodyAndMayBeRepeated) {
  std::atomic<bool> done = false;
  const auto task = real_runtime().spawn("a name longer than the kernel keeps", [&] { done = true; });
  task->join();
  EXPECT_TRUE(done);
  task->join();
}

TEST(RealRuntime, TheDestructorJoins) {
  std::atomic<bool> done = false;
  real_runtime().spawn("t", [&] { done = true; });
  EXPECT_TRUE(done);
}

/// No thread can be started while it lives: the stack of each would be larger than the address space.
class NoThreads {
 public:
  NoThreads() {
    pthread_getattr_default_np(&before_);
    pthread_attr_t huge;
    pthread_attr_init(&huge);
    EXPECT_EQ(pthread_attr_setstacksize(&huge, std::size_t{1} << 47), 0);
    EXPECT_EQ(pthread_setattr_default_np(&huge), 0);
    pthread_attr_destroy(&huge);
  }
  ~NoThreads() {
    pthread_setattr_default_np(&before_);
    pthread_attr_destroy(&before_);
  }

 private:
  pthread_attr_t before_;
};

TEST(RealRuntime, WorkersAreAsManyAsThereAreThreads) {
  std::atomic<int> ran = 0;
  const auto body = [&] { ++ran; };
  EXPECT_EQ(spawn_workers(real_runtime(), "worker", 3, body).size(), 3U);
  EXPECT_EQ(ran, 3);
  const NoThreads none;
  EXPECT_EQ(spawn_workers(real_runtime(), "worker", 3, body).size(), 0U);
  EXPECT_EQ(ran, 3);
}

TEST(RealRuntime, ClocksAdvance) {
  Runtime& runtime = real_runtime();
  const std::int64_t ms = runtime.mono_ms();
  const std::int64_t ns = runtime.mono_ns();
  runtime.sleep_ms(2);
  EXPECT_GE(runtime.mono_ms(), ms + 2);
  EXPECT_GE(runtime.mono_ns(), ns + 2'000'000);
  runtime.sleep_ms(0);
  runtime.sleep_ms(-5);
  EXPECT_GT(runtime.wall_ms(), 1'600'000'000'000);
  EXPECT_EQ(runtime.epoch().size(), 36U);
}

TEST(RealRuntime, RandomHexIsLongAndNeverTheSame) {
  std::set<std::string> seen;
  for (int i = 0; i < 100; ++i) seen.insert(real_runtime().random_hex(8));
  EXPECT_EQ(seen.size(), 100U);
  EXPECT_EQ(seen.begin()->size(), 16U);
  EXPECT_EQ(real_runtime().random_hex(0), "");
}

TEST(RealRuntime, AWallClockOutOfItsMindStaysInTheYearsThatCanBeWritten) {
  EXPECT_EQ(wall_ms_of(1'700'000'000, 123'456'789), 1'700'000'000'123);
  EXPECT_EQ(wall_ms_of(0, 0), 0);
  EXPECT_EQ(wall_ms_of(-1, 999'999'999), 0);
  EXPECT_EQ(wall_ms_of(INT64_MIN, 0), 0);
  constexpr std::int64_t kLast = 253'402'300'799'999;
  EXPECT_EQ(wall_ms_of(253'402'300'799, 999'999'999), kLast);
  EXPECT_EQ(wall_ms_of(253'402'300'800, 0), kLast);
  EXPECT_EQ(wall_ms_of(INT64_MAX, 999'999'999), kLast);
}

TEST(RealRuntime, AForkedChildIsAnotherProcess) {
  const ProcessIdentity parent = real_runtime().self();
  EXPECT_EQ(parent.pid, getpid());
  EXPECT_NE(parent.start_ticks, 0U);
  const pid_t child = fork();
  if (child == 0) {
    const bool right = real_runtime().self().pid == getpid() && real_runtime().self().boot_id == parent.boot_id &&
                       !real_runtime().provably_gone(parent);
    _exit(right ? 7 : 1);
  }
  int state = 0;
  ASSERT_EQ(waitpid(child, &state, 0), child);
  EXPECT_TRUE(WIFEXITED(state) && WEXITSTATUS(state) == 7);
  ProcessIdentity gone = parent;
  gone.pid = child;
  EXPECT_TRUE(real_runtime().provably_gone(gone));
  EXPECT_FALSE(real_runtime().provably_gone(parent));
}

}  // namespace
}  // namespace steelyard
