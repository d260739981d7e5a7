// DirectoryTier: the cold tier of a local disk or mounted volume. The protocol of Put stands at the top of put.cc.
//
// The memory tier is the same protocol over a tmpfs: it gives files another way to be written and read.
//
// Thread-safety: may be used from any thread.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tiers/directory/file_reader.h"
#include "tiers/directory/file_writer.h"
#include "tiers/directory/folder.h"
#include "tiers/directory/layout.h"
#include "tiers/tier.h"

namespace steelyard::tiers::directory {

class DirectoryTier : public Tier {
 public:
  DirectoryTier(Runtime& runtime, std::string path, UniqueFd root, bool read_only, Traits traits,
                std::optional<std::uint64_t> reserve_free_bytes);

  const Traits& traits() const override { return traits_; }

  // put.cc
  Result<bool> link(const ObjectName& name, const Digest& sha256, std::uint64_t bytes) override;
  Result<std::unique_ptr<PendingPut>> start_put(const ObjectName& name, ByteView data, const Digest& sha256) override;
  Result<std::unique_ptr<PutStream>> open_put(const ObjectName& name, std::uint64_t bytes,
                                              const Digest& sha256) override;
  // flush.cc
  Status flush(const AttemptName& attempt) override;
  // read.cc
  Result<ObjectStat> stat(const ObjectName& name) override;
  Result<std::unique_ptr<PendingRead>> start_read(const ObjectName& name, std::vector<ReadRange> ranges) override;
  // listing.cc
  Result<std::vector<ObjectStat>> list_attempt(const AttemptName& attempt, std::vector<std::string>* foreign) override;
  Result<GroupListing> list_group(const std::string& group) override;
  Result<std::vector<std::string>> list_groups() override;
  Result<std::vector<ContentEntry>> list_content(std::uint8_t first_byte) override;
  Result<TierUsage> usage(const std::function<void(const ObjectStat&)>& each) override;
  Result<Room> room() override;
  std::vector<std::string> facts() override;
  // removal.cc
  Status remove(const ObjectName& name) override;
  Result<std::unique_ptr<HeldAttempt>> hold_attempt(const AttemptName& attempt) override;
  Status remove_held(const HeldAttempt& attempt) override;
  Status remove_temporaries(const AttemptName& attempt, std::int64_t idle_ms) override;
  Status remove_group(const std::string& group) override;
  Status remove_empty_group(const std::string& group) override;
  Status remove_content(const Digest& sha256) override;
  // replace.cc
  Result<ContentEntry> stat_content(const Digest& sha256) override;
  Result<std::unique_ptr<PendingRead>> start_read_content(const Digest& sha256, std::vector<ReadRange> ranges) override;
  Result<bool> relink(const std::vector<ObjectName>& names, const Digest& sha256, std::uint64_t bytes) override;
  Result<std::unique_ptr<PutStream>> open_replacement(std::vector<ObjectName> names, std::uint64_t bytes,
                                                      const Digest& sha256) override;
  // markers.cc
  Status put_committed(const AttemptName& attempt, std::string_view bytes) override;
  Result<std::string> read_committed(const AttemptName& attempt) override;
  Status replace_committed(const AttemptName& attempt, std::string_view bytes) override;
  Status put_deleting(const std::string& group, std::string_view bytes) override;
  Result<std::string> read_deleting(const std::string& group) override;
  Status remove_deleting(const std::string& group) override;
  Status check_removable(const std::string& group) override;
  Status put_catalog_copy(std::uint64_t sequence, std::string_view bytes) override;
  Result<std::vector<std::uint64_t>> list_catalog_copies() override;
  Result<std::string> read_catalog_copy(std::uint64_t sequence) override;
  Result<CatalogCopyHead> read_catalog_copy_head(std::uint64_t sequence, std::size_t bytes_max) override;
  Status remove_catalog_copy(std::uint64_t sequence) override;
  Status remove_catalog_temporaries(std::int64_t changed_before_ms) override;

  // --- for PendingPut and PutStream ---

  /// How an object may get its name without being written.
  enum class LinkResult : std::uint8_t {
    kLinked,
    kExisted,
    kAbsent,          ///< the content is not there
    kReplaceContent,  ///< the entry cannot be linked any more (EMLINK, wrong size): a new copy takes its place
    kPrivate,         ///< this filesystem or entry may not be linked (EPERM, ENOTSUP, EXDEV)
  };
  Result<LinkResult> try_link(const ObjectName& name, const Digest& sha256, std::uint64_t bytes);
  Result<std::unique_ptr<ObjectWriter>> create_temporary(const AttemptName& attempt, std::uint64_t bytes,
                                                         const LiveTemporary& temporary);
  /// Steps 4 to 7 of Put for a written and closed temporary.
  Result<PutOutcome> publish(ObjectWriter& writer, const ObjectName& name, const Digest& sha256, LinkResult before);

  /// The steps of a replacement for a written and closed temporary (replace.cc).
  Status replace(ObjectWriter& writer, const std::vector<ObjectName>& names, const Digest& sha256);

 protected:
  Folder& folder() { return folder_; }
  /// A name that this tier can have.
  Status check(const AttemptName& attempt) const;
  Status check(const ObjectName& name) const;

  // What another medium does in another way.

  /// A new file for exactly `bytes` bytes under a temporary name; `make_parents` says what to make if its folder is not
  /// there. `operation` is that of its attempt.
  virtual Result<std::unique_ptr<ObjectWriter>> new_file(const std::string& relative, std::uint64_t bytes,
                                                         const std::vector<std::string>& make_parents,
                                                         const std::string& operation = {});
  /// NOT_FOUND when the file is not there.
  virtual Result<std::unique_ptr<ObjectReader>> open_reader(const std::string& relative, std::string what);
  struct SyncTarget {
    std::string relative;
    bool is_folder = false;
  };
  virtual Status sync_all(const std::vector<SyncTarget>& targets);

 private:
  Status check_payloads(const std::vector<ObjectName>& names) const;
  Status give_content(const std::string& entry_path, const ObjectName& name, bool may_be_absent,
                      std::set<std::string>& folders);
  /// A small object whose content entry waits for Flush. Equal ones of the same attempt are linked to it until then.
  struct WaitingContent {
    ObjectName name;
    std::uint64_t bytes = 0;
    bool replace = false;
  };

  std::optional<ObjectName> waiting_equal(const AttemptName& attempt, const Digest& sha256, std::uint64_t bytes);
  Result<PutOutcome> existing(const ObjectName& name, const Digest& sha256, std::uint64_t bytes);
  static ContentEntry content_entry(const Digest& sha256, const struct stat& there);
  Result<Digest> digest_of(const std::string& relative, std::uint64_t bytes);
  int replace_content(const std::string& from, const std::string& entry_path);
  Status add_content(const std::string& from, const Digest& sha256, std::uint64_t bytes, bool replace);
  Status check_attempt_there(const AttemptName& attempt);
  Result<bool> write_and_name(const std::string& folder, const std::string& path, std::string_view bytes,
                              const std::function<int(ObjectWriter&)>& name);
  Status write_in_catalog(const std::string& path, std::string_view bytes,
                          const std::function<int(const std::string&)>& rename);
  Status name_deleting(const std::string& marker, std::string_view bytes, bool replace);
  Status create_empty(const std::string& relative);
  Result<bool> name_committed(const std::string& group, const std::string& marker);
  Status write_synced(ObjectWriter& writer, std::string_view bytes);
  Result<std::uint64_t> size_of_file(const std::string& relative, const std::string& what, std::uint64_t bytes_max);
  Result<std::string> read_first(const std::string& relative, std::string what, std::uint64_t bytes);
  Result<std::string> read_small_file(const std::string& relative, std::string what, std::uint64_t bytes_max);
  Status remove_file(const std::string& relative);
  Status remove_empty_folder(const std::string& relative);
  std::string new_temporary_name() { return folder_.runtime().random_hex(kTemporaryNameBytes); }

  Folder folder_;
  Traits traits_;
  std::optional<std::uint64_t> reserve_free_bytes_;
  std::atomic<std::uint64_t> private_copies_{0};
  std::mutex mutex_;
  std::map<AttemptName, std::map<Digest, WaitingContent>> waiting_content_;
};

}  // namespace steelyard::tiers::directory
