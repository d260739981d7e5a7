// What a SimulatedDisk holds. Guarded by its mutex, which is never held across a call that can wait.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tiers/simulated.h"

namespace steelyard::tiers {

class DiskAccess;

struct SimulatedDisk::State {
  struct Inode {
    std::vector<std::byte> bytes;
    bool durable = false;
    bool being_named = false;  ///< a replacement has it, and gives it its names
  };
  struct Name {
    std::shared_ptr<Inode> inode;
    bool durable = false;
  };
  struct Entry {
    std::shared_ptr<Inode> inode;
    bool durable = false;
    std::int64_t changed_at_ms = 0;
  };
  struct WaitingContent {
    ObjectName name;
    Digest sha256;
    bool replace = false;
  };
  struct Attempt {
    bool is_there() const {
      return !objects.empty() || !temporaries.empty() || !foreign.empty() || committed.has_value();
    }
    std::uint64_t made = 0;  ///< another number each time that its folder is made
    std::map<ObjectName, Name> objects;
    std::map<ObjectName, Name> removed;  ///< since the last flush
    std::optional<std::string> committed;
    std::map<std::uint64_t, std::int64_t> temporaries;  ///< and when each was made, in wall time
    std::set<std::string> foreign;
  };

  /// A process's tier, and the operation.
  using ReservationName = std::pair<const DiskAccess*, std::string>;

  std::uint64_t next_random();
  std::uint64_t random_below(std::uint64_t bound) { return next_random() % bound; }
  std::uint64_t used_bytes() const;
  std::shared_ptr<Inode> find(const ObjectName& name) const;
  /// The attempt, made if it is not there, for something to be put into it.
  Attempt& make(const AttemptName& name);
  /// Names of the bytes, an entry of the content index included.
  std::uint64_t links(const Inode& inode) const;
  bool in_memory() const { return medium == SimulatedMedium::kMemory; }
  /// A memory frees what only its content index has.
  void drop_unused_content();
  std::uint64_t reserved_bytes() const;
  Status reserve(const ReservationName& own, std::uint64_t bytes);
  void wipe();

  mutable std::mutex mutex;
  std::uint64_t random_state = 0;
  SimulatedMedium medium = SimulatedMedium::kDisk;
  std::string place;     ///< of a memory: no other one has it
  std::string instance;  ///< of a memory; empty: none
  std::map<ReservationName, std::uint64_t> reservations;
  struct Locks {
    bool exclusive = false;
    int shared = 0;
  };
  std::map<std::string, Locks> locks;  ///< by group
  std::set<std::uint64_t> unnamed;     ///< files of puts under way in a memory, which have no names
  std::uint64_t boot = 1;              ///< raised by each crash, and when a memory vanishes
  std::uint64_t next_temporary = 1;
  std::uint64_t next_made = 1;
  std::uint64_t written_bytes = 0;
  std::optional<std::uint64_t> capacity_bytes;
  std::map<AttemptName, Attempt> attempts;
  std::map<std::string, std::string> deleting;  ///< the marker's bytes, by group
  std::map<Digest, Entry> content;
  std::map<std::uint64_t, std::string> catalog;
  std::set<ObjectName> blocked_removals;
};

}  // namespace steelyard::tiers
