// Memory instances that records and operations name, as a process sees them that has mounted one, or none
// (docs/formats/memory-tier.md). The one place that decides it.
#pragma once

#include <cstdint>
#include <string_view>

namespace steelyard::metadata {

/// An instance with the boot that made it, as records and operations name it; or what a process has mounted, with the
/// boot that it runs in.
struct InstanceName {
  std::string_view id;       ///< empty: none
  std::string_view boot_id;  ///< of a process: empty where it could not look
};

/// What is known of a named instance.
enum class InstanceView : std::uint8_t {
  kNone,       ///< none is named
  kMounted,    ///< it is mounted here: what that lists is what there is
  kElsewhere,  ///< another one of this boot, which another container may have: read cold, publish nothing
  kGone,       ///< its memory is no more: it is of another boot, or the folder that had it has the mounted one now
};
InstanceView view_of_instance(const InstanceName& named, const InstanceName& mounted);

/// The same of what a record, an operation or a command names.
template <typename Named>
InstanceName instance_of(const Named& named) {
  return {named.hot_instance, named.hot_boot_id};
}

}  // namespace steelyard::metadata
