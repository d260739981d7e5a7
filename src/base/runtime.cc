#include "base/runtime.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <mutex>
#include <optional>
#include <sstream>
#include <thread>
#include <vector>

#include "base/check.h"

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

/// What this process's time namespace adds to the host's CLOCK_MONOTONIC; 0 where there are no time namespaces.
std::int64_t monotonic_offset_ns() {
  std::ifstream in("/proc/self/timens_offsets");
  std::string name;
  std::int64_t seconds = 0;
  std::int64_t nanoseconds = 0;
  while (in >> name >> seconds >> nanoseconds) {
    if (name == "monotonic" || name == "1") return seconds * kNsPerS + nanoseconds;
  }
  return 0;
}

/// Start time of a process in clock ticks since boot; absent if there is no such process, or only its zombie.
std::optional<std::uint64_t> start_ticks_of(std::int64_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  if (!std::getline(in, text)) return std::nullopt;
  // The command name stands in brackets and may hold anything, so fields are counted after the last bracket.
  const auto bracket = text.rfind(')');
  if (bracket == std::string::npos) return std::nullopt;
  std::istringstream rest(text.substr(bracket + 1));
  std::string field;
  for (int number = 3; rest >> field; ++number) {
    if (number == 3 && (field == "Z" || field == "X")) return std::nullopt;
    if (number == 22) return std::strtoull(field.c_str(), nullptr, 10);
  }
  return std::nullopt;
}

ProcessIdentity identify_self(const std::string& boot_id) {
  ProcessIdentity self;
  char host[256] = {};
  if (gethostname(host, sizeof host - 1) == 0) self.host = host;
  self.boot_id = boot_id;
  struct stat ns {};
  if (stat("/proc/self/ns/pid", &ns) == 0) self.pid_namespace = ns.st_ino;
  self.pid = getpid();
  self.start_ticks = start_ticks_of(self.pid).value_or(0);
  return self;
}

class ThreadTask final : public Task {
 public:
  explicit ThreadTask(std::function<void()> body) : thread_(std::move(body)) {}
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
      const std::int64_t left = deadline_mono_ms - runtime_.mono_ms();
      if (left <= 0) return false;
      changed_.wait_for(lock, std::chrono::milliseconds(left));
    }
    return true;
  }

 private:
  Runtime& runtime_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool set_ = false;
};

struct FaultRule {
  enum class Action { kKill, kStop, kTrace, kErrno } action = Action::kKill;
  int error_number = 0;
  std::string point;
  bool prefix = false;
  std::uint64_t at_pass = 0;  ///< 0: every pass
  std::uint64_t passes = 0;

  bool matches(std::string_view name) const { return prefix ? name.starts_with(point) : name == point; }
};

int errno_by_name(std::string_view name) {
  static constexpr struct {
    std::string_view name;
    int number;
  } kNames[] = {{"ENOSPC", ENOSPC}, {"EIO", EIO},       {"EACCES", EACCES},   {"EROFS", EROFS},        {"EMLINK", EMLINK},
                {"EPERM", EPERM},   {"EXDEV", EXDEV},   {"EINVAL", EINVAL},   {"ENOTSUP", ENOTSUP},    {"ETIMEDOUT", ETIMEDOUT}};
  for (const auto& entry : kNames) {
    if (entry.name == name) return entry.number;
  }
  check_failed(__FILE__, __LINE__, "STEELYARD_FAULT", "unknown action in a fault rule");
}

FaultRule parse_rule(std::string_view text) {
  const auto at = text.find('@');
  SY_CHECK(at != std::string_view::npos, "a rule of STEELYARD_FAULT is ACTION@POINT[#N]");
  const std::string_view action = text.substr(0, at);
  std::string_view point = text.substr(at + 1);
  FaultRule rule;
  if (const auto hash = point.find('#'); hash != std::string_view::npos) {
    const std::string_view number = point.substr(hash + 1);
    std::from_chars(number.data(), number.data() + number.size(), rule.at_pass);
    point = point.substr(0, hash);
  }
  if (point.ends_with('*')) {
    rule.prefix = true;
    point.remove_suffix(1);
  }
  rule.point = point;
  if (action == "kill" || action == "stop") {
    rule.action = action == "kill" ? FaultRule::Action::kKill : FaultRule::Action::kStop;
    if (rule.at_pass == 0) rule.at_pass = 1;
  } else if (action == "trace") {
    rule.action = FaultRule::Action::kTrace;
    rule.prefix = true;
    rule.point.clear();
  } else {
    rule.action = FaultRule::Action::kErrno;
    rule.error_number = errno_by_name(action);
  }
  return rule;
}

class RealRuntime final : public Runtime {
 public:
  RealRuntime()
      : offset_ns_(monotonic_offset_ns()),
        epoch_(first_line("/proc/sys/kernel/random/boot_id")),
        self_(identify_self(epoch_)) {
    if (const char* rules = std::getenv("STEELYARD_FAULT"); rules != nullptr && *rules != '\0') arm(rules);
  }

  std::int64_t mono_ms() override { return (clock_ns(CLOCK_MONOTONIC) - offset_ns_) / kNsPerMs; }
  std::int64_t mono_ns() override { return clock_ns(CLOCK_MONOTONIC); }
  std::int64_t wall_ms() override { return clock_ns(CLOCK_REALTIME) / kNsPerMs; }
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
  std::unique_ptr<Task> spawn(std::string_view /*name*/, std::function<void()> body) override {
    return std::make_unique<ThreadTask>(std::move(body));
  }

  const ProcessIdentity& self() override { return self_; }
  bool provably_gone(const ProcessIdentity& process) override {
    if (process.pid <= 0 || process.boot_id != epoch_ || epoch_.empty()) return false;
    if (process.pid_namespace != self_.pid_namespace || self_.pid_namespace == 0) return false;
    if (start_ticks_of(self_.pid) != self_.start_ticks) return false;  // /proc does not show what it should
    const auto ticks = start_ticks_of(process.pid);
    return !ticks.has_value() || *ticks != process.start_ticks;
  }

 protected:
  int point_armed(const char* name) override {
    const std::lock_guard lock(fault_mutex_);
    for (FaultRule& rule : rules_) {
      if (!rule.matches(name)) continue;
      ++rule.passes;
      if (rule.at_pass != 0 && rule.passes != rule.at_pass) continue;
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
  void arm(std::string_view rules) {
    while (!rules.empty()) {
      const auto comma = rules.find(',');
      rules_.push_back(parse_rule(rules.substr(0, comma)));
      rules = comma == std::string_view::npos ? std::string_view() : rules.substr(comma + 1);
    }
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

std::string Runtime::random_hex(std::size_t bytes) {
  std::vector<std::byte> raw(bytes);
  fill_random(raw);
  return to_hex(raw);
}

Runtime& real_runtime() {
  static RealRuntime runtime;
  return runtime;
}

}  // namespace steelyard
