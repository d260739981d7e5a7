// Reading replicas whole, of either tier, and comparing them with the manifest.
#pragma once

#include <optional>
#include <vector>

#include "formats/stored_manifest.h"
#include "store/context.h"
#include "store/progress_meter.h"
#include "store/stop_signal.h"
#include "store/verified_reader.h"

namespace steelyard::store {

/// What is wrong with the replica: its size, a block or its SHA-256; absent when it is as it was imported. `read_error`
/// is set where it could not be read now, which proves nothing.
Result<std::optional<BadObject>> check_replica(tiers::Tier& tier, const tiers::AttemptName& attempt,
                                               const formats::StoredManifest& manifest, std::uint32_t object,
                                               ReadBuffers& buffers);

/// The bad ones among `replicas`, which are payload objects of the manifest, by number. All workers read.
Result<std::vector<BadObject>> check_replicas(Context& context, tiers::Tier& tier,
                                              const formats::StoredManifest& manifest,
                                              const std::vector<tiers::ObjectName>& replicas, StopSignal& stop,
                                              ProgressMeter& progress);

}  // namespace steelyard::store
