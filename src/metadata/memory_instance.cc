#include "metadata/memory_instance.h"

#include <cstddef>

namespace steelyard::metadata {
namespace {

/// Ids of one folder in one boot differ in their last digits alone (docs/formats/memory-tier.md).
bool is_replaced(const InstanceName& named, const InstanceName& mounted) {
  constexpr std::size_t kDigits = 32;
  constexpr std::size_t kPlaceDigits = 24;
  return named.id.size() == kDigits && mounted.id.size() == kDigits &&
         named.id.starts_with(mounted.id.substr(0, kPlaceDigits));
}

}  // namespace

InstanceView view_of_instance(const InstanceName& named, const InstanceName& mounted) {
  if (named.id.empty()) return InstanceView::kNone;
  if (named.id == mounted.id) return InstanceView::kMounted;
  const bool another_boot = !mounted.boot_id.empty() && named.boot_id != mounted.boot_id;
  return another_boot || is_replaced(named, mounted) ? InstanceView::kGone : InstanceView::kElsewhere;
}

}  // namespace steelyard::metadata
