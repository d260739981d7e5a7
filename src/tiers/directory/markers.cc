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
constexpr std::uint64_t kCatalogCopyBytesMax = 16ULL * 1024 * 1024 * 1024;

}  // namespace

/// Writes, syncs and closes `temporary`, which stays for the caller to name.
Status DirectoryTier::write_synced(ObjectWriter& writer, std::string_view bytes) {
  SY_RETURN_IF_ERROR(writer.append(as_bytes(bytes)));
  SY_RETURN_IF_ERROR(writer.close());
  return sync_all({{writer.link_from(), false}});
}

Result<std::string> DirectoryTier::read_small_file(const std::string& relative, std::string what,
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
  SY_ASSIGN_OR_RETURN(auto reader, open_reader(relative, std::move(what)));
  std::string text(static_cast<std::size_t>(bytes), '\0');
  reader->start({{0, std::as_writable_bytes(std::span(text.data(), text.size()))}});
  SY_RETURN_IF_ERROR(reader->finish());
  return text;
}

Status DirectoryTier::put_committed(const AttemptName& attempt, std::string_view bytes) {
  SY_RETURN_IF_ERROR(check(attempt));
  SY_RETURN_IF_ERROR(folder_.check_writable());
  const std::string path = attempt_path(attempt);
  const std::string marker = path + "/committed";
  struct stat there {};
  if (const int result = folder_.stat(path, &there); result == -ENOENT) {
    return {Code::kNotFound, describe(attempt) + " is not in the tier (" + folder_.full(path) + ")"};
  } else if (result < 0) {
    return folder_.write_failure(-result, "stat", path, bytes.size());
  }
  const LiveTemporary temporary(new_temporary_name());
  SY_ASSIGN_OR_RETURN(auto writer, new_file(temporary_path(attempt, temporary.name()), bytes.size(), {path + "/tmp"}));
  SY_RETURN_IF_ERROR(write_synced(*writer, bytes));
  SY_POINT(folder_.runtime(), "tier.after_marker_write");
  int result = folder_.link("tier.marker", writer->link_from(), marker);
  if (result == -EPERM || result == -EOPNOTSUPP) {
    result = folder_.rename_no_replace(writer->link_from(), marker);
    if (result == 0) writer->keep();
  }
  if (result == -EEXIST) {
    SY_ASSIGN_OR_RETURN(const std::string found, read_committed(attempt));
    if (found != bytes) {
      return {Code::kConflict, describe(attempt) + " has another `committed` marker (" + folder_.full(marker) + ")"};
    }
  } else if (result < 0) {
    return folder_.write_failure(-result, "link", marker, bytes.size());
  }
  return sync_all({{path, true}});
}

Result<std::string> DirectoryTier::read_committed(const AttemptName& attempt) {
  SY_RETURN_IF_ERROR(check(attempt));
  return read_small_file(attempt_path(attempt) + "/committed", "the `committed` marker of " + describe(attempt),
                         kMarkerBytesMax);
}

/// The marker under its name, whole; one that is there stays.
Status DirectoryTier::name_deleting(const std::string& marker, std::string_view bytes) {
  const LiveTemporary temporary(new_temporary_name());
  SY_ASSIGN_OR_RETURN(auto writer, new_file("catalog/tmp/" + temporary.name(), bytes.size(), {"catalog/tmp"}));
  SY_RETURN_IF_ERROR(write_synced(*writer, bytes));
  SY_POINT(folder_.runtime(), "tier.after_marker_write");
  const int result = folder_.rename_no_replace(writer->link_from(), marker);
  if (result == -EEXIST) return {};
  if (result == 0) {
    writer->keep();
    return {};
  }
  if (result != -EINVAL && result != -ENOSYS) return folder_.write_failure(-result, "rename", marker, bytes.size());
  // A filesystem without an exclusive rename. Every marker of a group speaks of the same revision.
  const int renamed = folder_.rename("tier.rename", writer->link_from(), marker);
  if (renamed < 0) return folder_.write_failure(-renamed, "rename", marker, bytes.size());
  writer->keep();
  return {};
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

Status DirectoryTier::put_deleting(const std::string& group, std::string_view bytes) {
  SY_RETURN_IF_ERROR(check_group(group));
  SY_RETURN_IF_ERROR(folder_.check_writable());
  const std::string path = group_path(group);
  SY_RETURN_IF_ERROR(folder_.make_folders(path));
  const std::string marker = path + "/deleting";
  struct stat there {};
  if (const int result = folder_.stat(marker, &there); result == -ENOENT) {
    Status named = name_deleting(marker, bytes);
    // A full disk is what deletes are for.
    if (named.code() == Code::kNoSpace) named = create_empty(marker);
    SY_RETURN_IF_ERROR(named);
  } else if (result < 0) {
    return folder_.write_failure(-result, "stat", marker, 0);
  }
  return sync_all({{path + "/deleting", false},
                   {path, true},
                   {path.substr(0, path.rfind('/')), true},
                   {"groups", true},
                   {".", true}});
}

Result<std::string> DirectoryTier::read_deleting(const std::string& group) {
  SY_RETURN_IF_ERROR(check_group(group));
  return read_small_file(group_path(group) + "/deleting", "the `deleting` marker of group " + group, kMarkerBytesMax);
}

Status DirectoryTier::put_catalog_copy(std::uint64_t sequence, std::string_view bytes) {
  SY_RETURN_IF_ERROR(folder_.check_writable());
  const std::string path = catalog_path(sequence);
  const LiveTemporary temporary(new_temporary_name());
  SY_ASSIGN_OR_RETURN(auto writer, new_file("catalog/tmp/" + temporary.name(), bytes.size(), {"catalog/tmp"}));
  SY_RETURN_IF_ERROR(write_synced(*writer, bytes));
  SY_POINT(folder_.runtime(), "tier.after_marker_write");
  // Replaces: all copies of one sequence hold the same state, and a damaged one is to be got rid of.
  const int result = folder_.rename("tier.rename", writer->link_from(), path);
  if (result < 0) return folder_.write_failure(-result, "rename", path, bytes.size());
  writer->keep();
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

Status DirectoryTier::remove_catalog_copy(std::uint64_t sequence) {
  SY_RETURN_IF_ERROR(folder_.check_writable());
  return remove_file(catalog_path(sequence));
}

}  // namespace steelyard::tiers::directory
