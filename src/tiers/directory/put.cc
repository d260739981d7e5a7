// Put, step by step. Killed after any step, what lies there is written behind the arrow.
//
//   1. If the name is there: equal bytes are success, others CONFLICT.
//   2. If `content/<sha256>` has the right size, link it to the name: done. So
//      with an equal small object of this attempt that waits for Flush.        -> the object
//   3. Write `tmp/<random>`; objects of 1 MiB and more are synced.             -> a temporary file
//   4. Close it; its error counts.
//   5. link(tmp, name): create-only, whole or not at all.                      -> the object, a temporary file
//   6. Durable objects: link(tmp, content/<sha256>), or rename over an entry
//      that cannot serve any more. Small objects wait for Flush.               -> the object, its entry, perhaps tmp
//   7. unlink(tmp).                                                            -> the object, its entry
//
// Nothing is promised durable before Flush (flush.cc): it syncs small files and folders, then adds the content entries
// of small objects. So an entry is never there before its bytes are durable, and who links it has no data to sync.
// Every step works under a random temporary name or is create-only: a dead process may run any of them late.
#include <errno.h>
#include <fcntl.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "hash/sha256.h"
#include "tiers/directory/directory_tier.h"

namespace steelyard::tiers::directory {
namespace {

using LinkResult = DirectoryTier::LinkResult;

constexpr int kRenamesMax = 3;

/// The steps behind both ways to put.
class Writing {
 public:
  Writing(DirectoryTier& tier, ObjectName name, const Digest& sha256, LinkResult before,
          std::unique_ptr<LiveTemporary> temporary, std::unique_ptr<ObjectWriter> writer)
      : tier_(tier),
        name_(std::move(name)),
        sha256_(sha256),
        before_(before),
        temporary_(std::move(temporary)),
        writer_(std::move(writer)) {}

  ObjectWriter& writer() { return *writer_; }
  Result<PutOutcome> finish() {
    SY_CHECK(writer_ != nullptr, "a put is finished once");
    const std::unique_ptr<ObjectWriter> writer = std::move(writer_);
    if (auto closed = writer->close(); !closed.ok()) return std::move(closed).annotate("putting", describe(name_));
    return tier_.publish(*writer, name_, sha256_, before_);
  }

 private:
  DirectoryTier& tier_;
  ObjectName name_;
  Digest sha256_;
  LinkResult before_;
  std::unique_ptr<LiveTemporary> temporary_;  // outlives the writer, which removes the file
  std::unique_ptr<ObjectWriter> writer_;
};

class EndedPut final : public PendingPut {
 public:
  explicit EndedPut(PutOutcome outcome) : outcome_(outcome) {}
  Result<PutOutcome> finish() override { return outcome_; }

 private:
  PutOutcome outcome_;
};

class WritingPut final : public PendingPut {
 public:
  explicit WritingPut(Writing writing) : writing_(std::move(writing)) {}
  Result<PutOutcome> finish() override { return writing_.finish(); }

 private:
  Writing writing_;
};

class WritingStream final : public PutStream {
 public:
  explicit WritingStream(Writing writing) : writing_(std::move(writing)) {}
  Status append(ByteView bytes) override { return writing_.writer().append(bytes); }
  Result<PutOutcome> finish() override { return writing_.finish(); }

 private:
  Writing writing_;
};

/// The object had its name before anything was appended: the bytes are counted, and that is all.
class EndedStream final : public PutStream {
 public:
  EndedStream(PutOutcome outcome, std::uint64_t bytes) : outcome_(outcome), bytes_left_(bytes) {}
  Status append(ByteView bytes) override {
    if (bytes.size() > bytes_left_) return {Code::kCorrupt, "more bytes were given than promised"};
    bytes_left_ -= bytes.size();
    return {};
  }
  Result<PutOutcome> finish() override {
    if (bytes_left_ != 0) return Status(Code::kCorrupt, "fewer bytes were given than promised");
    return outcome_;
  }

 private:
  PutOutcome outcome_;
  std::uint64_t bytes_left_;
};

bool has_name(LinkResult result) { return result == LinkResult::kLinked || result == LinkResult::kExisted; }

PutOutcome outcome_of(LinkResult result) {
  return result == LinkResult::kLinked ? PutOutcome::kLinked : PutOutcome::kExisted;
}

bool cannot_share(int error) { return error == -EPERM || error == -EOPNOTSUPP || error == -EXDEV || error == -EACCES; }

}  // namespace

Result<bool> DirectoryTier::link(const ObjectName& name, const Digest& sha256, std::uint64_t bytes) {
  SY_RETURN_IF_ERROR(check(name));
  SY_RETURN_IF_ERROR(folder_.check_writable());
  SY_ASSIGN_OR_RETURN(const LinkResult result, try_link(name, sha256, bytes));
  return has_name(result);
}

Result<std::unique_ptr<PendingPut>> DirectoryTier::start_put(const ObjectName& name, ByteView data,
                                                             const Digest& sha256) {
  SY_RETURN_IF_ERROR(check(name));
  SY_RETURN_IF_ERROR(folder_.check_writable());
  SY_ASSIGN_OR_RETURN(const LinkResult before, try_link(name, sha256, data.size()));
  if (has_name(before)) return std::unique_ptr<PendingPut>(std::make_unique<EndedPut>(outcome_of(before)));
  auto temporary = std::make_unique<LiveTemporary>(new_temporary_name());
  SY_ASSIGN_OR_RETURN(auto writer, create_temporary(name.in, data.size(), *temporary));
  writer->start_whole(data);
  return std::unique_ptr<PendingPut>(
      std::make_unique<WritingPut>(Writing(*this, name, sha256, before, std::move(temporary), std::move(writer))));
}

Result<std::unique_ptr<PutStream>> DirectoryTier::open_put(const ObjectName& name, std::uint64_t bytes,
                                                           const Digest& sha256) {
  SY_RETURN_IF_ERROR(check(name));
  SY_RETURN_IF_ERROR(folder_.check_writable());
  SY_ASSIGN_OR_RETURN(const LinkResult before, try_link(name, sha256, bytes));
  if (has_name(before)) return std::unique_ptr<PutStream>(std::make_unique<EndedStream>(outcome_of(before), bytes));
  auto temporary = std::make_unique<LiveTemporary>(new_temporary_name());
  SY_ASSIGN_OR_RETURN(auto writer, create_temporary(name.in, bytes, *temporary));
  return std::unique_ptr<PutStream>(
      std::make_unique<WritingStream>(Writing(*this, name, sha256, before, std::move(temporary), std::move(writer))));
}

Result<std::unique_ptr<ObjectWriter>> DirectoryTier::new_file(const std::string& relative, std::uint64_t bytes,
                                                              const std::vector<std::string>& make_parents,
                                                              const std::string& /*operation*/) {
  SY_ASSIGN_OR_RETURN(auto writer, FileWriter::create(folder_, relative, bytes, make_parents));
  return std::unique_ptr<ObjectWriter>(std::move(writer));
}

Result<std::unique_ptr<ObjectWriter>> DirectoryTier::create_temporary(const AttemptName& attempt, std::uint64_t bytes,
                                                                      const LiveTemporary& temporary) {
  const std::string folder = attempt_path(attempt);
  return new_file(temporary_path(attempt, temporary.name()), bytes, {folder + "/p", folder + "/tmp"},
                  attempt.operation);
}

/// Steps 1 and 2.
Result<LinkResult> DirectoryTier::try_link(const ObjectName& name, const Digest& sha256, std::uint64_t bytes) {
  const std::string path = object_path(name);
  struct stat there {};
  int result = folder_.stat(path, &there);
  if (result == 0) {
    SY_ASSIGN_OR_RETURN(const PutOutcome outcome, existing(name, sha256, bytes));
    static_cast<void>(outcome);
    return LinkResult::kExisted;
  }
  if (result != -ENOENT) return folder_.write_failure(-result, "stat", path, bytes);
  if (name.kind == ObjectKind::kManifest) return LinkResult::kAbsent;

  if (const auto equal = waiting_equal(name.in, sha256, bytes)) {
    // Flush syncs small files by their names, so this one too. Whatever is in the way, the object is written.
    if (folder_.link("tier.link_content", object_path(*equal), path) == 0) return LinkResult::kLinked;
  }
  const std::string entry_path = content_path(sha256);
  // The entry may be replaced between its stat and the link; then what was linked is looked at again.
  for (int round = 0; round < 3; ++round) {
    struct stat entry {};
    result = folder_.stat(entry_path, &entry);
    if (result == -ENOENT) return LinkResult::kAbsent;
    if (result < 0) return folder_.write_failure(-result, "stat", entry_path, bytes);
    if (!S_ISREG(entry.st_mode) || static_cast<std::uint64_t>(entry.st_size) != bytes) {
      return LinkResult::kReplaceContent;
    }
    result = folder_.link("tier.link_content", entry_path, path);
    if (result == -ENOENT) {
      // The attempt's folder is not there yet, or the entry has just gone.
      SY_RETURN_IF_ERROR(folder_.make_folders(attempt_path(name.in) + "/p", bytes));
      result = folder_.link("tier.link_content", entry_path, path);
    }
    if (result == -ENOENT) return LinkResult::kAbsent;
    if (result == -EEXIST) {
      SY_ASSIGN_OR_RETURN(const PutOutcome outcome, existing(name, sha256, bytes));
      static_cast<void>(outcome);
      return LinkResult::kExisted;
    }
    if (result == -EMLINK) return LinkResult::kReplaceContent;
    if (cannot_share(result)) return LinkResult::kPrivate;
    if (result < 0) return folder_.write_failure(-result, "link", path, bytes);
    SY_POINT(folder_.runtime(), "tier.after_link_content");

    struct stat linked {};
    result = folder_.stat(path, &linked);
    if (result < 0) return folder_.write_failure(-result, "stat", path, bytes);
    if (linked.st_ino == entry.st_ino && static_cast<std::uint64_t>(linked.st_size) == bytes)
      return LinkResult::kLinked;
    result = folder_.unlink(path);
    if (result < 0 && result != -ENOENT) return folder_.write_failure(-result, "unlink", path, 0);
  }
  return LinkResult::kReplaceContent;
}

std::optional<ObjectName> DirectoryTier::waiting_equal(const AttemptName& attempt, const Digest& sha256,
                                                       std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto waiting = waiting_content_.find(attempt);
  if (waiting == waiting_content_.end()) return std::nullopt;
  const auto found = waiting->second.find(sha256);
  if (found == waiting->second.end() || found->second.bytes != bytes) return std::nullopt;
  return found->second.name;
}

/// Step 1 for a name that is there. The caller vouches for the digest, so comparing digests compares bytes.
Result<PutOutcome> DirectoryTier::existing(const ObjectName& name, const Digest& sha256, std::uint64_t bytes) {
  const std::string path = object_path(name);
  struct stat there {};
  const int result = folder_.stat(path, &there);
  if (result < 0) return folder_.write_failure(-result, "stat", path, bytes);
  if (!S_ISREG(there.st_mode) || static_cast<std::uint64_t>(there.st_size) != bytes) {
    return Status(Code::kConflict, describe(name) + " is there with " + std::to_string(there.st_size) +
                                       " bytes, not the " + std::to_string(bytes) + " to put (" + folder_.full(path) +
                                       ")");
  }
  SY_ASSIGN_OR_RETURN(const Digest found, digest_of(path, bytes));
  if (found == sha256) return PutOutcome::kExisted;
  return Status(Code::kConflict, describe(name) + " is there with SHA-256 " + found.hex() + ", not the " +
                                     sha256.hex() + " to put (" + folder_.full(path) + ")");
}

Result<Digest> DirectoryTier::digest_of(const std::string& relative, std::uint64_t bytes) {
  constexpr std::uint64_t kStep = 1024 * 1024;
  SY_ASSIGN_OR_RETURN(auto reader, open_reader(relative, relative));
  SY_ASSIGN_OR_RETURN(
      const AlignedBuffer buffer,
      AlignedBuffer::allocate(static_cast<std::size_t>(std::min(std::max<std::uint64_t>(bytes, 1), kStep))));
  hash::Sha256 sha;
  for (std::uint64_t at = 0; at < bytes; at += kStep) {
    const ByteSpan into = buffer.span().first(static_cast<std::size_t>(std::min(kStep, bytes - at)));
    reader->start({{at, into}});
    SY_RETURN_IF_ERROR(reader->finish());
    sha.update(into);
  }
  return sha.finish();
}

Result<PutOutcome> DirectoryTier::publish(ObjectWriter& writer, const ObjectName& name, const Digest& sha256,
                                          LinkResult before) {
  Runtime& runtime = folder_.runtime();
  const std::string path = object_path(name);
  SY_POINT(runtime, "tier.after_write");
  // Step 5.
  int result = folder_.link("tier.link", writer.link_from(), path);
  if (result == -ENOENT) {
    SY_RETURN_IF_ERROR(folder_.make_folders(attempt_path(name.in) + "/p", writer.bytes()));
    result = folder_.link("tier.link", writer.link_from(), path);
  }
  bool moved = false;
  if (cannot_share(result) && writer.may_be_renamed()) {
    // No hard links here; a rename that does not replace is as good, but leaves nothing for the content index.
    folder_.note_fact("the filesystem has no hard links: equal objects are stored once each");
    result = folder_.rename_no_replace(writer.link_from(), path);
    moved = result == 0;
  }
  if (result == -EEXIST) return existing(name, sha256, writer.bytes());
  if (result < 0) {
    return folder_.write_failure(-result, "link", path, writer.bytes()).annotate("putting", describe(name));
  }
  SY_POINT(runtime, "tier.after_link");
  if (moved) {
    writer.keep();
    ++private_copies_;
    return PutOutcome::kWritten;
  }
  // Step 6.
  if (name.kind == ObjectKind::kPayload) {
    const bool replace = before == LinkResult::kReplaceContent;
    if (before == LinkResult::kPrivate) {
      ++private_copies_;
    } else if (writer.durable()) {
      // The object has its name; without an entry only its content is not shared.
      add_content(writer.link_from(), sha256, writer.bytes(), replace).ignore("an entry is economy, never safety");
    } else {
      const std::lock_guard lock(mutex_);
      waiting_content_[name.in].try_emplace(sha256, WaitingContent{name, writer.bytes(), replace});
    }
  }
  SY_POINT(runtime, "tier.after_content_link");
  // Step 7 is the writer's destructor.
  return PutOutcome::kWritten;
}

/// 0 or an errno, negative.
int DirectoryTier::replace_content(const std::string& from, const std::string& entry_path) {
  for (int tries = 1;; ++tries) {
    const LiveTemporary live(new_temporary_name());
    const std::string temporary = "catalog/tmp/" + live.name();
    int result = folder_.link("tier.content_link", from, temporary);
    if (result < 0) return result;
    result = folder_.rename("tier.rename", temporary, entry_path);
    // A gc that came in between takes it for one of a killed writer.
    if (result == -ENOENT && tries < kRenamesMax) continue;
    // After a rename it is there only where the entry had these very bytes already: that leaves both names.
    static_cast<void>(folder_.unlink(temporary));
    return result;
  }
}

/// Step 6. `from` is a temporary name or the object's own; a replacement goes through a new name in `catalog/tmp`.
Status DirectoryTier::add_content(const std::string& from, const Digest& sha256, std::uint64_t bytes, bool replace) {
  const std::string entry_path = content_path(sha256);
  int result = folder_.link("tier.content_link", from, entry_path);
  if (result == -ENOENT) {
    SY_RETURN_IF_ERROR(folder_.make_folders(entry_path.substr(0, entry_path.rfind('/'))));
    result = folder_.link("tier.content_link", from, entry_path);
  }
  if (result == -EEXIST && !replace) {
    // Somebody else put the same content meanwhile; both copies stay as they are.
    struct stat entry {};
    result = folder_.stat(entry_path, &entry);
    if (result == 0 && S_ISREG(entry.st_mode) && static_cast<std::uint64_t>(entry.st_size) == bytes) return {};
    result = -EEXIST;
  }
  if (result == -EEXIST) {
    SY_RETURN_IF_ERROR(folder_.make_folders("catalog/tmp"));
    result = replace_content(from, entry_path);
  }
  if (result == 0) return {};
  ++private_copies_;
  if (cannot_share(result)) folder_.note_fact("the filesystem refuses hard links: equal objects are stored once each");
  return folder_.write_failure(-result, "link", entry_path, bytes);
}

}  // namespace steelyard::tiers::directory
