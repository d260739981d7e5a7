// Folder: the tier's folder and its system calls, each behind a fault point.
//
// Thread-safety: may be used from any thread. Paths are relative to the folder. Calls return 0 or more as the system
// call does, or -errno; an armed fault point's errno takes the place of the call.
#pragma once

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/runtime.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "tiers/directory/io_queue.h"

namespace steelyard::tiers::directory {

inline constexpr std::string_view kDescriptors = "/proc/self/fd/";

/// When the file, or the number of its names, changed last, in milliseconds of the clock that stamps it: on a mounted
/// volume that of another machine.
inline std::int64_t changed_at_ms(const struct stat& there) {
  return there.st_ctim.tv_sec * 1000 + there.st_ctim.tv_nsec / 1'000'000;
}

class Folder {
 public:
  Folder(Runtime& runtime, std::string path, UniqueFd root, bool read_only);

  Runtime& runtime() { return runtime_; }
  IoEngine& engine() { return engine_; }
  const std::string& path() const { return path_; }
  bool read_only() const { return read_only_; }
  std::string full(std::string_view relative) const;

  int open(const char* point, const std::string& relative, int flags, mode_t mode = 0);
  /// For reading a file that others may have put there: what is no regular file (a fifo, a device) is not waited for,
  /// and is -ENXIO; a link is -ELOOP.
  int open_regular(const char* point, const std::string& relative, int flags);
  int stat(const std::string& relative, struct stat* out);  ///< does not follow links
  /// `from` may also be an open file that has no name yet: kDescriptors and its number.
  int link(const char* point, const std::string& from, const std::string& to);
  int rename(const char* point, const std::string& from, const std::string& to);
  int rename_no_replace(const std::string& from, const std::string& to);
  int touch(const std::string& relative);  ///< stamps it with the filesystem's now
  int unlink(const std::string& relative);
  /// flock of an open file of the folder, never waiting: -EWOULDBLOCK while another has it.
  int lock(int file, bool exclusive);
  int remove_folder(const std::string& relative);
  /// In a folder that is open: what was removed, or made again under the same name, is not reached. -ENOENT then.
  int unlink_in(int folder, const std::string& name);
  int remove_folder_in(int folder, const std::string& name);
  /// Makes the folder and its parents. OK when they are there.
  Status make_folders(const std::string& relative, std::uint64_t wanted_bytes = 0);
  int filesystem(struct statvfs* out);

  /// The status for a failed call: NO_SPACE for ENOSPC, EDQUOT and EFBIG, saying how much was wanted and is free.
  /// ENOENT while writing is UNAVAILABLE: another process removed what the step relied on.
  Status write_failure(int error_number, std::string_view call, std::string_view relative, std::uint64_t wanted_bytes);
  Status read_failure(int error_number, std::string_view call, std::string_view relative);
  /// UNAUTHORIZED in read-only mode.
  Status check_writable() const;
  /// UNAUTHORIZED when this user may not remove names from the folder. OK when it is not there.
  Status check_names_removable(const std::string& relative);

  enum class Names : std::uint8_t { kAll, kMayBeFolders };
  /// Names in a folder, without `.` and `..`; empty when it is not there.
  Result<std::vector<std::string>> names_in(const std::string& relative, Names which = Names::kAll);
  /// The same for the folder `name` of one that is open; `shown` is what messages call it.
  Result<std::vector<std::string>> names_in(int folder, const std::string& name, const std::string& shown,
                                            Names which = Names::kAll);

  /// What the tier does without here; each is logged once, at level info.
  void note_fact(const std::string& fact);
  std::vector<std::string> facts();

  /// Whether files are opened past the page cache; false after the filesystem has refused it once.
  bool direct() const;
  void give_up_direct(int error_number);

 private:
  Runtime& runtime_;
  std::string path_;
  UniqueFd root_;
  bool read_only_;
  IoEngine engine_;
  mutable std::mutex mutex_;
  std::set<std::string> facts_;
  bool direct_ = true;
};

/// Temporary files of live puts of this process, so that nobody removes them under it.
class LiveTemporary {
 public:
  explicit LiveTemporary(std::string name);
  LiveTemporary(const LiveTemporary&) = delete;
  LiveTemporary& operator=(const LiveTemporary&) = delete;
  ~LiveTemporary();
  const std::string& name() const { return name_; }
  static bool is_live(const std::string& name);

 private:
  std::string name_;
};

}  // namespace steelyard::tiers::directory
