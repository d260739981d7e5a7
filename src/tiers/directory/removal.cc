// Removal goes on past failures, answers with the first, and never touches a foreign file.
#include <errno.h>
#include <fcntl.h>

#include "tiers/directory/directory_tier.h"

namespace steelyard::tiers::directory {
namespace {

/// Keeps the first failure.
class FirstFailure {
 public:
  void note(Status status) {
    if (first_.ok()) first_ = std::move(status);
  }
  Status take() { return std::move(first_); }

 private:
  Status first_;
};

/// The folder itself, open: it is what it was, whatever lies under its name by now.
class HeldFolder final : public HeldAttempt {
 public:
  HeldFolder(AttemptName name, UniqueFd fd) : HeldAttempt(std::move(name)), fd_(std::move(fd)) {}
  int fd() const { return fd_.get(); }

 private:
  UniqueFd fd_;
};

bool is_absent(int result) { return result == -ENOENT || result == -ENOTDIR; }
/// A foreign file keeps its folder.
bool is_kept(int result) { return result == -ENOTEMPTY || result == -EEXIST; }

}  // namespace

Status DirectoryTier::remove_file(const std::string& relative) {
  const int result = folder_.unlink(relative);
  if (result == 0 || is_absent(result)) return {};
  return folder_.write_failure(-result, "remove", relative, 0);
}

Status DirectoryTier::remove_empty_folder(const std::string& relative) {
  const int result = folder_.remove_folder(relative);
  if (result == 0 || is_absent(result) || is_kept(result)) return {};
  return folder_.write_failure(-result, "remove folder", relative, 0);
}

Status DirectoryTier::remove(const ObjectName& name) {
  SY_RETURN_IF_ERROR(check(name));
  SY_RETURN_IF_ERROR(folder_.check_writable());
  return remove_file(object_path(name));
}

Result<std::unique_ptr<HeldAttempt>> DirectoryTier::hold_attempt(const AttemptName& attempt) {
  SY_RETURN_IF_ERROR(check(attempt));
  const std::string path = attempt_path(attempt);
  const int opened = folder_.open("tier.hold", path, O_RDONLY | O_DIRECTORY);
  if (is_absent(opened)) {
    return Status(Code::kNotFound, describe(attempt) + " is not in the tier (" + folder_.full(path) + ")");
  }
  if (opened < 0) return folder_.read_failure(-opened, "open folder", path);
  return std::unique_ptr<HeldAttempt>(std::make_unique<HeldFolder>(attempt, UniqueFd(opened)));
}

Status DirectoryTier::remove_held(const HeldAttempt& attempt) {
  SY_RETURN_IF_ERROR(folder_.check_writable());
  {
    const std::lock_guard lock(mutex_);
    waiting_content_.erase(attempt.name());
  }
  const int held = static_cast<const HeldFolder&>(attempt).fd();
  const std::string path = attempt_path(attempt.name());
  FirstFailure failure;
  const auto remove = [&](const std::string& name) {
    const int result = folder_.unlink_in(held, name);
    if (result < 0 && !is_absent(result)) {
      failure.note(folder_.write_failure(-result, "remove", path + "/" + name, 0));
    }
  };
  const auto remove_below = [&](const std::string& folder, const std::string& prefix, auto is_ours) {
    const auto names = folder_.names_in(held, folder, path + "/" + folder);
    if (!names.ok()) {
      failure.note(names.status());
      return;
    }
    for (const std::string& name : *names) {
      if (is_ours(name)) remove(prefix + name);
    }
  };
  // The marker first: an attempt that lost a member must not look committed.
  remove("committed");
  remove_below("p", "p/", [](const std::string& name) { return parse_digits(name, 8).has_value(); });
  remove_below("tmp", "tmp/", [](const std::string& name) { return is_lower_hex(name, 2 * kTemporaryNameBytes); });
  remove_below(".", "", [](const std::string& name) { return name == "manifest" || is_index_name(name); });
  for (const std::string folder : {"p", "tmp"}) {
    const int result = folder_.remove_folder_in(held, folder);
    if (result == 0 || is_absent(result) || is_kept(result)) continue;
    failure.note(folder_.write_failure(-result, "remove folder", path + "/" + folder, 0));
  }
  // By its name, as there is no other way: one that was made since goes only if nothing was put into it yet.
  failure.note(remove_empty_folder(path));
  return failure.take();
}

Status DirectoryTier::remove_temporaries(const AttemptName& attempt, std::int64_t idle_ms) {
  SY_RETURN_IF_ERROR(check(attempt));
  SY_RETURN_IF_ERROR(folder_.check_writable());
  const std::string folder = attempt_path(attempt) + "/tmp";
  SY_ASSIGN_OR_RETURN(auto names, folder_.names_in(folder));
  std::erase_if(names, [](const std::string& name) {
    return !is_lower_hex(name, 2 * kTemporaryNameBytes) || LiveTemporary::is_live(name);
  });
  if (names.empty()) return {};
  struct stat there {};
  // Who stamps the files says what time it is: on a mounted volume that is another machine.
  int result = folder_.touch(folder);
  if (result == 0) result = folder_.stat(folder, &there);
  if (is_absent(result)) return {};
  if (result < 0) return folder_.write_failure(-result, "touch", folder, 0);
  const std::int64_t now_ms = changed_at_ms(there);
  FirstFailure failure;
  for (const std::string& name : names) {
    const std::string path = folder + "/" + name;
    result = folder_.stat(path, &there);
    if (is_absent(result)) continue;
    if (result < 0) {
      failure.note(folder_.read_failure(-result, "stat", path));
    } else if (now_ms - changed_at_ms(there) >= idle_ms) {
      failure.note(remove_file(path));
    }
  }
  return failure.take();
}

Status DirectoryTier::remove_catalog_temporaries(std::int64_t changed_before_ms) {
  SY_RETURN_IF_ERROR(folder_.check_writable());
  FirstFailure failure;
  const auto remove_old = [&](const std::string& folder, std::string_view prefix) {
    const auto names = folder_.names_in(folder);
    if (!names.ok()) return failure.note(names.status());
    for (const std::string& name : *names) {
      if (!name.starts_with(prefix) || !is_lower_hex(name.substr(prefix.size()), 2 * kTemporaryNameBytes)) continue;
      struct stat there {};
      const std::string path = folder + "/" + name;
      if (LiveTemporary::is_live(name) || folder_.stat(path, &there) != 0) continue;
      // Of a content entry on its way to its name, only that it was linked is new.
      if (changed_at_ms(there) < changed_before_ms) failure.note(remove_file(path));
    }
  };
  remove_old("catalog/tmp", "");
  remove_old(".", kStoreFileTemporaryPrefix);
  return failure.take();
}

Status DirectoryTier::remove_group(const std::string& group) {
  SY_RETURN_IF_ERROR(folder_.check_writable());
  SY_ASSIGN_OR_RETURN(const auto listing, list_group(group));
  if (!listing.attempts.empty() || !listing.by_operation.empty()) {
    const AttemptName held =
        listing.attempts.empty() ? listing.by_operation.front() : AttemptName{group, listing.attempts.front()};
    return {Code::kConflict, "there still is " + describe(held) + " (" + folder_.full(attempt_path(held)) + ")"};
  }
  SY_RETURN_IF_ERROR(remove_file(group_path(group) + "/deleting"));
  return remove_empty_folder(group_path(group));
}

Status DirectoryTier::remove_empty_group(const std::string& group) {
  SY_RETURN_IF_ERROR(check_group(group));
  SY_RETURN_IF_ERROR(folder_.check_writable());
  return remove_empty_folder(group_path(group));
}

Status DirectoryTier::check_removable(const std::string& group) {
  SY_RETURN_IF_ERROR(check_group(group));
  SY_RETURN_IF_ERROR(folder_.check_writable());
  SY_ASSIGN_OR_RETURN(const auto listing, list_group(group));
  const std::string path = group_path(group);
  std::vector<std::string> folders = {".", "catalog", "catalog/tmp", path};
  std::vector<AttemptName> attempts = listing.by_operation;
  for (const std::uint32_t attempt : listing.attempts) attempts.push_back({group, attempt});
  for (const AttemptName& attempt : attempts) {
    const std::string of_attempt = attempt_path(attempt);
    folders.insert(folders.end(), {of_attempt, of_attempt + "/p"});
  }
  for (const std::string& folder : folders) SY_RETURN_IF_ERROR(folder_.check_names_removable(folder));
  return {};
}

Status DirectoryTier::remove_content(const Digest& sha256) {
  SY_RETURN_IF_ERROR(folder_.check_writable());
  return remove_file(content_path(sha256));
}

}  // namespace steelyard::tiers::directory
