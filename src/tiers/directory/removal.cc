// Removal goes on past failures, answers with the first, and never touches a foreign file.
#include <errno.h>

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

}  // namespace

Status DirectoryTier::remove_file(const std::string& relative) {
  const int result = folder_.unlink(relative);
  if (result == 0 || result == -ENOENT || result == -ENOTDIR) return {};
  return folder_.write_failure(-result, "remove", relative, 0);
}

Status DirectoryTier::remove_empty_folder(const std::string& relative) {
  const int result = folder_.remove_folder(relative);
  // A foreign file keeps its folder.
  if (result == 0 || result == -ENOENT || result == -ENOTEMPTY || result == -EEXIST || result == -ENOTDIR) return {};
  return folder_.write_failure(-result, "remove folder", relative, 0);
}

Status DirectoryTier::remove(const ObjectName& name) {
  SY_RETURN_IF_ERROR(check(name));
  SY_RETURN_IF_ERROR(folder_.check_writable());
  return remove_file(object_path(name));
}

Status DirectoryTier::remove_attempt(const AttemptName& attempt) {
  SY_RETURN_IF_ERROR(check(attempt));
  SY_RETURN_IF_ERROR(folder_.check_writable());
  {
    const std::lock_guard lock(mutex_);
    waiting_content_.erase(attempt);
  }
  const std::string path = attempt_path(attempt);
  FirstFailure failure;
  const auto remove_in = [&](const std::string& folder, auto is_ours) {
    const auto names = folder_.names_in(folder);
    if (!names.ok()) {
      failure.note(names.status());
      return;
    }
    for (const std::string& name : *names) {
      if (is_ours(name)) failure.note(remove_file(folder + "/" + name));
    }
  };
  // The marker first: an attempt that lost a member must not look committed.
  failure.note(remove_file(path + "/committed"));
  remove_in(path + "/p", [](const std::string& name) { return parse_digits(name, 8).has_value(); });
  remove_in(path + "/tmp", [](const std::string& name) { return is_lower_hex(name, 2 * kTemporaryNameBytes); });
  remove_in(path, [](const std::string& name) { return name == "manifest" || is_index_name(name); });
  for (const char* folder : {"/p", "/tmp", ""}) failure.note(remove_empty_folder(path + folder));
  return failure.take();
}

Status DirectoryTier::remove_temporaries(const AttemptName& attempt) {
  SY_RETURN_IF_ERROR(check(attempt));
  SY_RETURN_IF_ERROR(folder_.check_writable());
  const std::string folder = attempt_path(attempt) + "/tmp";
  SY_ASSIGN_OR_RETURN(const auto names, folder_.names_in(folder));
  FirstFailure failure;
  for (const std::string& name : names) {
    if (!is_lower_hex(name, 2 * kTemporaryNameBytes) || LiveTemporary::is_live(name)) continue;
    failure.note(remove_file(folder + "/" + name));
  }
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

Status DirectoryTier::remove_content(const Digest& sha256) {
  SY_RETURN_IF_ERROR(folder_.check_writable());
  return remove_file(content_path(sha256));
}

}  // namespace steelyard::tiers::directory
