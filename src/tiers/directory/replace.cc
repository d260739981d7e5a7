// Replacement: the only steps that change what a name stands for. Killed after any of them, every name has its old
// bytes or the new ones, and who begins again finds what is left to do.
//
//   1. Write `tmp/<random>` whole and sync it, small files too.                -> a temporary file
//   2. Give it to `content/<sha256>`, over an entry that is there.             -> the entry has the new bytes
//   3. For each name but the last: link the entry to a temporary name beside
//      it and rename that over the name.                                       -> this name has the new bytes
//   4. The same for the last one: whoever looks at it and finds its old bytes
//      finds the other names by them.
//   5. fsync the folders, and those above them where one was missing.
//
// The old bytes live as long as somebody reads them or a name is left that stands for them.
#include <errno.h>

#include <algorithm>
#include <set>
#include <utility>

#include "tiers/directory/directory_tier.h"

namespace steelyard::tiers::directory {
namespace {

/// How often a temporary name may be taken away under a replacement.
constexpr int kRoundsMax = 5;

class Replacement final : public PutStream {
 public:
  Replacement(DirectoryTier& tier, std::vector<ObjectName> names, const Digest& sha256,
              std::unique_ptr<LiveTemporary> temporary, std::unique_ptr<ObjectWriter> writer)
      : tier_(tier),
        names_(std::move(names)),
        sha256_(sha256),
        temporary_(std::move(temporary)),
        writer_(std::move(writer)) {}
  Status append(ByteView bytes) override { return writer_->append(bytes); }
  Result<PutOutcome> finish() override {
    SY_CHECK(writer_ != nullptr, "a put is finished once");
    const std::unique_ptr<ObjectWriter> writer = std::move(writer_);
    Status status = writer->close();
    if (status.ok()) status = tier_.replace(*writer, names_, sha256_);
    if (!status.ok()) return std::move(status).annotate("replacing", describe(names_.back()));
    return PutOutcome::kWritten;
  }

 private:
  DirectoryTier& tier_;
  std::vector<ObjectName> names_;
  Digest sha256_;
  std::unique_ptr<LiveTemporary> temporary_;  // outlives the writer, which removes the file
  std::unique_ptr<ObjectWriter> writer_;
};

}  // namespace

Status DirectoryTier::check_payloads(const std::vector<ObjectName>& names) const {
  if (names.empty()) return {Code::kInvalidArgument, "a replacement without a name"};
  for (const ObjectName& name : names) {
    SY_RETURN_IF_ERROR(check(name));
    if (name.kind != ObjectKind::kPayload) {
      return {Code::kInvalidArgument, describe(name) + " is no payload object, and only those are replaced"};
    }
  }
  return {};
}

Result<ContentEntry> DirectoryTier::stat_content(const Digest& sha256) {
  const std::string path = content_path(sha256);
  struct stat there {};
  const int result = folder_.stat(path, &there);
  if (result == -ENOENT || result == -ENOTDIR) {
    return Status(Code::kNotFound, "content " + sha256.hex() + " is not in the tier (" + folder_.full(path) + ")");
  }
  if (result < 0) return folder_.read_failure(-result, "stat", path);
  if (!S_ISREG(there.st_mode)) return Status(Code::kCorrupt, folder_.full(path) + " is not a regular file");
  return content_entry(sha256, there);
}

Result<std::unique_ptr<PendingRead>> DirectoryTier::start_read_content(const Digest& sha256,
                                                                       std::vector<ReadRange> ranges) {
  SY_ASSIGN_OR_RETURN(auto reader, open_reader(content_path(sha256), "content " + sha256.hex()));
  reader->start(std::move(ranges));
  return std::unique_ptr<PendingRead>(std::move(reader));
}

/// Steps 3 and 4 for one name. `folders` receives those that step 5 has to sync.
Status DirectoryTier::give_content(const std::string& entry_path, const ObjectName& name, bool may_be_absent,
                                   std::set<std::string>& folders) {
  const std::string path = object_path(name);
  const std::string attempt = attempt_path(name.in);
  for (int round = 0; round < kRoundsMax; ++round) {
    struct stat entry {};
    struct stat there {};
    int result = folder_.stat(entry_path, &entry);
    if (result < 0) return folder_.write_failure(-result, "stat", entry_path, 0);
    result = folder_.stat(path, &there);
    const bool absent = result == -ENOENT;
    if (result < 0 && !absent) return folder_.write_failure(-result, "stat", path, 0);
    // A name that was deleted meanwhile stays so, and so do its folders.
    if (absent && !may_be_absent) return {};
    folders.insert(attempt + "/p");
    // Renaming one name of a file over another of the same file leaves both.
    if (!absent && there.st_ino == entry.st_ino) return {};

    const LiveTemporary temporary(new_temporary_name());
    const std::string beside = temporary_path(name.in, temporary.name());
    result = folder_.link("tier.replace_link", entry_path, beside);
    if (result == -ENOENT || absent) {
      if (!may_be_absent && folder_.stat(path, &there) == -ENOENT) return {};
      SY_RETURN_IF_ERROR(folder_.make_folders(attempt + "/tmp"));
      if (may_be_absent) SY_RETURN_IF_ERROR(folder_.make_folders(attempt + "/p"));
      // Which of them are new is not known: their names have to be as durable as what is in them.
      for (std::string& parent : folders_above(name.in)) folders.insert(std::move(parent));
      if (result == -ENOENT) result = folder_.link("tier.replace_link", entry_path, beside);
    }
    if (result < 0) return folder_.write_failure(-result, "link", beside, 0);
    SY_POINT(folder_.runtime(), "tier.after_replace_link");
    result = folder_.rename("tier.replace", beside, path);
    if (result == 0) {
      // Where another gave the name the same bytes meanwhile, the rename has left both.
      static_cast<void>(folder_.unlink(beside));
      SY_POINT(folder_.runtime(), "tier.after_replace");
      return {};
    }
    static_cast<void>(folder_.unlink(beside));
    // The object's name has gone, or the temporary one has, which somebody took for a dead writer's.
    if (result != -ENOENT) return folder_.write_failure(-result, "rename", path, 0);
  }
  return folder_.write_failure(ENOENT, "rename", path, 0);
}

Result<bool> DirectoryTier::relink(const std::vector<ObjectName>& names, const Digest& sha256, std::uint64_t bytes) {
  SY_RETURN_IF_ERROR(check_payloads(names));
  SY_RETURN_IF_ERROR(folder_.check_writable());
  const auto entry = stat_content(sha256);
  const bool usable =
      entry.ok() ? entry->bytes == bytes : entry.code() != Code::kNotFound && entry.code() != Code::kCorrupt;
  if (!usable) return false;
  SY_RETURN_IF_ERROR(entry.status());
  std::set<std::string> folders;
  for (const ObjectName& name : names) {
    SY_RETURN_IF_ERROR(give_content(content_path(sha256), name, &name == &names.back(), folders));
  }
  std::vector<SyncTarget> targets;
  for (const std::string& folder : folders) {
    struct stat there {};
    if (folder_.stat(folder, &there) == 0) targets.push_back({folder, true});
  }
  SY_RETURN_IF_ERROR(sync_all(targets));
  return true;
}

Result<std::unique_ptr<PutStream>> DirectoryTier::open_replacement(std::vector<ObjectName> names, std::uint64_t bytes,
                                                                   const Digest& sha256) {
  SY_RETURN_IF_ERROR(check_payloads(names));
  SY_RETURN_IF_ERROR(folder_.check_writable());
  auto temporary = std::make_unique<LiveTemporary>(new_temporary_name());
  SY_ASSIGN_OR_RETURN(auto writer, create_temporary(names.back().in, bytes, *temporary));
  return std::unique_ptr<PutStream>(
      std::make_unique<Replacement>(*this, std::move(names), sha256, std::move(temporary), std::move(writer)));
}

Status DirectoryTier::replace(ObjectWriter& writer, const std::vector<ObjectName>& names, const Digest& sha256) {
  if (!writer.durable()) SY_RETURN_IF_ERROR(sync_all({{writer.link_from(), false}}));
  SY_POINT(folder_.runtime(), "tier.after_replacement_write");
  if (Status shared = add_content(writer.link_from(), sha256, writer.bytes(), true); shared.ok()) {
    SY_POINT(folder_.runtime(), "tier.after_replacement_content");
    SY_ASSIGN_OR_RETURN(const bool linked, relink(names, sha256, writer.bytes()));
    if (linked) return {};
    return {Code::kUnavailable, "the content entry of the new bytes went away", "run the same command again"};
  } else if (names.size() > 1 || shared.code() == Code::kNoSpace || !writer.may_be_renamed()) {
    return shared;
  }
  // One name, and the entry is economy; where there are no hard links, nothing ever shares its bytes.
  const std::string path = object_path(names.back());
  SY_RETURN_IF_ERROR(folder_.make_folders(attempt_path(names.back().in) + "/p"));
  const int result = folder_.rename("tier.replace", writer.link_from(), path);
  if (result < 0) return folder_.write_failure(-result, "rename", path, writer.bytes());
  writer.keep();
  SY_POINT(folder_.runtime(), "tier.after_replace");
  std::vector<SyncTarget> targets = {{attempt_path(names.back().in) + "/p", true}};
  for (std::string& folder : folders_above(names.back().in)) targets.push_back({std::move(folder), true});
  return sync_all(targets);
}

}  // namespace steelyard::tiers::directory
