#include "store/import_room.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/units.h"
#include "formats/ref.h"
#include "store/make_room.h"
#include "store/payload_pipeline.h"
#include "store/progress_meter.h"
#include "store/resolve.h"

namespace steelyard::store {
namespace {

/// "m@main": the generation is not known yet.
std::string name_of_lineage(const formats::Lineage& lineage) {
  const std::string ref = formats::format_ref({lineage, 1});
  return ref.substr(0, ref.rfind('#'));
}

/// What of it memory does not hold.
Result<std::uint64_t> read_what_is_missing(Context& context, tiers::Tier& tier, Source& source,
                                           const formats::CheckpointPlan& plan, const ImportLayout& layout,
                                           Observer& observer, StopSignal& stop) {
  ProgressMeter progress(context.runtime, observer, "verify", plan.logical_bytes, plan.files.size());
  PayloadPipeline pipeline(context, source, plan, layout, {}, {.digest_only = true}, stop, progress);
  SY_RETURN_IF_ERROR(pipeline.run());
  progress.finish();
  formats::StoredManifest manifest;
  manifest.objects = std::move(pipeline.objects());
  return room_for(tier, manifest, {}, [](std::uint32_t) { return true; });
}

}  // namespace

Status check_memory_for_import(Context& context, const ImportRequest& request, Source& source,
                               const formats::CheckpointPlan& plan, const ImportLayout& layout, Observer& observer,
                               StopSignal& stop) {
  if (context.hot == nullptr) return {Code::kUnavailable, "this store has no memory tier"};
  SY_ASSIGN_OR_RETURN(const auto tier, context.hot->make());
  std::uint64_t wanted_bytes = 0;
  for (const ObjectSpan& object : layout.objects) wanted_bytes += tier->charged_bytes(object.bytes);
  SY_ASSIGN_OR_RETURN(const tiers::Room room, tier->room());
  if (room.check(wanted_bytes).ok()) return {};
  const std::uint64_t whole_bytes = wanted_bytes;
  SY_ASSIGN_OR_RETURN(const tiers::TierUsage usage, tier->usage());
  if (room.check(wanted_bytes - std::min(wanted_bytes, usage.bytes)).ok()) {
    SY_ASSIGN_OR_RETURN(wanted_bytes, read_what_is_missing(context, *tier, source, plan, layout, observer, stop));
  }
  Status full = tier->check_fits(wanted_bytes);
  if (full.code() != Code::kNoSpace) return full;
  const formats::Lineage lineage = lineage_of(request.target);
  std::string what = name_of_lineage(lineage) + ", which was not imported";
  if (wanted_bytes < whole_bytes) {
    what += fmt::format(" ({} of its {} are there)", format_size(whole_bytes - wanted_bytes), format_size(whole_bytes));
  }
  return refuse_import_for_room(context, wanted_bytes, std::move(full)).annotate("finding room in memory for", what);
}

}  // namespace steelyard::store
