// A tier without a disk, for simulation and tests: a SimulatedDisk holds the bytes, and any number of tiers, as of
// several processes, are opened over it.
//
// Thread-safety: as every tier. No real I/O, no clock, no threads: everything happens inside the calls, in the order of
// the calls, so one seed gives one history.
//
// Fault model of a crash of the machine (SimulatedDisk::crash), as of a disk with a write cache and a filesystem that
// orders nothing by itself:
//   * Bytes are durable from the end of the put for objects of 1 MiB and more, from flush for smaller ones, as in the
//     directory tier. What was not durable is kept, torn (a prefix, then zeros), or empty, each with equal chance.
//   * A name that was put or linked since the attempt's last flush is kept or lost, each on its own. Its content entry
//     too. An entry is never there without its bytes being durable.
//   * A removal since the attempt's last flush is kept, or undone.
//   * Markers and catalog copies are durable when their call returned.
//   * Temporary files of puts that were under way stay, or are lost.
//   * Every tier opened before the crash belongs to a dead machine: all its calls are UNAVAILABLE and change nothing.
// A process that merely dies loses nothing: its tier may go on being called, which is how late steps of dead writers
// are played; `kill` leaves the temporary files of its pending puts behind, as SIGKILL does.
//
// The same class stands for the tmpfs of a hot tier. Then a crash takes everything, and so does SimulatedDisk::vanish,
// as of a hot tier that is wiped or whose tmpfs is unmounted while the machine goes on: the tiers over it answer
// UNAVAILABLE, and the next one opened makes another instance. What is mapped stays as it was.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/runtime.h"
#include "tiers/tier.h"

namespace steelyard::tiers {

enum class SimulatedMedium : std::uint8_t { kDisk, kMemory };

class SimulatedDisk {
 public:
  /// The seed decides what a crash takes.
  explicit SimulatedDisk(std::uint64_t seed, SimulatedMedium medium = SimulatedMedium::kDisk);
  SimulatedDisk(const SimulatedDisk&) = delete;
  SimulatedDisk& operator=(const SimulatedDisk&) = delete;
  ~SimulatedDisk();

  /// What puts may fill; NO_SPACE beyond. Absent: without end.
  void set_capacity(std::optional<std::uint64_t> bytes);
  /// The machine stops and starts again.
  void crash();
  /// A memory is wiped: everything in it goes, and the instance with it.
  void vanish();
  /// The temporary files that exist now are nobody's: their pending puts fail, and only remove_temporaries frees them.
  void kill_pending_puts();
  /// Flips one bit of an object's stored bytes, under every name that shares them; false when it is not there.
  bool rot(const ObjectName& name, std::uint64_t byte_offset);
  /// Cuts an object's stored bytes; false when it is not there.
  bool truncate(const ObjectName& name, std::uint64_t bytes);
  /// A name in an attempt that is no object's.
  void add_foreign(const AttemptName& attempt, const std::string& name);
  /// Removals of the object fail until unblocked.
  void block_removal(const ObjectName& name, bool blocked);
  std::uint64_t temporaries() const;
  /// Payload bytes written by puts since the disk was made; links write none.
  std::uint64_t written_bytes() const;

  struct State;

 private:
  friend Result<std::unique_ptr<Tier>> open_simulated(Runtime& runtime, std::shared_ptr<SimulatedDisk> disk,
                                                      bool create);
  std::shared_ptr<State> state_;
};

/// A tier over the disk, as one process has it. A memory without an instance gets one, or without `create` is
/// NOT_FOUND.
Result<std::unique_ptr<Tier>> open_simulated(Runtime& runtime, std::shared_ptr<SimulatedDisk> disk, bool create = true);

}  // namespace steelyard::tiers
