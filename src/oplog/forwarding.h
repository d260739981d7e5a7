// ForwardingLog: a log over another one, of which a derived class changes what it must. For the decorators of tests and
// simulation.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "oplog/op_log.h"

namespace steelyard::oplog {

/// As thread-safe as `inner`, which outlives it.
class ForwardingLog : public OpLog {
 public:
  explicit ForwardingLog(OpLog& inner) : inner_(inner) {}

  Result<std::uint64_t> write(const Prepare& prepare) override { return inner_.write(prepare); }
  Status view(const std::function<Status(const StateView& view)>& read) override { return inner_.view(read); }
  Result<std::vector<Append>> read(std::uint64_t after, std::size_t limit) override {
    return inner_.read(after, limit);
  }
  Result<bool> watch(std::uint64_t after, std::int64_t deadline_mono_ms, const std::atomic<bool>* cancel) override {
    return inner_.watch(after, deadline_mono_ms, cancel);
  }
  Result<std::uint64_t> save_snapshot() override { return inner_.save_snapshot(); }
  Result<std::string> newest_snapshot() override { return inner_.newest_snapshot(); }
  Status trim(std::uint64_t sequence) override { return inner_.trim(sequence); }
  Result<std::uint64_t> length() override { return inner_.length(); }
  Status restore(const Snapshot& snapshot) override { return inner_.restore(snapshot); }
  Status check_place() const override { return inner_.check_place(); }
  Capabilities capabilities() const override { return inner_.capabilities(); }

 protected:
  OpLog& inner_;
};

}  // namespace steelyard::oplog
