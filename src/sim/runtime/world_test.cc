#include "sim/runtime/world.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace steelyard::sim {
namespace {

/// Three processes that sleep, wait for each other and note what they do.
std::string play(std::uint64_t seed) {
  World world(seed);
  for (int i = 0; i < 3; ++i) {
    Process& process = world.start_process(fmt::format("p{}", i));
    world.spawn(process, "main", [&world, &process] {
      Runtime& runtime = process.runtime();
      const auto event = runtime.make_event();
      const auto task = runtime.spawn("helper", [&] {
        runtime.sleep_ms(10);
        event->set();
      });
      for (int step = 0; step < 5; ++step) {
        runtime.point("test.step");
        world.trace(fmt::format("{} {} {}", process.name(), step, runtime.random_hex(2)));
      }
      EXPECT_TRUE(event->wait_until(INT64_MAX));
    });
  }
  EXPECT_TRUE(world.run());
  return world.trace_text();
}

TEST(World, OneSeedGivesOneHistory) {
  EXPECT_EQ(play(7), play(7));
  EXPECT_NE(play(7), play(8));
}

TEST(World, TimePassesOnlyWhileEverybodyWaits) {
  World world(1);
  Process& process = world.start_process("p");
  std::int64_t slept_ms = 0;
  std::int64_t waited_ms = 0;
  world.spawn(process, "main", [&] {
    Runtime& runtime = process.runtime();
    const std::int64_t begin = runtime.mono_ms();
    runtime.sleep_ms(3'600'000);
    slept_ms = runtime.mono_ms() - begin;
    const auto event = runtime.make_event();
    EXPECT_FALSE(event->wait_until(runtime.mono_ms() + 1000));
    waited_ms = runtime.mono_ms() - begin - slept_ms;
    event->set();
    EXPECT_TRUE(event->wait_until(0)) << "set is set, whatever the deadline";
  });
  EXPECT_TRUE(world.run());
  EXPECT_GE(slept_ms, 3'600'000);
  EXPECT_LT(slept_ms, 3'600'100);
  EXPECT_GE(waited_ms, 1000);
}

TEST(World, AKilledProcessEndsAtOnceAndItsDestructorsRun) {
  World world(1);
  Process& process = world.start_process("p");
  bool destroyed = false;
  bool alive_after_sleep = true;
  struct Witness {
    bool& flag;
    ~Witness() { flag = true; }
  };
  world.spawn(process, "main", [&] {
    const Witness witness{destroyed};
    const auto event = process.runtime().make_event();
    const auto task = process.runtime().spawn("waiter", [&] { event->wait_until(INT64_MAX); });
    process.runtime().sleep_ms(1'000'000);
    alive_after_sleep = process.alive();
  });
  world.spawn(world.nature(), "nature", [&] {
    world.nature().runtime().sleep_ms(10);
    EXPECT_TRUE(world.is_running(process.identity()));
    world.kill(process);
    EXPECT_FALSE(world.is_running(process.identity()));
    world.nature().runtime().sleep_ms(0);
    EXPECT_TRUE(destroyed) << "the dead end before the living go on";
    EXPECT_LT(world.mono_ms(), 10'000);
  });
  EXPECT_TRUE(world.run());
  EXPECT_FALSE(alive_after_sleep);
}

TEST(World, NoneOfTheDeadKeepsTheOthersFromTheirEnd) {
  World world(1);
  Process& process = world.start_process("p");
  bool ended = false;
  world.spawn(process, "main", [&] {
    const auto looping = process.runtime().spawn("looping", [&] {
      const auto event = process.runtime().make_event();
      while (!ended) event->wait_until(process.runtime().mono_ms() + 500);
    });
    process.runtime().spawn("late", [&] { process.runtime().sleep_ms(1'000'000); });
    ended = true;
  });
  world.spawn(world.nature(), "nature", [&] {
    world.nature().runtime().sleep_ms(10);
    world.kill(process);
  });
  EXPECT_TRUE(world.run());
  EXPECT_TRUE(ended);
}

TEST(World, AStoppedProcessGoesOnLate) {
  World world(1);
  Process& process = world.start_process("p");
  std::int64_t went_on_at = 0;
  world.spawn(process, "main", [&] {
    process.runtime().sleep_ms(100);
    went_on_at = world.mono_ms();
  });
  std::int64_t stopped_at = 0;
  world.spawn(world.nature(), "nature", [&] {
    stopped_at = world.mono_ms();
    world.stop(process, 60'000);
  });
  EXPECT_TRUE(world.run());
  EXPECT_GE(went_on_at, stopped_at + 60'000);
}

TEST(World, ARebootIsANewEpochWithItsOwnClock) {
  World world(1);
  Process& before = world.start_process("before");
  const std::string epoch = world.epoch();
  world.spawn(before, "main", [&] { before.runtime().sleep_ms(1'000'000); });
  world.spawn(world.nature(), "nature", [&] {
    Runtime& clock = world.nature().runtime();
    clock.sleep_ms(500'000);
    const std::int64_t wall = clock.wall_ms();
    const std::int64_t mono = clock.mono_ms();
    world.reboot(-60'000);
    EXPECT_NE(clock.epoch(), epoch);
    EXPECT_LT(clock.mono_ms(), mono);
    EXPECT_LT(clock.wall_ms(), wall);
    EXPECT_FALSE(before.alive());
    EXPECT_EQ(before.runtime().epoch(), epoch) << "its own view, for what it still says";
    Process& after = world.start_process("after");
    EXPECT_FALSE(after.runtime().provably_gone(before.identity())) << "another boot proves nothing";
  });
  EXPECT_TRUE(world.run());
}

TEST(World, OnlyADeadProcessOfThisBootIsProvablyGone) {
  World world(1);
  Process& one = world.start_process("one");
  Process& two = world.start_process("two");
  EXPECT_FALSE(two.runtime().provably_gone(one.identity()));
  world.kill(one);
  EXPECT_TRUE(two.runtime().provably_gone(one.identity()));
  ProcessIdentity reused = two.identity();
  reused.start_ticks += 1;
  EXPECT_TRUE(two.runtime().provably_gone(reused)) << "the same pid started at another time is another process";
}

TEST(World, WaitingForEverIsNoticed) {
  World world(1);
  Process& process = world.start_process("p");
  bool ended = false;
  world.spawn(process, "main", [&] {
    process.runtime().make_event()->wait_until(INT64_MAX);
    ended = true;
  });
  EXPECT_FALSE(world.run());
  EXPECT_TRUE(ended) << "it is let go, so that nothing leaks";
  EXPECT_NE(world.trace_text().find("waits for ever"), std::string::npos);
}

TEST(World, FaultPointsFailKillAndStop) {
  World world(1);
  world.set_points({.tier_errno = 1000});
  Process& process = world.start_process("p");
  world.spawn(process, "main", [&] {
    EXPECT_NE(process.runtime().point("tier.write"), 0);
    EXPECT_EQ(process.runtime().point("import.after_begin"), 0);
    world.set_points({.kill = 1000});
    EXPECT_EQ(process.runtime().point("tier.write"), 0) << "no death inside a tier";
    EXPECT_TRUE(process.alive());
    process.runtime().point("import.after_begin");
    EXPECT_FALSE(process.alive());
  });
  EXPECT_TRUE(world.run());
}

}  // namespace
}  // namespace steelyard::sim
