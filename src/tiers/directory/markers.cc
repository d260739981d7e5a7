// Markers and catalog copies: small files, written under a temporary name, synced, then named; their folder is synced
// before the call returns.
#include <errno.h>
#include <fcntl.h>

#include <algorithm>

#include "tiers/directory/directory_tier.h"

namespace steelyard::tiers::directory {
namespace {

/// A `committed` marker holds one record; the limit bounds what a damaged file may make a reader allocate.
constexpr std::uint64_t kMarkerBytesMax = 64ULL * 1024 * 1024;
/// How often a marker's temporary file may be taken away.
constexpr int kRoundsMax = 5;
constexpr std::uint64_t kCatalogCopyBytesMax = 16ULL * 1024 * 1024 * 1024;

}  // namespace

/// Writes, syncs and closes `temporary`, which stays for the caller to name.
Status DirectoryTier::write_synced(ObjectWriter& writer, std::string_view bytes) {
  SY_RETURN_IF_ERROR(writer.append(as_bytes(bytes)));
  SY_RETURN_IF_ERROR(writer.close());
  return sync_all({{writer.link_from(), false}});
}

Result<std::uint64_t> DirectoryTier::size_of_file(const std::string& relative, const std::string& what,
                                                  std::uint64_t bytes_max) {
  struct stat there {};
  const int result = folder_.stat(relative, &there);
  if (result == -ENOENT || result == -ENOTDIR) {
    return Status(Code::kNotFound, what + " is not in the tier (" + folder_.full(relative) + ")");
  }
  if (result < 0) return folder_.read_failure(-result, "stat", relative);
  const auto bytes = static_cast<std::uint64_t>(there.st_size);
  if (!S_ISREG(there.st_mode) || bytes > bytes_max) {
    return Status(Code::kCorrupt, folder_.full(relative) + " is not a regular file of at most " +
                                      std::to_string(bytes_max) + " bytes (" + std::to_string(bytes) + ")");
  }
  return bytes;
}

Result<std::string> DirectoryTier::read_first(const std::string& relative, std::string what, std::uint64_t bytes) {
  SY_ASSIGN_OR_RETURN(auto reader, open_reader(relative, std::move(what)));
  std::string text(static_cast<std::size_t>(bytes), '\0');
  reader->start({{0, std::as_writable_bytes(std::span(text.data(), text.size()))}});
  SY_RETURN_IF_ERROR(reader->finish());
  return text;
}

Result<std::string> DirectoryTier::read_small_file(const std::string& relative, std::string what,
                                                   std::uint64_t bytes_max) {
  SY_ASSIGN_OR_RETURN(const std::uint64_t bytes, size_of_file(relative, what, bytes_max));
  return read_first(relative, std::move(what), bytes);
}

Status DirectoryTier::check_attempt_there(const AttemptName& attempt) {
  const std::string path = attempt_path(attempt);
  struct stat there {};
  const int result = folder_.stat(path, &there);
  if (result == -ENOENT) {
    return {Code::kNotFound, describe(attempt) + " is not in the tier (" + folder_.full(path) + ")"};
  }
  return result < 0 ? folder_.write_failure(-result, "stat", path, 0) : Status();
}

Status DirectoryTier::put_committed(const AttemptName& attempt, std::string_view bytes) {
  SY_RETURN_IF_ERROR(check(attempt));
  SY_RETURN_IF_ERROR(folder_.check_writable());
  SY_RETURN_IF_ERROR(check_attempt_there(attempt));
  const std::string path = attempt_path(attempt);
  const std::string marker = path + "/committed";
  const auto link = [&](ObjectWriter& writer) {
    int result = folder_.link("tier.marker", writer.link_from(), marker);
    if (result == -EPERM || result == -EOPNOTSUPP) {
      result = folder_.rename_no_replace(writer.link_from(), marker);
      if (result == 0) writer.keep();
    }
    return result;
  };
  const auto named = write_and_name(path + "/tmp", marker, bytes, link);
  if (!named.ok()) {
    // Perhaps the attempt went meanwhile.
    SY_RETURN_IF_ERROR(check_attempt_there(attempt));
    return named.status();
  }
  if (!*named) {
    SY_ASSIGN_OR_RETURN(const std::string found, read_committed(attempt));
    if (found != bytes) {
      return {Code::kConflict, describe(attempt) + " has another `committed` marker (" + folder_.full(marker) + ")"};
    }
  }
  return sync_all({{path, true}});
}

Result<std::string> DirectoryTier::read_committed(const AttemptName& attempt) {
  SY_RETURN_IF_ERROR(check(attempt));
  return read_small_file(attempt_path(attempt) + "/committed", "the `committed` marker of " + describe(attempt),
                         kMarkerBytesMax);
}

Status DirectoryTier::replace_committed(const AttemptName& attempt, std::string_view bytes) {
  SY_RETURN_IF_ERROR(check(attempt));
  SY_RETURN_IF_ERROR(folder_.check_writable());
  SY_RETURN_IF_ERROR(check_attempt_there(attempt));
  const std::string path = attempt_path(attempt);
  const std::string marker = path + "/committed";
  SY_RETURN_IF_ERROR(write_in_catalog(
      marker, bytes, [&](const std::string& temporary) { return folder_.rename("tier.rename", temporary, marker); }));
  return sync_all({{path, true}});
}

/// Writes the bytes under a temporary name in `folder`, synced, and gives them `path` by `name`, which answers 0 or an
/// errno, negative. False where a file has the name already and `name` says EEXIST: it stays. Done again when somebody
/// takes the temporary file for one of a killed writer.
Result<bool> DirectoryTier::write_and_name(const std::string& folder, const std::string& path, std::string_view bytes,
                                           const std::function<int(ObjectWriter&)>& name) {
  for (int round = 1;; ++round) {
    const LiveTemporary temporary(new_temporary_name());
    SY_ASSIGN_OR_RETURN(auto writer, new_file(folder + "/" + temporary.name(), bytes.size(), {folder}));
    if (Status written = write_synced(*writer, bytes); !written.ok()) {
      struct stat there {};
      const bool taken = folder_.stat(writer->link_from(), &there) == -ENOENT;
      if (taken && round < kRoundsMax) continue;
      return written;
    }
    SY_POINT(folder_.runtime(), "tier.after_marker_write");
    const int result = name(*writer);
    if (result == 0 || result == -EEXIST) return result == 0;
    if (result == -ENOENT && round < kRoundsMax) continue;
    return folder_.write_failure(-result, "name", path, bytes.size());
  }
}

/// The same in `catalog/tmp`, by a rename.
Status DirectoryTier::write_in_catalog(const std::string& path, std::string_view bytes,
                                       const std::function<int(const std::string&)>& rename) {
  const auto renamed = [&](ObjectWriter& writer) {
    const int result = rename(writer.link_from());
    if (result == 0) writer.keep();
    return result;
  };
  return write_and_name("catalog/tmp", path, bytes, renamed).status();
}

/// The marker under its name, whole; one that is there stays unless it is to be replaced.
Status DirectoryTier::name_deleting(const std::string& marker, std::string_view bytes, bool replace) {
  return write_in_catalog(marker, bytes, [&](const std::string& temporary) {
    int result = replace ? -EINVAL : folder_.rename_no_replace(temporary, marker);
    // A filesystem without an exclusive rename. Every marker of a group speaks of the same revision.
    if (result == -EINVAL || result == -ENOSYS) result = folder_.rename("tier.rename", temporary, marker);
    // Where another ended the removal meanwhile, and a gc forgot the group, it comes back for the next gc.
    if (result == -ENOENT) folder_.make_folders(marker.substr(0, marker.rfind('/'))).ignore("the next try says it");
    return result;
  });
}

/// The marker without its bytes, which takes no block of the disk.
Status DirectoryTier::create_empty(const std::string& relative) {
  const int opened = folder_.open("tier.marker", relative, O_WRONLY | O_CREAT | O_EXCL, 0444);
  if (opened == -EEXIST) return {};
  if (opened < 0) return folder_.write_failure(-opened, "create", relative, 0);
  UniqueFd fd(opened);
  const int closed = fd.close();
  return closed < 0 ? folder_.write_failure(-closed, "close", relative, 0) : Status();
}

/// Renames a `committed` marker, which takes neither a block nor an inode, and tells as much; the revision is not to be
/// recovered from now on anyway. False where none is there.
Result<bool> DirectoryTier::name_committed(const std::string& group, const std::string& marker) {
  SY_ASSIGN_OR_RETURN(const GroupListing listing, list_group(group));
  for (auto attempt = listing.committed_attempts.rbegin(); attempt != listing.committed_attempts.rend(); ++attempt) {
    const std::string committed = attempt_path({group, *attempt}) + "/committed";
    int result = folder_.rename_no_replace(committed, marker);
    if (result == -EINVAL || result == -ENOSYS) result = folder_.rename("tier.rename", committed, marker);
    if (result == 0 || result == -EEXIST) return true;
  }
  return false;
}

Status DirectoryTier::put_deleting(const std::string& group, std::string_view bytes) {
  SY_RETURN_IF_ERROR(check_group(group));
  SY_RETURN_IF_ERROR(folder_.check_writable());
  const std::string path = group_path(group);
  SY_RETURN_IF_ERROR(folder_.make_folders(path));
  const std::string marker = path + "/deleting";
  struct stat there {};
  const int result = folder_.stat(marker, &there);
  if (result < 0 && result != -ENOENT) return folder_.write_failure(-result, "stat", marker, 0);
  if (result == -ENOENT || (there.st_size == 0 && !bytes.empty())) {
    Status named = name_deleting(marker, bytes, result == 0);
    // A full disk is what deletes are for.
    if (named.code() == Code::kNoSpace) {
      SY_ASSIGN_OR_RETURN(const bool linked, name_committed(group, marker));
      named = linked ? Status() : create_empty(marker);
    }
    SY_RETURN_IF_ERROR(named);
  }
  std::vector<SyncTarget> targets = {{marker, false}};
  for (std::string& folder : folders_above(group)) targets.push_back({std::move(folder), true});
  return sync_all(targets);
}

Result<std::string> DirectoryTier::read_deleting(const std::string& group) {
  SY_RETURN_IF_ERROR(check_group(group));
  return read_small_file(group_path(group) + "/deleting", "the `deleting` marker of group " + group, kMarkerBytesMax);
}

Status DirectoryTier::remove_deleting(const std::string& group) {
  SY_RETURN_IF_ERROR(check_group(group));
  SY_RETURN_IF_ERROR(folder_.check_writable());
  const std::string path = group_path(group);
  SY_RETURN_IF_ERROR(remove_file(path + "/deleting"));
  return sync_all({{path, true}});
}

Status DirectoryTier::put_catalog_copy(std::uint64_t sequence, std::string_view bytes) {
  SY_RETURN_IF_ERROR(folder_.check_writable());
  const std::string path = catalog_path(sequence);
  // Replaces: all copies of one sequence hold the same state, and a damaged one is to be got rid of.
  SY_RETURN_IF_ERROR(write_in_catalog(
      path, bytes, [&](const std::string& temporary) { return folder_.rename("tier.rename", temporary, path); }));
  return sync_all({{"catalog", true}, {".", true}});
}

Result<std::vector<std::uint64_t>> DirectoryTier::list_catalog_copies() {
  SY_ASSIGN_OR_RETURN(const auto names, folder_.names_in("catalog"));
  std::vector<std::uint64_t> sequences;
  for (const std::string& name : names) {
    if (const auto sequence = parse_digits(name, 20); sequence.has_value()) sequences.push_back(*sequence);
  }
  return sequences;
}

Result<std::string> DirectoryTier::read_catalog_copy(std::uint64_t sequence) {
  return read_small_file(catalog_path(sequence), "the catalog copy of sequence " + std::to_string(sequence),
                         kCatalogCopyBytesMax);
}

Result<CatalogCopyHead> DirectoryTier::read_catalog_copy_head(std::uint64_t sequence, std::size_t bytes_max) {
  const std::string path = catalog_path(sequence);
  std::string what = "the catalog copy of sequence " + std::to_string(sequence);
  CatalogCopyHead head;
  SY_ASSIGN_OR_RETURN(head.total_bytes, size_of_file(path, what, kCatalogCopyBytesMax));
  SY_ASSIGN_OR_RETURN(head.bytes,
                      read_first(path, std::move(what), std::min<std::uint64_t>(head.total_bytes, bytes_max)));
  return head;
}

Status DirectoryTier::remove_catalog_copy(std::uint64_t sequence) {
  SY_RETURN_IF_ERROR(folder_.check_writable());
  return remove_file(catalog_path(sequence));
}

}  // namespace steelyard::tiers::directory
