// World: one machine in one thread: its clock, its processes, and the scheduler of their fibres.
//
// Thread-safety: none; one simulation runs on one thread. The seed decides every switch, so one seed gives one history.
//
// A fibre may lose the processor where production code may wait (sleep, Event::wait_until, Task::join) and at fault
// points outside the tiers. Time stands still while fibres run, but for small steps, and jumps to the next deadline
// when none can.
//
// Death. A killed process gets no effect any more: `alive()` is false, and the handles through which it reaches the
// world (its tier and log, workload/handles.h) refuse every call and change nothing. Its fibres then run to their end
// at once, before anybody else: waits return immediately, so that error paths unwind by themselves and every destructor
// runs. Nothing they do can be seen from outside, which is what death means; and nothing leaks, no exception passes
// through a destructor, and no stack is torn down under a live object, which is what abandoning or unwinding them by an
// exception would cost. What a real SIGKILL leaves behind (temporary files, writes under way) the handles keep.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/runtime.h"
#include "sim/random.h"
#include "sim/runtime/fibre.h"

namespace steelyard::sim {

class World;

/// What fault points do; chances per mille of a pass.
struct PointPlan {
  std::uint64_t tier_errno = 0;  ///< `tier.*` points: EIO, ENOSPC or EMLINK
  std::uint64_t kill = 0;        ///< other points: the process dies here
  std::uint64_t stop = 0;        ///< other points: the process stands still for up to stop_ms_max
  std::int64_t stop_ms_max = 0;
};

/// A simulated process. Owned by its World, and kept until the World goes, dead or not.
class Process {
 public:
  Process(World& world, std::string name, ProcessIdentity identity, std::uint64_t seed);
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process();

  const std::string& name() const { return name_; }
  const ProcessIdentity& identity() const { return identity_; }
  Runtime& runtime() { return *runtime_; }
  bool alive() const { return alive_; }
  /// Told when it is killed, so that nothing waits for what a living process would do.
  void set_on_death(std::function<void()> on_death) { on_death_ = std::move(on_death); }
  /// Error numbers that its fault points returned.
  std::uint64_t errors() const { return errors_; }

 private:
  friend class World;
  friend class SimulatedRuntime;
  World& world_;
  std::string name_;
  ProcessIdentity identity_;
  Random random_;
  bool alive_ = true;
  bool immortal_ = false;
  std::int64_t stopped_until_ = 0;  ///< on the world's own time
  std::uint64_t calls_after_death_ = 0;
  std::uint64_t errors_ = 0;
  std::function<void()> on_death_;
  std::unique_ptr<Runtime> runtime_;
};

class World {
 public:
  explicit World(std::uint64_t seed);
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  ~World();

  /// The process that plays nature: it is never killed or stopped. Its runtime is the machine's clock.
  Process& nature() { return *nature_; }
  Process& start_process(const std::string& name);
  /// A fibre of the process that nobody joins.
  void spawn(Process& process, std::string_view name, std::function<void()> body);
  /// Runs until every fibre has ended. Returns false when some wait for ever; the trace says which.
  bool run();

  void kill(Process& process);
  /// SIGSTOP, with SIGCONT after `duration_ms`.
  void stop(Process& process, std::int64_t duration_ms);
  /// The power fails and comes back: every process is gone, the monotonic clock restarts under a new epoch, and the
  /// wall clock jumps by `wall_step_ms`.
  void reboot(std::int64_t wall_step_ms);
  void set_points(const PointPlan& plan) { points_ = plan; }
  /// Every process is told that every other one is gone: a canary, which the checkers must see.
  void lie_about_the_gone() { gone_lies_ = true; }

  bool is_running(const ProcessIdentity& identity) const;
  std::int64_t mono_ms() const { return now_ms_ - booted_at_ms_ + kMonoAtBootMs; }
  const std::string& epoch() const { return epoch_; }

  /// The operation under way in the running fibre, handed down to the fibres it spawns. 0: none.
  std::uint64_t current_operation() const;
  void set_operation(std::uint64_t operation);

  /// Adds a line to the trace: time, a digest of every switch so far, and the text.
  void trace(std::string_view text);
  const std::string& trace_text() const { return trace_; }
  std::uint64_t switches() const { return switches_; }

 private:
  friend class SimulatedRuntime;
  friend class SimulatedEvent;
  friend class SimulatedTask;

  static constexpr std::int64_t kMonoAtBootMs = 5000;

  struct Thread {
    std::uint64_t id = 0;
    std::string name;
    Process* process = nullptr;
    std::unique_ptr<Fibre> fibre;
    std::uint64_t operation = 0;
    bool runnable = true;
    std::int64_t wake_at_ms = 0;      ///< on the world's own time; INT64_MAX: never by itself
    const void* waits_for = nullptr;  ///< an event
    std::uint64_t joins = 0;          ///< a thread; 0: none
  };

  std::uint64_t start_thread(Process& process, std::string_view name, std::function<void()> body);
  Thread* pick();
  void resume(Thread& thread);
  bool advance_clock();
  /// The running thread gives the processor away until it is woken; a dead process only ever waits for its own threads.
  void block(std::int64_t wake_at_ms, const void* event, std::uint64_t join);
  void yield();
  void wake_waiting_for(const void* event);
  bool exists(std::uint64_t thread) const { return threads_.contains(thread); }
  std::int64_t from_mono(std::int64_t mono) const;
  int pass_point(Process& process, std::string_view name);
  void count_call(Process& process);

  StackPool stacks_;
  Random schedule_;
  Random seeds_;
  Random faults_;
  PointPlan points_;
  std::int64_t now_ms_ = 0;
  std::int64_t booted_at_ms_ = 0;
  std::int64_t wall_offset_ms_;
  std::uint64_t boots_ = 0;
  std::string epoch_;
  std::int64_t next_pid_ = 100;
  bool gone_lies_ = false;
  std::uint64_t next_thread_ = 1;
  std::uint64_t switches_ = 0;
  std::uint64_t schedule_digest_ = 0;
  std::string trace_;
  std::vector<std::unique_ptr<Process>> processes_;
  Process* nature_ = nullptr;
  std::map<std::uint64_t, Thread> threads_;
  Thread* running_ = nullptr;
};

}  // namespace steelyard::sim
