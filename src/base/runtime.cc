#include "base/runtime.h"

#include <pthread.h>
#include <signal.h>
#include <sys/random.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/faults.h"
#include "base/process.h"
#include "base/workers.h"

namespace steelyard {
namespace {

constexpr std::int64_t kNsPerMs = 1'000'000;
constexpr std::int64_t kNsPerS = 1'000'000'000;

std::int64_t clock_ns(clockid_t clock) {
  timespec now{};
  SY_CHECK(clock_gettime(clock, &now) == 0, "clock_gettime");
  return now.tv_sec * kNsPerS + now.tv_nsec;
}

std::string first_line(const char* path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

/// Longer waits are cut into pieces, so that no deadline overflows the clock of the standard library.
constexpr std::int64_t kWaitPieceMs = 3'600'000;

class ThreadTask final : public Task {
 public:
  /// Throws std::system_error where the system has no thread left.
  ThreadTask(std::string_view name, std::function<void()> body) {
    // The kernel keeps 15 bytes of a thread's name.
    auto run = [short_name = std::string(name.substr(0, 15)), body = std::move(body)] {
      pthread_setname_np(pthread_self(), short_name.c_str());
      body();
    };
    thread_ = std::thread(std::move(run));
  }
  ~ThreadTask() override { join(); }
  void join() override {
    if (thread_.joinable()) thread_.join();
  }

 private:
  std::thread thread_;
};

class ThreadEvent final : public Event {
 public:
  explicit ThreadEvent(Runtime& runtime) : runtime_(runtime) {}
  void set() override {
    const std::lock_guard lock(mutex_);
    set_ = true;
    changed_.notify_all();
  }
  bool wait_until(std::int64_t deadline_mono_ms) override {
    std::unique_lock lock(mutex_);
    while (!set_) {
      const std::int64_t now = runtime_.mono_ms();
      if (deadline_mono_ms <= now) return false;
      changed_.wait_for(lock, std::chrono::milliseconds(std::min(deadline_mono_ms - now, kWaitPieceMs)));
    }
    return true;
  }

 private:
  Runtime& runtime_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool set_ = false;
};

class RealRuntime final : public Runtime {
 public:
  RealRuntime()
      : offset_ns_(process::own_time_offsets().monotonic_ns),
        epoch_(first_line("/proc/sys/kernel/random/boot_id")),
        self_(process::identify_self(epoch_)) {
    if (const char* rules = std::getenv("STEELYARD_FAULT"); rules != nullptr && *rules != '\0') arm(rules);
  }

  /// The child of a fork is another process.
  void identify_again() { self_ = process::identify_self(epoch_); }

  std::int64_t mono_ms() override { return (clock_ns(CLOCK_MONOTONIC) - offset_ns_) / kNsPerMs; }
  std::int64_t mono_ns() override { return clock_ns(CLOCK_MONOTONIC); }
  std::int64_t wall_ms() override {
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    return wall_ms_of(now.tv_sec, now.tv_nsec);
  }
  const std::string& epoch() override { return epoch_; }

  void fill_random(ByteSpan out) override {
    while (!out.empty()) {
      const ssize_t got = getrandom(out.data(), out.size(), 0);
      if (got < 0 && errno == EINTR) continue;
      SY_CHECK(got > 0, "getrandom");
      out = out.subspan(static_cast<std::size_t>(got));
    }
  }

  void sleep_ms(std::int64_t duration_ms) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(duration_ms));
  }
  std::unique_ptr<Event> make_event() override { return std::make_unique<ThreadEvent>(*this); }
  std::unique_ptr<Task> spawn(std::string_view name, std::function<void()> body) override {
    try {
      return std::make_unique<ThreadTask>(name, std::move(body));
    } catch (const std::system_error& error) {
      check_failed(__FILE__, __LINE__, "spawn",
                   "no thread could be started (raise the limit of threads): " + std::string(error.what()));
    }
  }

  const ProcessIdentity& self() override { return self_; }
  bool provably_gone(const ProcessIdentity& process) override { return process::provably_gone(process, self_); }

 protected:
  int point_armed(const char* name) override {
    const std::lock_guard lock(fault_mutex_);
    for (const FaultRule& rule : rules_acting_on(rules_, name)) {
      switch (rule.action) {
        case FaultRule::Action::kKill:
          raise(SIGKILL);
          break;
        case FaultRule::Action::kStop:
          raise(SIGSTOP);
          break;
        case FaultRule::Action::kTrace:
          trace(name);
          break;
        case FaultRule::Action::kErrno:
          return rule.error_number;
      }
    }
    return 0;
  }

 private:
  void arm(std::string_view text) {
    auto rules = parse_fault_rules(text);
    SY_CHECK(rules.ok(), "STEELYARD_FAULT: " + rules.status().to_string());
    rules_ = std::move(rules).value();
    faults_armed_ = true;
  }

  static void trace(const char* name) {
    const char* path = std::getenv("STEELYARD_FAULT_TRACE");
    if (path == nullptr) return;
    std::ofstream(path, std::ios::app) << name << '\n';
  }

  std::int64_t offset_ns_;
  std::string epoch_;
  ProcessIdentity self_;
  std::mutex fault_mutex_;
  std::vector<FaultRule> rules_;
};

}  // namespace

std::int64_t wall_ms_of(std::int64_t seconds, std::int64_t nanoseconds) {
  constexpr std::int64_t kEndOfYear9999S = 253'402'300'800;
  if (seconds < 0) return 0;
  if (seconds >= kEndOfYear9999S) return kEndOfYear9999S * 1000 - 1;
  return seconds * 1000 + nanoseconds / kNsPerMs;
}

std::string Runtime::random_hex(std::size_t bytes) {
  std::vector<std::byte> raw(bytes);
  fill_random(raw);
  return to_hex(raw);
}

std::vector<std::unique_ptr<Task>> spawn_workers(Runtime& runtime, std::string_view name, std::size_t count,
                                                 const std::function<void()>& body) {
  const bool has_threads = dynamic_cast<RealRuntime*>(&runtime) != nullptr;
  std::vector<std::unique_ptr<Task>> tasks;
  tasks.reserve(count);
  try {
    while (tasks.size() < count && runtime.point("runtime.spawn") == 0) {
      tasks.push_back(has_threads ? std::make_unique<ThreadTask>(name, body) : runtime.spawn(name, body));
    }
  } catch (const std::system_error&) {
    // Those that run, and the caller, do the work.
  }
  return tasks;
}

Result<std::unique_ptr<Task>> try_spawn(Runtime& runtime, std::string_view name, const std::function<void()>& body) {
  auto tasks = spawn_workers(runtime, name, 1, body);
  if (!tasks.empty()) return std::move(tasks.front());
  return Status(Code::kUnavailable, "no thread could be started for " + std::string(name),
                "raise the limit of threads (ulimit -u, or pids.max of the cgroup), then run the same command again");
}

Runtime& real_runtime() {
  static RealRuntime* const runtime = [] {
    static RealRuntime only;
    pthread_atfork(nullptr, nullptr, [] { only.identify_again(); });
    return &only;
  }();
  return *runtime;
}

}  // namespace steelyard
