// What the operations of a history came to: checkers are worth nothing where nothing happens.
#pragma once

#include <cstdint>

namespace steelyard::sim {

struct Tally {
  // Operations that were DONE:
  std::uint64_t evicted = 0;
  std::uint64_t rehydrated = 0;
  std::uint64_t repaired = 0;
  std::uint64_t mixed = 0;    ///< of the first two, those with a ratio
  std::uint64_t resumed = 0;  ///< of all, those that went on under another runner
  // Others:
  std::uint64_t cancelled = 0;
  std::uint64_t for_room = 0;   ///< evictions begun to make room for another revision
  std::uint64_t by_policy = 0;  ///< begun because a policy asked for it
  std::uint64_t paused = 0;     ///< evictions that waited for a lease

  Tally& operator+=(const Tally& other) {
    evicted += other.evicted;
    rehydrated += other.rehydrated;
    repaired += other.repaired;
    mixed += other.mixed;
    resumed += other.resumed;
    cancelled += other.cancelled;
    for_room += other.for_room;
    by_policy += other.by_policy;
    paused += other.paused;
    return *this;
  }
};

}  // namespace steelyard::sim
