// SimulatedTier: the tier of one process over a SimulatedDisk. It follows the directory tier's protocol step by step
// (directory/put.cc).
//
// Thread-safety: may be used from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tiers/simulated/disk_access.h"
#include "tiers/tier.h"

namespace steelyard::tiers {

class SimulatedPut;

class SimulatedTier final : public Tier, public DiskAccess {
 public:
  /// With the disk's mutex held.
  SimulatedTier(Runtime& runtime, std::shared_ptr<State> state);

  const Traits& traits() const override { return traits_; }
  Result<std::string> instance() override;

  Status map(const ObjectName& name, std::uint64_t bytes, const AddressRange& range, std::size_t offset) override;
  Result<std::unique_ptr<Reservation>> reserve(const std::string& operation, std::uint64_t bytes) override;
  Result<std::unique_ptr<GroupLock>> try_lock_group(const std::string& group, bool exclusive) override;

  Result<bool> link(const ObjectName& name, const Digest& sha256, std::uint64_t bytes) override;
  Result<std::unique_ptr<PendingPut>> start_put(const ObjectName& name, ByteView data, const Digest& sha256) override;
  Result<std::unique_ptr<PutStream>> open_put(const ObjectName& name, std::uint64_t bytes,
                                              const Digest& sha256) override;
  Status flush(const AttemptName& attempt) override;

  Result<ObjectStat> stat(const ObjectName& name) override;
  Result<std::unique_ptr<PendingRead>> start_read(const ObjectName& name, std::vector<ReadRange> ranges) override;
  Result<std::vector<ObjectStat>> list_attempt(const AttemptName& attempt, std::vector<std::string>* foreign) override;
  Result<GroupListing> list_group(const std::string& group) override;
  Result<std::vector<std::string>> list_groups() override;

  Status remove(const ObjectName& name) override;
  Result<std::unique_ptr<HeldAttempt>> hold_attempt(const AttemptName& attempt) override;
  Status remove_held(const HeldAttempt& attempt) override;
  Status remove_temporaries(const AttemptName& attempt, std::int64_t idle_ms) override;
  Status remove_group(const std::string& group) override;
  Status remove_empty_group(const std::string& group) override;

  Result<std::vector<ContentEntry>> list_content(std::uint8_t first_byte) override;
  Status remove_content(const Digest& sha256) override;

  Status put_committed(const AttemptName& attempt, std::string_view bytes) override;
  Result<std::string> read_committed(const AttemptName& attempt) override;
  Status replace_committed(const AttemptName& attempt, std::string_view bytes) override;
  Status remove_deleting(const std::string& group) override;
  Status check_removable(const std::string& group) override { return check(AttemptName{group, 0}); }
  Status put_deleting(const std::string& group, std::string_view bytes) override;
  Result<std::string> read_deleting(const std::string& group) override;
  Status put_catalog_copy(std::uint64_t sequence, std::string_view bytes) override;
  Result<std::vector<std::uint64_t>> list_catalog_copies() override;
  Result<CatalogCopyHead> read_catalog_copy_head(std::uint64_t sequence, std::size_t bytes_max) override;
  Result<std::string> read_catalog_copy(std::uint64_t sequence) override;
  Status remove_catalog_copy(std::uint64_t sequence) override;
  /// Its copies and markers appear whole, without a temporary.
  Status remove_catalog_temporaries(std::int64_t /*changed_before_ms*/) override;

  Result<ContentEntry> stat_content(const Digest& sha256) override;
  Result<std::unique_ptr<PendingRead>> start_read_content(const Digest& sha256, std::vector<ReadRange> ranges) override;
  Result<bool> relink(const std::vector<ObjectName>& names, const Digest& sha256, std::uint64_t bytes) override;
  Result<std::unique_ptr<PutStream>> open_replacement(std::vector<ObjectName> names, std::uint64_t bytes,
                                                      const Digest& sha256) override;

  Result<TierUsage> usage(const std::function<void(const ObjectStat&)>& each) override;
  Result<Room> room() override;

 private:
  friend class SimulatedPut;

  ObjectStat stat_of(const ObjectName& name, const State::Inode& inode) const;
  ContentEntry entry_of(const Digest& sha256, const State::Entry& entry) const;
  Status check(const AttemptName& attempt) const;
  Status check(const ObjectName& name) const;
  Status check_durable(const std::string& what) const;
  Status check_payloads(const std::vector<ObjectName>& names) const;
  static Status fill(const std::vector<std::byte>& bytes, const std::string& what,
                     const std::vector<ReadRange>& ranges);
  static Status not_found(const std::string& what) { return {Code::kNotFound, what + " is not in the tier"}; }
  GroupListing listing_of(const std::string& group) const;
  Status remove_object(State::Attempt& attempt, const ObjectName& name);
  void touch_content(const std::shared_ptr<State::Inode>& inode);
  /// Steps 1 and 2: how the object got its name, or nothing when it has to be written.
  Result<std::optional<PutOutcome>> try_link(const ObjectName& name, const Digest& sha256, std::uint64_t bytes);
  Result<std::unique_ptr<SimulatedPut>> make_put(const ObjectName& name, std::uint64_t bytes, const Digest& sha256);

  Traits traits_;
  std::map<AttemptName, std::vector<State::WaitingContent>> waiting_content_;  ///< guarded by the disk's mutex
};

}  // namespace steelyard::tiers
