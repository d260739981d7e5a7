// Runtime: the only way to time, randomness, threads and fault points.
//
// Thread-safety: every Runtime may be used from any thread of its process.
//
// Production is threads and the system's clocks; a simulation is one seeded thread in which tasks are fibres. Code
// above this room never uses std::thread, sleep, a clock or rand directly (tools/tidy checks), so the whole store runs
// in simulation. No mutex may be held across a call that can wait (a tier, a log, sleep, Event::wait_until).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/bytes.h"

namespace steelyard {

/// Who a process is, so that another one on the same host can prove that it is gone.
struct ProcessIdentity {
  std::string host;
  std::string boot_id;
  std::uint64_t pid_namespace = 0;  ///< inode of /proc/self/ns/pid
  std::int64_t pid = 0;
  /// Field 22 of /proc/<pid>/stat without the reader's time-namespace offset, so equal for all readers but for the
  /// rounding to a tick; 0: not known.
  std::uint64_t start_ticks = 0;
  bool operator==(const ProcessIdentity&) const = default;
};

/// A running task. The destructor joins.
class Task {
 public:
  virtual ~Task() = default;
  virtual void join() = 0;
};

/// A flag that can be waited for. Once set it stays set. It must outlive every call of its methods, set() too.
class Event {
 public:
  virtual ~Event() = default;
  virtual void set() = 0;
  /// True when it was set before the deadline (Runtime::mono_ms). INT64_MAX waits for ever.
  virtual bool wait_until(std::int64_t deadline_mono_ms) = 0;
};

class Runtime {
 public:
  virtual ~Runtime() = default;

  /// Milliseconds of CLOCK_MONOTONIC, corrected by the process's time-namespace offset: equal in all containers of a
  /// host; does not advance in suspend.
  virtual std::int64_t mono_ms() = 0;
  /// Nanoseconds for measuring durations inside one process; never stored.
  virtual std::int64_t mono_ns() = 0;
  /// Milliseconds since 1970, UTC, from 1970 to the end of 9999 whatever the clock says: it fills in created_at and the
  /// like, decides nothing, and no clock may make what it is written into unreadable.
  virtual std::int64_t wall_ms() = 0;
  /// The clock epoch: the kernel's boot id. Instants of mono_ms compare only within one epoch.
  virtual const std::string& epoch() = 0;

  virtual void fill_random(ByteSpan out) = 0;
  std::string random_hex(std::size_t bytes);

  virtual void sleep_ms(std::int64_t duration_ms) = 0;
  virtual std::unique_ptr<Event> make_event() = 0;
  virtual std::unique_ptr<Task> spawn(std::string_view name, std::function<void()> body) = 0;

  virtual const ProcessIdentity& self() = 0;
  /// True only if the process cannot be alive: same boot id and pid namespace as ours, and no process of that pid and
  /// start time, or only its zombie. False when in doubt.
  virtual bool provably_gone(const ProcessIdentity& process) = 0;

  /// A named fault point. Returns 0, or the errno that the caller must pretend its system call returned. A test may
  /// also end the process here. In production without STEELYARD_FAULT this is one load and a branch.
  int point(const char* name) { return faults_armed_ ? point_armed(name) : 0; }

 protected:
  virtual int point_armed(const char* name) = 0;
  bool faults_armed_ = false;
};

/// What Runtime::wall_ms makes of a clock's seconds and nanoseconds.
std::int64_t wall_ms_of(std::int64_t seconds, std::int64_t nanoseconds);

/// The process's own runtime: threads and the system's clocks.
///
/// STEELYARD_FAULT arms fault points in it, for tests: rules separated by `,`, each `ACTION@POINT[#N]` where ACTION is
/// `kill` (SIGKILL to itself), `stop` (SIGSTOP), `trace` (POINT is ignored; every point passed is written to the file
/// named by STEELYARD_FAULT_TRACE, one name a line) or an errno name (ENOSPC EIO EACCES EROFS EMLINK EPERM EXDEV
/// EINVAL ENOTSUP ETIMEDOUT EAGAIN EBUSY ENOMEM EINTR EBADF ENOSYS); POINT may end in `*`; N is the number of the pass,
/// from 1, at which it acts (errno rules without N act on every pass).
Runtime& real_runtime();

}  // namespace steelyard

/// A place where a crash is interesting and there is no system call to fail.
#define SY_POINT(runtime, name) static_cast<void>((runtime).point(name))
