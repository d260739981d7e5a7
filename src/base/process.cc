#include "base/process.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <vector>

#include "base/checked.h"

namespace steelyard::process {
namespace {

constexpr std::int64_t kNsPerS = 1'000'000'000;

std::optional<std::string> read_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return std::nullopt;
  std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  if (text.empty()) return std::nullopt;
  return text;
}

std::uint64_t inode_of(const std::string& path) {
  struct stat found {};
  return stat(path.c_str(), &found) == 0 ? found.st_ino : 0;
}

std::vector<std::string_view> words_of(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  std::vector<std::string_view> words;
  for (;;) {
    const auto begin = text.find_first_not_of(kSpace);
    if (begin == std::string_view::npos) return words;
    text.remove_prefix(begin);
    const auto end = std::min(text.find_first_of(kSpace), text.size());
    words.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
}

template <typename T>
std::optional<T> number_of(std::string_view word) {
  T value{};
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return value;
}

std::optional<ProcessStat> stat_of(std::int64_t pid) {
  const auto text = read_text("/proc/" + std::to_string(pid) + "/stat");
  return text ? parse_stat(*text) : std::nullopt;
}

bool proc_is_own() {
  const auto status = read_text("/proc/self/status");
  return status && shows_own_pid_namespace(*status, getpid());
}

/// The kernel shows start times with the boot-time offset of the reader's time namespace; the host's are the same for
/// all readers, but for the rounding to a tick.
std::uint64_t host_ticks(std::uint64_t shown_ticks) {
  const std::int64_t tick_ns = kNsPerS / sysconf(_SC_CLK_TCK);
  const std::int64_t offset_ns = own_time_offsets().boottime_ns;
  // Rounded down, so that two readers differ by one tick at most.
  const std::int64_t offset_ticks = offset_ns / tick_ns - (offset_ns % tick_ns < 0 ? 1 : 0);
  return shown_ticks - static_cast<std::uint64_t>(offset_ticks);
}

}  // namespace

TimeOffsets parse_time_offsets(std::string_view text) {
  TimeOffsets offsets;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    const auto words = words_of(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (words.size() != 3) continue;
    const auto seconds = number_of<std::int64_t>(words[1]);
    const auto nanoseconds = number_of<std::int64_t>(words[2]);
    if (!seconds || !nanoseconds) continue;
    const auto whole = checked_mul(*seconds, kNsPerS);
    const auto total = whole ? checked_add(*whole, *nanoseconds) : std::nullopt;
    if (!total) continue;
    if (words[0] == "monotonic" || words[0] == "1") offsets.monotonic_ns = *total;
    if (words[0] == "boottime" || words[0] == "7") offsets.boottime_ns = *total;
  }
  return offsets;
}

TimeOffsets own_time_offsets() {
  // /proc/<pid>/timens_offsets is about the namespace of the process's future children. That is its own as long as it
  // has not made one for them; then a process that lives in ours and made none is asked.
  const std::uint64_t own = inode_of("/proc/self/ns/time");
  if (own == 0) return {};
  for (const std::string& who : {std::string("self"), std::to_string(getppid()), std::string("1")}) {
    if (inode_of("/proc/" + who + "/ns/time_for_children") != own) continue;
    if (const auto text = read_text("/proc/" + who + "/timens_offsets")) return parse_time_offsets(*text);
  }
  return {};
}

std::optional<ProcessStat> parse_stat(std::string_view text) {
  const auto open = text.find(" (");
  const auto close = text.rfind(") ");
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) return std::nullopt;
  const auto pid = number_of<std::int64_t>(text.substr(0, open));
  const auto fields = words_of(text.substr(close + 2));
  constexpr std::size_t kFirst = 3;  // fields[0] is field 3 of proc(5)
  if (!pid || fields.size() <= 22 - kFirst || fields[0].size() != 1) return std::nullopt;
  const auto threads = number_of<std::int64_t>(fields[20 - kFirst]);
  const auto start = number_of<std::uint64_t>(fields[22 - kFirst]);
  if (!threads || !start) return std::nullopt;
  return ProcessStat{*pid, fields[0][0], *threads, *start};
}

bool shows_own_pid_namespace(std::string_view status_text, std::int64_t pid) {
  // NSpid lists the process's pid in each namespace from that of /proc inwards.
  constexpr std::string_view kLabel = "\nNSpid:";
  const auto at = status_text.find(kLabel);
  if (at == std::string_view::npos) return false;
  const std::string_view rest = status_text.substr(at + kLabel.size());
  const auto pids = words_of(rest.substr(0, rest.find('\n')));
  return pids.size() == 1 && number_of<std::int64_t>(pids[0]) == pid;
}

ProcessIdentity identify_self(const std::string& boot_id) {
  ProcessIdentity self;
  char host[256] = {};
  if (gethostname(host, sizeof host - 1) == 0) self.host = host;
  self.boot_id = boot_id;
  self.pid_namespace = inode_of("/proc/self/ns/pid");
  self.pid = getpid();
  if (proc_is_own()) {
    if (const auto stat = stat_of(self.pid)) self.start_ticks = host_ticks(stat->start_ticks);
  }
  return self;
}

bool provably_gone(const ProcessIdentity& process, const ProcessIdentity& self) {
  if (process.pid <= 0 || process.pid > INT32_MAX) return false;
  if (self.boot_id.empty() || process.boot_id != self.boot_id) return false;
  if (self.pid_namespace == 0 || process.pid_namespace != self.pid_namespace) return false;
  // A process that /proc hides (hidepid) still answers to kill; only the kernel's own "no such process" is proof.
  if (kill(static_cast<pid_t>(process.pid), 0) != 0 && errno == ESRCH) return true;
  if (!proc_is_own()) return false;
  const auto stat = stat_of(process.pid);
  if (!stat) return false;
  if (stat->finished()) return true;
  // Both sides may have been rounded to a tick; a pid does not come round again within two of them.
  if (process.start_ticks == 0) return false;
  const std::uint64_t ticks = host_ticks(stat->start_ticks);
  const std::uint64_t apart = ticks > process.start_ticks ? ticks - process.start_ticks : process.start_ticks - ticks;
  return apart > 1;
}

std::vector<std::int64_t> parse_flock_pids(std::string_view text, std::uint64_t device, std::uint64_t inode) {
  // "1: FLOCK  ADVISORY  WRITE 1234 fe:00:131 0 EOF"; who waits has "->" behind the number.
  constexpr std::size_t kType = 1;
  constexpr std::size_t kPid = 4;
  constexpr std::size_t kFile = 5;
  std::array<char, 64> file{};
  std::snprintf(file.data(), file.size(), "%02x:%02x:%llu", major(device), minor(device),
                static_cast<unsigned long long>(inode));
  std::vector<std::int64_t> pids;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const auto words = words_of(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (words.size() <= kFile || words[kType] != "FLOCK" || words[kFile] != file.data()) continue;
    const auto pid = number_of<std::int64_t>(words[kPid]);
    if (pid && *pid > 0 && std::ranges::count(pids, *pid) == 0) pids.push_back(*pid);
  }
  return pids;
}

std::vector<LockHolder> flock_holders(std::uint64_t device, std::uint64_t inode) {
  const auto text = read_text("/proc/locks");
  std::vector<LockHolder> holders;
  if (!text) return holders;
  for (const std::int64_t pid : parse_flock_pids(*text, device, inode)) {
    const auto stat = stat_of(pid);
    holders.push_back({pid, stat && (stat->state == 'T' || stat->state == 't')});
  }
  return holders;
}

}  // namespace steelyard::process
