#include "sim/runtime/simulated_runtime.h"

#include <limits>
#include <utility>

#include "sim/runtime/world.h"

namespace steelyard::sim {

class SimulatedEvent final : public Event {
 public:
  SimulatedEvent(World& world, Process& process) : world_(world), process_(process) {}
  void set() override {
    set_ = true;
    world_.wake_waiting_for(this);
  }
  bool wait_until(std::int64_t deadline_mono_ms) override {
    world_.count_call(process_);
    const std::int64_t wake_at_ms = world_.from_mono(deadline_mono_ms);
    while (!set_ && process_.alive()) {
      if (wake_at_ms <= world_.now_ms_) {
        // A deadline that has passed still gives the others a chance.
        world_.yield();
        return set_ || !process_.alive();
      }
      world_.block(wake_at_ms, this, 0);
    }
    // The dead do not wait: whoever would have set it comes to its end too.
    if (!set_) world_.block(world_.now_ms_, this, 0);
    return true;
  }

 private:
  World& world_;
  Process& process_;
  bool set_ = false;
};

class SimulatedTask final : public Task {
 public:
  SimulatedTask(World& world, std::uint64_t thread) : world_(world), thread_(thread) {}
  SimulatedTask(const SimulatedTask&) = delete;
  SimulatedTask& operator=(const SimulatedTask&) = delete;
  ~SimulatedTask() override { SimulatedTask::join(); }
  void join() override {
    while (world_.exists(thread_)) world_.block(std::numeric_limits<std::int64_t>::max(), nullptr, thread_);
  }

 private:
  World& world_;
  std::uint64_t thread_;
};

class SimulatedRuntime final : public Runtime {
 public:
  SimulatedRuntime(World& world, Process& process) : world_(world), process_(process) { faults_armed_ = true; }

  std::int64_t mono_ms() override { return world_.mono_ms(); }
  std::int64_t mono_ns() override { return world_.mono_ms() * 1'000'000; }
  std::int64_t wall_ms() override { return world_.now_ms_ + world_.wall_offset_ms_; }
  /// Nature's own clock is the machine's; another process sees the epoch it was started in, and no other.
  const std::string& epoch() override { return process_.immortal_ ? world_.epoch_ : process_.identity_.boot_id; }

  void fill_random(ByteSpan out) override {
    for (std::byte& byte : out) byte = static_cast<std::byte>(process_.random_.next() >> 56);
  }

  void sleep_ms(std::int64_t duration_ms) override {
    world_.count_call(process_);
    if (!process_.alive()) return;
    if (duration_ms <= 0) return world_.yield();
    world_.block(world_.now_ms_ + duration_ms, nullptr, 0);
  }
  std::unique_ptr<Event> make_event() override { return std::make_unique<SimulatedEvent>(world_, process_); }
  std::unique_ptr<Task> spawn(std::string_view name, std::function<void()> body) override {
    return std::make_unique<SimulatedTask>(world_, world_.start_thread(process_, name, std::move(body)));
  }

  const ProcessIdentity& self() override { return process_.identity_; }
  bool provably_gone(const ProcessIdentity& process) override {
    return process.boot_id == process_.identity_.boot_id && process.pid_namespace == process_.identity_.pid_namespace &&
           process.pid != 0 && (world_.gone_lies_ || !world_.is_running(process));
  }

 protected:
  int point_armed(const char* name) override { return world_.pass_point(process_, name); }

 private:
  World& world_;
  Process& process_;
};

std::unique_ptr<Runtime> make_simulated_runtime(World& world, Process& process) {
  return std::make_unique<SimulatedRuntime>(world, process);
}

}  // namespace steelyard::sim
