#include "sim/runtime/world.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <utility>

#include "base/check.h"
#include "sim/runtime/simulated_runtime.h"

namespace steelyard::sim {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
/// 2026-01-01; any instant will do.
constexpr std::int64_t kWallAtStartMs = 1'767'225'600'000;
/// What a process may still do after its death; one that needs more loops for ever on errors.
constexpr std::uint64_t kCallsAfterDeathMax = 1'000'000;
/// A history is some thousand switches long; one that never ends is a finding like another.
constexpr std::uint64_t kSwitchesMax = 1'000'000;
constexpr std::int64_t kPidsReusedFrom = 100;
constexpr std::int64_t kPidsReusedTo = 106;

}  // namespace

Process::Process(World& world, std::string name, ProcessIdentity identity, std::uint64_t seed)
    : world_(world), name_(std::move(name)), identity_(std::move(identity)), random_(seed) {
  runtime_ = make_simulated_runtime(world, *this);
}

Process::~Process() = default;

World::World(std::uint64_t seed)
    : schedule_(seed ^ 0x5eed0001),
      seeds_(seed ^ 0x5eed0002),
      faults_(seed ^ 0x5eed0003),
      wall_offset_ms_(kWallAtStartMs) {
  epoch_ = fmt::format("boot-{}", ++boots_);
  nature_ = &start_process("nature");
  nature_->immortal_ = true;
}

World::~World() { SY_CHECK(threads_.empty(), "a world runs to its end"); }

Process& World::start_process(const std::string& name) {
  ProcessIdentity identity;
  identity.host = "simulated";
  identity.boot_id = epoch_;
  identity.pid_namespace = 1;
  // Numbers come round soon, so that a dead writer's is often somebody else's.
  do {
    identity.pid = next_pid_;
    next_pid_ = next_pid_ == kPidsReusedTo ? kPidsReusedFrom : next_pid_ + 1;
  } while (std::any_of(processes_.begin(), processes_.end(),
                       [&](const auto& process) { return process->alive_ && process->identity_.pid == identity.pid; }));
  identity.start_ticks = 1000 + processes_.size();
  processes_.push_back(std::make_unique<Process>(*this, name, identity, seeds_.next()));
  return *processes_.back();
}

void World::spawn(Process& process, std::string_view name, std::function<void()> body) {
  start_thread(process, name, std::move(body));
}

std::uint64_t World::start_thread(Process& process, std::string_view name, std::function<void()> body) {
  const std::uint64_t id = next_thread_++;
  Thread& thread = threads_[id];
  thread.id = id;
  thread.name = name;
  thread.process = &process;
  thread.operation = current_operation();
  thread.fibre = std::make_unique<Fibre>(stacks_, std::move(body));
  return id;
}

World::Thread* World::pick() {
  std::vector<Thread*> ready;
  std::vector<Thread*> dead;
  for (auto& [id, thread] : threads_) {
    if (!thread.runnable) continue;
    if (!thread.process->alive_) {
      dead.push_back(&thread);
    } else if (thread.process->stopped_until_ <= now_ms_) {
      ready.push_back(&thread);
    }
  }
  // The dead go first, until none is left. One of them may loop until another one ends.
  if (!dead.empty()) return dead[schedule_.below(dead.size())];
  return ready.empty() ? nullptr : ready[schedule_.below(ready.size())];
}

bool World::advance_clock() {
  std::int64_t next = kNever;
  for (const auto& [id, thread] : threads_) {
    const std::int64_t wake = thread.runnable ? now_ms_ : thread.wake_at_ms;
    if (wake == kNever) continue;
    next = std::min(next, std::max(wake, thread.process->stopped_until_));
  }
  if (next == kNever) return false;
  now_ms_ = std::max(now_ms_, next);
  for (auto& [id, thread] : threads_) {
    if (!thread.runnable && thread.wake_at_ms <= now_ms_) thread.runnable = true;
  }
  return true;
}

void World::resume(Thread& thread) {
  running_ = &thread;
  thread.fibre->resume();
  running_ = nullptr;
  if (!thread.fibre->ended()) return;
  const std::uint64_t id = thread.id;
  threads_.erase(id);
  for (auto& [other_id, other] : threads_) {
    if (other.joins == id) other.runnable = true;
  }
}

bool World::run() {
  SY_CHECK(running_ == nullptr, "run() is called outside of every fibre");
  bool ended_well = true;
  while (!threads_.empty()) {
    Thread* const next = pick();
    const bool endless = ended_well && switches_ > kSwitchesMax;
    if (next == nullptr || endless) {
      if (!endless && advance_clock()) continue;
      SY_CHECK(ended_well, "threads of the dead come to their end");
      ended_well = false;
      for (const auto& [id, thread] : threads_) {
        trace(fmt::format("thread {} {} of {} waits for ever (op {}, {}, wakes at {}, event {}, joins {})", id,
                          thread.name, thread.process->name_, thread.operation, thread.runnable ? "ready" : "waiting",
                          thread.wake_at_ms, thread.waits_for != nullptr, thread.joins));
      }
      // They are let go as a killed process's are, so that nothing is left behind.
      for (const auto& process : processes_) {
        process->immortal_ = false;
        kill(*process);
      }
      continue;
    }
    ++switches_;
    schedule_digest_ = (schedule_digest_ ^ next->id ^ static_cast<std::uint64_t>(now_ms_)) * 0x100000001b3ULL;
    resume(*next);
    if (schedule_.below(8) == 0) now_ms_ += schedule_.between(1, 3);
    for (auto& [id, thread] : threads_) {
      if (!thread.runnable && thread.wake_at_ms <= now_ms_) thread.runnable = true;
    }
  }
  return ended_well;
}

void World::block(std::int64_t wake_at_ms, const void* event, std::uint64_t join) {
  SY_CHECK(running_ != nullptr, "only a fibre of the simulation may wait");
  Thread& self = *running_;
  self.runnable = false;
  self.wake_at_ms = wake_at_ms;
  self.waits_for = event;
  self.joins = join;
  self.fibre->suspend();
  self.runnable = true;
  self.waits_for = nullptr;
  self.joins = 0;
}

void World::yield() {
  if (running_ == nullptr || !running_->process->alive_) return;
  running_->fibre->suspend();
}

void World::wake_waiting_for(const void* event) {
  for (auto& [id, thread] : threads_) {
    if (thread.waits_for == event) thread.runnable = true;
  }
}

void World::kill(Process& process) {
  if (!process.alive_ || process.immortal_) return;
  process.alive_ = false;
  if (process.on_death_) process.on_death_();
  process.stopped_until_ = 0;
  for (auto& [id, thread] : threads_) {
    // A joining thread waits for a thread of its own process, which now runs to its end.
    if (thread.process == &process && thread.joins == 0) thread.runnable = true;
  }
}

void World::stop(Process& process, std::int64_t duration_ms) {
  if (process.immortal_ || !process.alive_) return;
  process.stopped_until_ = std::max(process.stopped_until_, now_ms_ + duration_ms);
}

void World::reboot(std::int64_t wall_step_ms) {
  for (const auto& process : processes_) kill(*process);
  booted_at_ms_ = now_ms_;
  wall_offset_ms_ += wall_step_ms;
  epoch_ = fmt::format("boot-{}", ++boots_);
}

bool World::is_running(const ProcessIdentity& identity) const {
  return std::any_of(processes_.begin(), processes_.end(),
                     [&](const auto& process) { return process->alive_ && process->identity_ == identity; });
}

std::uint64_t World::current_operation() const { return running_ == nullptr ? 0 : running_->operation; }

void World::set_operation(std::uint64_t operation) {
  SY_CHECK(running_ != nullptr, "operations belong to fibres");
  running_->operation = operation;
}

void World::trace(std::string_view text) {
  fmt::format_to(std::back_inserter(trace_), "{:>9} {:08x} {}\n", now_ms_,
                 static_cast<std::uint32_t>(schedule_digest_ ^ (schedule_digest_ >> 32)), text);
}

std::int64_t World::from_mono(std::int64_t mono) const {
  if (mono == kNever) return kNever;
  return mono - kMonoAtBootMs + booted_at_ms_;
}

void World::count_call(Process& process) {
  if (process.alive_) return;
  SY_CHECK(++process.calls_after_death_ < kCallsAfterDeathMax, "a process whose every call fails comes to its end");
}

int World::pass_point(Process& process, std::string_view name) {
  count_call(process);
  if (!process.alive_ || process.immortal_ || running_ == nullptr) return 0;
  if (name.starts_with("tier.")) {
    // Inside the tier, perhaps with its lock: no switch here.
    if (!faults_.per_mille(points_.tier_errno)) return 0;
    constexpr int kErrors[] = {EIO, ENOSPC, EMLINK};
    const int error = faults_.one_of(kErrors);
    ++process.errors_;
    trace(fmt::format("{}: {} returns errno {}", process.name_, name, error));
    return error;
  }
  if (faults_.per_mille(points_.kill)) {
    trace(fmt::format("{}: killed at {}", process.name_, name));
    kill(process);
    return 0;
  }
  if (faults_.per_mille(points_.stop) && points_.stop_ms_max > 0) {
    const std::int64_t duration_ms = faults_.between(1, points_.stop_ms_max);
    trace(fmt::format("{}: stopped at {} for {} ms", process.name_, name, duration_ms));
    stop(process, duration_ms);
  }
  yield();
  return 0;
}

}  // namespace steelyard::sim
