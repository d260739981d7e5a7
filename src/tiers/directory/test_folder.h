// For tests: a folder that is removed with its owner, and a runtime whose fault points are armed by name.
#pragma once

#include <stdlib.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/runtime.h"
#include "tiers/open.h"

namespace steelyard::tiers {

class TestFolder {
 public:
  explicit TestFolder(const std::string& parent = "/tmp") : path_(parent + "/steelyard-tiers-XXXXXX") {
    made_ = ::mkdtemp(path_.data()) != nullptr;
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  ~TestFolder() {
    std::error_code ignored;
    if (made_) std::filesystem::remove_all(path_, ignored);
  }
  bool made() const { return made_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  bool made_ = false;
};

inline DirectoryOptions test_options(const std::string& path) {
  DirectoryOptions options;
  options.path = path;
  options.store_id = "0123456789abcdef0123456789abcdef";
  options.create = true;
  return options;
}

/// The process's runtime with fault points that a test arms.
class FaultRuntime final : public Runtime {
 public:
  FaultRuntime() { faults_armed_ = true; }

  /// The next `times` passes of `point`, after `skip` of them, answer with `error_number`; times 0: all.
  void arm(const std::string& point, int error_number, int times = 0, int skip = 0) {
    const std::lock_guard lock(mutex_);
    rules_[point] = {error_number, times, skip};
  }
  void disarm() {
    const std::lock_guard lock(mutex_);
    rules_.clear();
  }
  /// Runs at every pass of `point`.
  void on(const std::string& point, std::function<void()> action) {
    const std::lock_guard lock(mutex_);
    actions_[point] = std::move(action);
  }
  std::uint64_t passes(const std::string& point) {
    const std::lock_guard lock(mutex_);
    return passes_[point];
  }
  /// Sleeping takes no time from now on.
  void skip_sleeps() { skip_sleeps_ = true; }

  std::int64_t mono_ms() override { return real_runtime().mono_ms(); }
  std::int64_t mono_ns() override { return real_runtime().mono_ns(); }
  std::int64_t wall_ms() override { return real_runtime().wall_ms(); }
  const std::string& epoch() override { return epoch_.empty() ? real_runtime().epoch() : epoch_; }
  /// Another boot of the machine.
  void set_epoch(std::string epoch) { epoch_ = std::move(epoch); }
  void fill_random(ByteSpan out) override { real_runtime().fill_random(out); }
  void sleep_ms(std::int64_t duration_ms) override { real_runtime().sleep_ms(skip_sleeps_ ? 0 : duration_ms); }
  std::unique_ptr<Event> make_event() override { return real_runtime().make_event(); }
  std::unique_ptr<Task> spawn(std::string_view name, std::function<void()> body) override {
    return real_runtime().spawn(name, std::move(body));
  }
  const ProcessIdentity& self() override { return real_runtime().self(); }
  bool provably_gone(const ProcessIdentity& process) override { return real_runtime().provably_gone(process); }

 protected:
  int point_armed(const char* name) override {
    std::function<void()> action;
    int error = 0;
    {
      const std::lock_guard lock(mutex_);
      ++passes_[name];
      if (const auto found = actions_.find(name); found != actions_.end()) action = found->second;
      if (const auto found = rules_.find(name); found != rules_.end()) error = found->second.pass();
    }
    if (action) action();
    return error;
  }

 private:
  struct Rule {
    int error_number = 0;
    int times = 0;
    int skip = 0;
    bool spent = false;
    int pass() {
      if (spent) return 0;
      if (skip > 0) {
        --skip;
        return 0;
      }
      if (times > 0 && --times == 0) spent = true;
      return error_number;
    }
  };
  std::mutex mutex_;
  std::map<std::string, Rule> rules_;
  std::map<std::string, std::function<void()>> actions_;
  std::map<std::string, std::uint64_t> passes_;
  std::atomic<bool> skip_sleeps_{false};
  std::string epoch_;
};

}  // namespace steelyard::tiers
