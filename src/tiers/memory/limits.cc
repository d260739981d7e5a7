// What limits a hot tier, and which of it is in the way.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/checked.h"
#include "base/units.h"
#include "tiers/memory/account.h"
#include "tiers/open.h"
#include "tiers/page.h"

namespace steelyard::tiers {
namespace {

std::uint64_t without(std::uint64_t bytes, std::uint64_t taken) { return bytes > taken ? bytes - taken : 0; }

}  // namespace

MemoryPlace place_of(const struct statvfs& filesystem, std::optional<std::uint64_t> capacity,
                     std::vector<MemoryLimit> limits, std::uint64_t process_reserve_bytes) {
  MemoryPlace place;
  place.filesystem_bytes = std::uint64_t{filesystem.f_blocks} * filesystem.f_frsize;
  place.free_bytes = std::uint64_t{filesystem.f_bavail} * filesystem.f_frsize;
  place.capacity_bytes = std::min(capacity.value_or(place.filesystem_bytes / 2), place.filesystem_bytes);
  place.capacity_is_set = capacity.has_value();
  place.limits = std::move(limits);
  std::erase_if(place.limits, [](const MemoryLimit& limit) { return limit.bytes == 0; });
  place.process_reserve_bytes = process_reserve_bytes;
  return place;
}

Room MemoryPlace::room(std::uint64_t used_bytes, std::uint64_t claimed_bytes, std::uint64_t overhead_bytes) const {
  std::vector<Room> rooms;
  const auto sum = [](std::uint64_t one, std::uint64_t other) {
    return checked_add(one, other).value_or(UINT64_MAX / 2);
  };
  const auto add = [&](std::uint64_t bytes, std::uint64_t taken, std::string limit, std::string hint) {
    rooms.push_back({.bytes = without(bytes, taken),
                     .limit = std::move(limit),
                     .hint = std::move(hint),
                     .over_bytes = without(taken, bytes)});
  };
  const std::uint64_t elsewhere = without(without(filesystem_bytes, free_bytes), used_bytes);
  const auto space = format_sizes_apart({filesystem_bytes, free_bytes, elsewhere});
  add(free_bytes, sum(claimed_bytes, overhead_bytes),
      fmt::format("its filesystem has {}, of which {} are free{}", space[0], space[1],
                  elsewhere > 0 ? fmt::format(" and {} are taken by others", space[2]) : ""),
      "let that filesystem be larger (a container's --shm-size, mount -o remount,size=), name another tmpfs "
      "with hot.path (--hot-path), or free what else lies in it");
  // Where it is all of the filesystem, raising it moves nothing.
  if (capacity_bytes < filesystem_bytes) {
    const auto size = format_sizes_apart({capacity_bytes, used_bytes, claimed_bytes});
    add(capacity_bytes, sum(used_bytes, claimed_bytes),
        fmt::format("hot.capacity is {}{}, of which {} are used and {} reserved by others", size[0],
                    capacity_is_set ? "" : " (half of the filesystem)", size[1], size[2]),
        "raise hot.capacity (--hot-capacity, STEELYARD_HOT_CAPACITY)");
  }
  for (const MemoryLimit& limit : limits) {
    const bool machine = limit.used == 0 && limit.file.ends_with("meminfo");
    const auto size = format_sizes_apart({limit.bytes, limit.used, process_reserve_bytes});
    add(limit.bytes, sum(sum(limit.used, process_reserve_bytes), claimed_bytes),
        fmt::format("{} allows {}, of which {} are in use and {} are left to this process for its work", limit.file,
                    size[0], size[1], size[2]),
        machine ? "end what else uses the memory of this machine"
                : "raise the memory limit of the cgroup (the container's --memory)");
  }
  Room least = *std::ranges::min_element(rooms, {}, [](const Room& room) {
    return std::pair(room.bytes, UINT64_MAX - room.over_bytes);  // the one that is exceeded most
  });
  least.bytes = least.bytes / kPageBytes * kPageBytes;
  least.over_bytes = memory::charged_bytes(least.over_bytes);
  return least;
}

}  // namespace steelyard::tiers
