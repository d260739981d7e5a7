// What /proc says of processes and time namespaces; the parsers are apart from the reading, so that they can be tested.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/runtime.h"

namespace steelyard::process {

/// What a time namespace adds to the clocks of the host: inside, clock = host's clock + offset.
struct TimeOffsets {
  std::int64_t monotonic_ns = 0;
  std::int64_t boottime_ns = 0;
  bool operator==(const TimeOffsets&) const = default;
};

/// Reads the text of a timens_offsets file: lines of clock (name or number), seconds, nanoseconds. Lines that are not
/// understood, and clocks not named, count as 0.
TimeOffsets parse_time_offsets(std::string_view text);

/// The offsets of the calling process's own time namespace; zeros where the kernel has no time namespaces.
TimeOffsets own_time_offsets();

/// A line of /proc/<pid>/stat.
struct ProcessStat {
  std::int64_t pid = 0;
  char state = '?';
  std::int64_t threads = 0;
  /// Clock ticks since boot as the reader's time namespace shows them.
  std::uint64_t start_ticks = 0;
  bool operator==(const ProcessStat&) const = default;

  /// Dead, and only waiting to be collected. The leader of a process whose other threads still run is not.
  bool finished() const { return state == 'X' || (state == 'Z' && threads <= 1); }
};

/// Absent for text that is no stat line. The command name may hold anything, brackets and line feeds too.
std::optional<ProcessStat> parse_stat(std::string_view text);

/// True if `/proc/self/status` text shows that /proc belongs to the pid namespace of the process itself, whose pid in
/// it is `pid`.
bool shows_own_pid_namespace(std::string_view status_text, std::int64_t pid);

/// The calling process. start_ticks is the host's (without the time namespace's offset), and 0 where /proc does not
/// show this process as itself.
ProcessIdentity identify_self(const std::string& boot_id);

/// See Runtime::provably_gone. `self` is the calling process.
bool provably_gone(const ProcessIdentity& process, const ProcessIdentity& self);

/// A process that holds an flock, as this one sees it.
struct LockHolder {
  std::int64_t pid = 0;
  bool stopped = false;  ///< by a signal, or a tracer
  bool operator==(const LockHolder&) const = default;
};

/// The pids in the text of /proc/locks that hold an flock of the file; not those that wait for it.
std::vector<std::int64_t> parse_flock_pids(std::string_view text, std::uint64_t device, std::uint64_t inode);

/// Who holds an flock of the file, but for processes of other pid namespaces, which /proc does not show. For messages.
std::vector<LockHolder> flock_holders(std::uint64_t device, std::uint64_t inode);

}  // namespace steelyard::process
