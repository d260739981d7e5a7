// MemoryTier: the hot tier, objects in a tmpfs. The directory tier's protocol (directory/put.cc) with files that have
// all their memory before they have a name, an account of the capacity (account.h), and mappings.
//
// Thread-safety: may be used from any thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tiers/directory/directory_tier.h"
#include "tiers/memory/account.h"
#include "tiers/open.h"

namespace steelyard::tiers::memory {

/// The instance file that was found when the tier was opened.
struct Instance {
  std::string id;
  std::string file;  ///< its whole path
  UniqueFd fd;       ///< keeps its inode from being given to another file
};

class MemoryTier final : public directory::DirectoryTier {
 public:
  MemoryTier(Runtime& runtime, std::string path, UniqueFd root, const MemoryOptions& options, Instance instance);

  Result<std::string> instance() override;

  Result<std::unique_ptr<Reservation>> reserve(const std::string& operation, std::uint64_t bytes) override;
  Result<std::unique_ptr<GroupLock>> try_lock_group(const std::string& group, bool exclusive) override;
  std::vector<std::string> lock_holders(const std::string& group) override;
  Result<TierUsage> usage(const std::function<void(const ObjectStat&)>& each) override;
  Result<Room> room() override { return account_.room(); }
  std::uint64_t charged_bytes(std::uint64_t bytes) const override { return memory::charged_bytes(bytes); }

  Status map(const ObjectName& name, std::uint64_t bytes, const AddressRange& range, std::size_t offset) override;

  // Nothing is written anew to make it durable, and nothing that must be durable lies here.
  Status flush(const AttemptName& attempt) override;
  Status put_committed(const AttemptName& attempt, std::string_view bytes) override;
  Status replace_committed(const AttemptName& attempt, std::string_view bytes) override;
  Status put_deleting(const std::string& group, std::string_view bytes) override;
  Status put_catalog_copy(std::uint64_t sequence, std::string_view bytes) override;

  // The last name takes the content with it.
  Status remove(const ObjectName& name) override;
  Status remove_held(const HeldAttempt& attempt) override;

  // What is absent from an instance that went away is not known to be absent.
  Result<ObjectStat> stat(const ObjectName& name) override;
  Result<std::unique_ptr<HeldAttempt>> hold_attempt(const AttemptName& attempt) override;
  Result<std::unique_ptr<PendingRead>> start_read(const ObjectName& name, std::vector<ReadRange> ranges) override;
  Result<std::vector<ObjectStat>> list_attempt(const AttemptName& attempt, std::vector<std::string>* foreign) override;
  Result<GroupListing> list_group(const std::string& group) override;
  Result<std::vector<std::string>> list_groups() override;
  Result<std::vector<ContentEntry>> list_content(std::uint8_t first_byte) override;
  Result<ContentEntry> stat_content(const Digest& sha256) override;
  Result<std::unique_ptr<PendingRead>> start_read_content(const Digest& sha256, std::vector<ReadRange> ranges) override;

 protected:
  Result<std::unique_ptr<directory::ObjectWriter>> new_file(const std::string& relative, std::uint64_t bytes,
                                                            const std::vector<std::string>& make_parents,
                                                            const std::string& operation) override;
  Result<std::unique_ptr<directory::ObjectReader>> open_reader(const std::string& relative, std::string what) override;
  Status sync_all(const std::vector<SyncTarget>& targets) override;

 private:
  friend class HeldReservation;
  Result<std::shared_ptr<Claim>> claim_for(const std::string& operation, std::uint64_t bytes);
  void release(const std::string& operation);
  bool is_look_due();
  Status forget_unused(const std::vector<std::uint64_t>& storages);
  Status refuse_durable(const std::string& what) const;
  template <typename T>
  Result<T> known(Result<T> found);

  Instance instance_;
  Account account_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Claim>> reservations_;  ///< by operation
  std::map<std::uint64_t, Digest> content_of_;                  ///< by storage, as it was seen last
  std::uint64_t unseen_ = 0;                                    ///< removals since of what was not seen in it
};

}  // namespace steelyard::tiers::memory
