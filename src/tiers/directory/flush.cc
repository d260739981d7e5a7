// Flush: one barrier for an attempt (docs/decisions/0006-flush-barrier.md).
//
//   1. fsync the small files of the attempt, several at once, whichever process put them. Large ones were synced before
//      they got their names, linked content before it got its entry.
//   2. fsync the folders from `p` up to the tier's own, so that every name on the way is durable.
//   3. Add the content entries of the small files that this process put. The index's folders are not synced: an entry
//      that a crash takes costs one write.
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "tiers/directory/directory_tier.h"

namespace steelyard::tiers::directory {
namespace {

constexpr std::size_t kSyncsUnderWayMax = 8;

}  // namespace

Status DirectoryTier::sync_all(const std::vector<SyncTarget>& targets) {
  auto io = folder_.engine().acquire();
  std::array<UniqueFd, kSyncsUnderWayMax> fds;
  Status first;
  for (std::size_t begin = 0; begin < targets.size() && first.ok(); begin += kSyncsUnderWayMax) {
    const std::size_t count = std::min(kSyncsUnderWayMax, targets.size() - begin);
    for (std::size_t i = 0; i < count && first.ok(); ++i) {
      const SyncTarget& target = targets[begin + i];
      const int opened = target.is_folder ? folder_.open("tier.open_flush", target.relative, O_RDONLY | O_DIRECTORY)
                                          : folder_.open_regular("tier.open_flush", target.relative, O_RDONLY);
      if (opened < 0) {
        first = folder_.write_failure(-opened, "open", target.relative, 0);
        break;
      }
      fds[i] = UniqueFd(opened);
      if (const int fault = folder_.runtime().point("tier.flush"); fault != 0) {
        first = folder_.write_failure(fault, "fsync", target.relative, 0);
        break;
      }
      io->add({IoRequest::Kind::kSync, opened, nullptr, 0, 0, begin + i, false});
    }
    io->start();
    while (io->under_way() > 0) {
      const IoDone done = io->wait();
      const auto tag = static_cast<std::size_t>(done.tag);
      const SyncTarget& target = targets[tag];
      // The kernel had no thread for it; this one waits itself.
      if (done.again()) {
        if (::fsync(fds[tag - begin].get()) != 0 && first.ok()) {
          first = folder_.write_failure(errno, "fsync", target.relative, 0);
        }
      } else if (done.result == -EINVAL && done.started && target.is_folder) {
        folder_.note_fact("the filesystem has no fsync for folders");
      } else if (done.result < 0 && first.ok()) {
        first = folder_.write_failure(static_cast<int>(-done.result), "fsync", target.relative, 0);
      }
    }
    for (UniqueFd& fd : fds) fd = UniqueFd();
  }
  folder_.engine().release(std::move(io));
  return first;
}

Status DirectoryTier::flush(const AttemptName& attempt) {
  SY_RETURN_IF_ERROR(check(attempt));
  SY_RETURN_IF_ERROR(folder_.check_writable());
  std::map<Digest, WaitingContent> waiting;
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = waiting_content_.find(attempt); found != waiting_content_.end()) {
      waiting = std::move(found->second);
      waiting_content_.erase(found);
    }
  }
  const std::string path = attempt_path(attempt);
  struct stat there {};
  if (const int result = folder_.stat(path, &there); result == -ENOENT) {
    return {};  // nothing was put
  } else if (result < 0) {
    return folder_.write_failure(-result, "stat", path, 0);
  }
  std::vector<SyncTarget> targets;
  SY_ASSIGN_OR_RETURN(const auto objects, list_attempt(attempt, nullptr));
  for (const ObjectStat& object : objects) {
    if (object.bytes < kSmallBytes) targets.push_back({object_path(object.name), false});
  }
  SY_RETURN_IF_ERROR(sync_all(targets));
  SY_POINT(folder_.runtime(), "tier.after_flush_files");

  std::vector<SyncTarget> folders;
  if (folder_.stat(path + "/p", &there) == 0) folders.push_back({path + "/p", true});
  for (std::string& folder : folders_above(attempt)) folders.push_back({std::move(folder), true});
  SY_RETURN_IF_ERROR(sync_all(folders));
  SY_POINT(folder_.runtime(), "tier.after_flush_folders");

  for (const auto& [sha256, content] : waiting) {
    add_content(object_path(content.name), sha256, content.bytes, content.replace)
        .ignore("an entry is economy, never safety");
  }
  return {};
}

}  // namespace steelyard::tiers::directory
